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
    if half is None:
        return MixedLoad(Estimated(found.speedup), found.matched_share)
    speedup = Estimated(found.speedup, found.speedup - half[0], found.speedup + half[1])
    return MixedLoad(speedup, found.matched_share)


def _load(bucket: BucketReport, baseline: Baseline) -> BucketLoad:
    """Tokens and time of a bucket, those of every rank: groups of one size weigh the same."""
    step = baseline.at(bucket.shape, only_shape=False)
    requests, committed = _per_cycle(bucket)
    matched = step is not None and requests
    return BucketLoad(
        committed * bucket.cycles,
        bucket.mean_period_ns.value / NS_PER_MS * bucket.cycles,
        requests or 1,
        step.period_ns.value / NS_PER_MS if step and matched else None,
    )


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
) -> tuple[float, float] | None:
    """Below and above: the buckets' own doubts, weighted by their share of the matched time."""
    known = {each.bucket: each.speedup for each in verdicts if each.speedup is not None}
    wall_ms = math.fsum(load.wall_ms for load in loads if load.baseline_ms is not None)
    below, above = [], []
    for place, load in enumerate(loads):
        found = known.get(place)
        if load.baseline_ms is None or found is None:
            continue  # a plain step commits a fixed number of tokens, and its time is sure enough
        if found.low is None or found.high is None:
            return None
        weight = load.wall_ms / wall_ms
        exact = plain(found)
        below.append(weight * (exact.value - exact.low))
        above.append(weight * (exact.high - exact.value))
    return min(math.hypot(*below), speedup), math.hypot(*above)


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
