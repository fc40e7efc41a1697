"""Each bucket of the report: windows with their intervals, kernel classes, what was accepted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.assembly.accepted import bucket_acceptance
from traceanalyzer.assembly.free_drafting import free_drafting
from traceanalyzer.assembly.kernel_work import KernelWork
from traceanalyzer.assembly.recorder_cost import recorder_ns
from traceanalyzer.assembly.timing import gaps_by_cause, mean_of, spread
from traceanalyzer.intervals import total_by
from traceanalyzer.phases.grouping import rows_by_key
from traceanalyzer.phases.rules import ROLLUPS, rolls_up
from traceanalyzer.report import (
    BucketPhase,
    BucketReport,
    BucketShape,
    Estimated,
    Rollup,
)
from traceanalyzer.speculation.confidence import block_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.analyses.acceptance import AcceptedInBucket
    from traceanalyzer.assembly.timing import Timing


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of cycles beside their times.

    Attributes:
        accepted: What the marks tell, by bucket.
        work: Kernel classes and launches, by bucket and label; empty on the host.
    """

    accepted: Mapping[int, AcceptedInBucket] = field(default_factory=dict)
    work: Mapping[tuple[int, int], KernelWork] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The cycles of one bucket: their rows, and those of each lane, the one with most first."""

    number: int
    rows: NDArray[np.int64]
    by_lane: Sequence[NDArray[np.int64]]

    def estimated_mean(self, values: NDArray[np.int64]) -> Estimated:
        """The mean of what every cycle has, over all lanes."""
        return estimated_mean([values[rows] for rows in self.by_lane])


def bucket_reports(timing: Timing, evidence: Evidence, order: Sequence[int]) -> list[BucketReport]:
    """The kept cycles by shape.

    Args:
        timing: Cycles with the time in them; every bucket of `order` has kept ones.
        evidence: What else is known of them.
        order: See `bucket_order`.
    """
    kept = np.flatnonzero(timing.kept())
    whole_ns = int(timing.cycles.spans.duration_ns[kept].sum())
    numbers, rows = rows_by_key(timing.buckets["bucket"].cast(pl.Int64).to_numpy()[kept])
    own = dict(zip(numbers.tolist(), (kept[each] for each in rows), strict=True))
    return [
        _report(timing, _bucket(timing, bucket, own[bucket]), evidence, whole_ns)
        for bucket in order
    ]


def bucket_order(timing: Timing) -> list[int]:
    """Numbers of the buckets that have kept cycles, the one with most time first."""
    kept = timing.kept()
    number = timing.buckets["bucket"].to_numpy()[kept]
    time_ns = total_by(
        number, 1 + int(number.max(initial=0)), timing.cycles.spans.duration_ns[kept]
    )
    found: list[int] = np.unique(number).tolist()
    return sorted(found, key=lambda bucket: -time_ns[bucket])


def _bucket(timing: Timing, number: int, rows: NDArray[np.int64]) -> _Bucket:
    _, lanes = rows_by_key(timing.cycles.spans.lane[rows])
    by_lane = [rows[own] for own in lanes]
    return _Bucket(number, rows, sorted(by_lane, key=len, reverse=True))


def _report(timing: Timing, bucket: _Bucket, evidence: Evidence, whole_ns: int) -> BucketReport:
    shape = timing.buckets.row(int(bucket.rows[0]), named=True)
    period = timing.cycles.spans.duration_ns
    overlap = float(timing.time.overlap[bucket.rows].mean())
    period_spread = spread(period[bucket.rows])
    assert period_spread is not None, "a bucket has cycles"
    mean = period_spread.mean
    phases = _phases(timing, bucket, evidence, mean)
    accepted = evidence.accepted.get(bucket.number)
    keys = ((bucket.number, label) for label in range(len(timing.labels)))
    work = [evidence.work[key] for key in keys if key in evidence.work]
    return BucketReport(
        shape=BucketShape(**{name: shape[name] for name in BucketShape.__slots__}),
        ranks=len(set(timing.cycles.spans.lane[bucket.rows].tolist())),
        cycles=int(bucket.rows.size),
        time_share=int(period[bucket.rows].sum()) / whole_ns if whole_ns else 0.0,
        period_ns=period_spread,
        mean_period_ns=bucket.estimated_mean(period),
        recorder_ns_per_cycle=recorder_ns(timing, bucket.rows, work),
        overlap_ns_per_cycle=overlap,
        overlap_share=overlap / mean if mean else 0.0,
        phases=phases,
        rollups=_rollups(phases) if "verify" in str(shape["kind"]) else [],
        acceptance=bucket_acceptance(accepted, shape) if accepted else None,
        free_drafting=free_drafting(phases, mean) if "verify" in str(shape["kind"]) else None,
    )


def estimated_mean(by_lane: Sequence[NDArray[np.int64]]) -> Estimated:
    """The mean over all lanes, each in the order of its cycles.

    The ranks of a group run the same cycles: counting each would only pretend to know more, so the
    interval is that of the first, unless another's mean lies outside of it (a stage of a pipeline,
    a data-parallel rank). Each lane's interval then counts by its cycles; they add up plainly, as
    of ranks that wait for one another.
    """
    mean = float(np.concatenate(by_lane).mean())
    first = block_mean(by_lane[0].tolist())
    if first is None:
        return Estimated(mean)
    alike = all(first.low <= float(values.mean()) <= first.high for values in by_lane[1:])
    others = [] if alike else by_lane[1:]
    found = [first, *(block_mean(values.tolist()) for values in others)]
    sizes = [len(values) for values in by_lane[: len(found)]]
    below = above = 0.0
    for each, size in zip(found, sizes, strict=True):
        if each is None:
            return Estimated(mean)
        below += (each.value - each.low) * size / sum(sizes)
        above += (each.high - each.value) * size / sum(sizes)
    return Estimated(mean, mean - below, mean + above)


def _rollups(phases: Sequence[BucketPhase]) -> list[Rollup]:
    rollups = []
    for name in ROLLUPS:
        own = [phase for phase in phases if rolls_up(phase.phase, name)]
        if own:
            mean = sum(phase.window_ns_per_cycle.mean for phase in own)
            rollups.append(Rollup(name, mean, sum(phase.window_share for phase in own)))
    return rollups


def _phases(
    timing: Timing, bucket: _Bucket, evidence: Evidence, mean_period_ns: float
) -> list[BucketPhase]:
    rows, phases = bucket.rows, []
    gaps = mean_of(timing.time.gap[rows])
    totals = timing.time.gap[rows].sum(axis=0)
    for label, phase in enumerate(timing.labels):
        window = spread(timing.time.window[rows, label])
        if window is None or not window.mean:
            continue
        work = evidence.work.get((bucket.number, label), KernelWork())
        mean_window = bucket.estimated_mean(timing.time.window[:, label])
        every = np.array_equal(work.shown, rows)
        shown = mean_window if every else _window_in(timing, bucket, label, work.shown)
        phases.append(
            BucketPhase(
                phase=phase,
                window_ns_per_cycle=window,
                window_ns=mean_window,
                window_share=window.mean / mean_period_ns if mean_period_ns else 0.0,
                gap_ns_per_cycle=float(gaps[label].sum()),
                gaps=gaps_by_cause(timing, totals[label], gaps[label]),
                graph_launches_per_cycle=work.graph_launches / rows.size,
                kernel_launches_per_cycle=work.kernel_launches / rows.size,
                classes=work.classes,
                class_cycles=int(work.shown.size),
                class_window_ns=shown.value if shown else 0.0,
                class_window_half_width_ns=_half_width(shown),
                class_idle_half_width_ns=work.idle_half_width_ns,
                kernel_blocks=work.blocks,
                kernel_slots=work.slots,
                whole_cycles=int(work.hidden.size),
                whole_window_ns=_window_in(timing, bucket, label, work.hidden),
            )
        )
    return phases


def _window_in(
    timing: Timing, bucket: _Bucket, label: int, rows: NDArray[np.int64]
) -> Estimated | None:
    """Mean window in some cycles of the bucket, None in none."""
    if not rows.size:
        return None
    return _bucket(timing, bucket.number, rows).estimated_mean(timing.time.window[:, label])


def _half_width(found: Estimated | None) -> float | None:
    return None if found is None or found.high is None else found.high - found.value
