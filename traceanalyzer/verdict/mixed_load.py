"""All buckets together: each one's tokens at its own plain step, over the wall time of all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traceanalyzer.report import Estimated, MixedLoad
from traceanalyzer.speculation.speedup import BucketLoad, mixed_speedup
from traceanalyzer.verdict.buckets import outcome_of
from traceanalyzer.verdict.estimates import NS_PER_MS, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketReport, BucketVerdict, Report
    from traceanalyzer.verdict.baseline import Baseline


def mixed_load(
    report: Report, verdicts: Sequence[BucketVerdict], baseline: Baseline
) -> MixedLoad | None:
    """The speed-up of the whole load, plain steps of the speculating server included.

    Args:
        report: Its buckets, all of them.
        verdicts: Of those that speculate.
        baseline: Plain decode steps.

    Returns:
        None where there is one bucket alone, which speaks for itself.
    """
    if len(report.buckets) < 2:
        return None
    loads = [_load(bucket, baseline) for bucket in report.buckets]
    found = mixed_speedup(loads)
    if found.speedup is None:
        return MixedLoad(None, found.matched_share)
    half = _half_widths(report, loads, verdicts, found.speedup)
    speedup = Estimated(found.speedup, found.speedup - half[0], found.speedup + half[1])
    return MixedLoad(speedup, found.matched_share)


def _load(bucket: BucketReport, baseline: Baseline) -> BucketLoad:
    """Tokens and time of a bucket, those of every rank: groups of one size weigh the same."""
    requests, committed = _per_cycle(bucket)
    return BucketLoad(
        committed * bucket.cycles,
        bucket.mean_period_ns.value / NS_PER_MS * bucket.cycles,
        requests or 1,
        _plain_step_ms(bucket, baseline, requests, committed) if requests else None,
    )


def _plain_step_ms(
    bucket: BucketReport, baseline: Baseline, requests: float, committed: float
) -> float | None:
    """A plain step for each token of a request; None where none was measured.

    Where prompt tokens are carried along, one of those steps carries them on a plain server too:
    a step without them says too little, one with them in every step too much.
    """
    shape = bucket.shape
    step = baseline.at(shape, only_shape=False)
    if not shape.prompt_tokens:
        return step.period_ns.value / NS_PER_MS if step else None
    first, each = baseline.with_prompt(shape), committed / requests
    if first is None or (step is None and each > 1):
        return None
    rest_ns = (each - 1) * step.period_ns.value if step else 0.0
    return (first.period_ns.value + rest_ns) / each / NS_PER_MS


def _per_cycle(bucket: BucketReport) -> tuple[float, float]:
    """Live requests and committed tokens of a cycle, zeros where they are not known."""
    found = bucket.acceptance
    if found is not None:
        return found.request_cycles / found.cycles, found.committed_per_cycle.value
    if bucket.shape.kind == "decode" and bucket.shape.batch:
        return bucket.shape.batch, bucket.shape.batch  # a plain step commits one token a request
    return 0.0, 0.0


def _half_widths(
    report: Report,
    loads: Sequence[BucketLoad],
    verdicts: Sequence[BucketVerdict],
    speedup: float,
) -> tuple[float, float]:
    """Below and above: the buckets' own doubts, weighted by their share of the matched time."""
    known = {each.bucket: each.speedup for each in verdicts if each.speedup is not None}
    wall_ms = math.fsum(load.wall_ms for load in loads if load.baseline_ms is not None)
    below, above = [], []
    for place, load in enumerate(loads):
        if load.baseline_wall_ms is None:
            continue
        weight, own = load.wall_ms / wall_ms, load.baseline_wall_ms / load.wall_ms
        down, up = _doubt(report.buckets[place], known.get(place), own)
        below.append(weight * down)
        above.append(weight * up)
    return min(math.hypot(*below), speedup), math.hypot(*above)


def _doubt(bucket: BucketReport, speedup: Estimated | None, value: float) -> tuple[float, float]:
    """How far a bucket's speed-up may lie below and above: by all of it, where nothing tells."""
    accepted = bucket.acceptance.accept_len if bucket.acceptance else None
    found = speedup or accepted
    if found is None:
        return 0.0, 0.0  # a plain step commits a fixed number of tokens; its time is sure enough
    if any(each.low is None for each in (bucket.mean_period_ns, accepted) if each is not None):
        return value, value
    exact = plain(found)
    return value * (1 - exact.low / exact.value), value * (exact.high / exact.value - 1)


def outcome_over_all(verdicts: Sequence[BucketVerdict], mixed: MixedLoad | None) -> str:
    """One word for the whole: of the only bucket, or of all that make up most of the time."""
    known = {each.outcome for each in verdicts if each.speedup is not None}
    if not known:
        return "unknown"
    if mixed is None:
        return known.pop()
    if {"winning", "losing"} <= known:
        return "mixed"
    if mixed.speedup is None:
        return "unknown"
    return outcome_of(mixed.speedup, known=known != {"undecided"} or mixed.speedup.low is not None)
