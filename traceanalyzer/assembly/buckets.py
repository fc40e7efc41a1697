"""Each bucket of the report: windows with their intervals, kernel classes, what was accepted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.assembly.accepted import bucket_acceptance
from traceanalyzer.assembly.timing import gaps_by_cause, mean_of, spread
from traceanalyzer.phases.rules import ROLLUPS
from traceanalyzer.report import (
    BucketPhase,
    BucketReport,
    BucketShape,
    ClassTime,
    Estimated,
    Rollup,
)
from traceanalyzer.speculation.confidence import block_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.analyses.acceptance import AcceptedInBucket
    from traceanalyzer.assembly.timing import Timing

_WHOLE_GRAPH: Final = "whole graph"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of cycles beside their times.

    Attributes:
        accepted: What the marks tell, by bucket.
        launches: See `cycle_launches`; None on the host.
        classes: See `class_time`, with the classes' names; None on the host.
        longest: See `longest_kernels`; None on the host.
    """

    accepted: Mapping[int, AcceptedInBucket] = field(default_factory=dict)
    launches: pl.DataFrame | None = None
    classes: pl.DataFrame | None = None
    longest: pl.DataFrame | None = None


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The cycles of one bucket: their rows, and the rows of the lane with most of them."""

    number: int
    rows: NDArray[np.int64]
    series: NDArray[np.int64]


def bucket_reports(timing: Timing, evidence: Evidence) -> list[BucketReport]:
    """The kept cycles by shape, the shape with most time first."""
    kept = timing.kept()
    whole_ns = int(timing.cycles.spans.duration_ns[kept].sum())
    number = timing.buckets["bucket"].to_numpy()
    reports = [
        _report(
            timing,
            _bucket(timing, int(bucket), np.flatnonzero(kept & (number == bucket))),
            evidence,
            whole_ns,
        )
        for bucket in np.unique(number[kept])
    ]
    return sorted(reports, key=lambda report: -report.time_share)


def _bucket(timing: Timing, number: int, rows: NDArray[np.int64]) -> _Bucket:
    lane = timing.cycles.spans.lane[rows]
    return _Bucket(number, rows, rows[lane == np.bincount(lane).argmax()])


def _report(timing: Timing, bucket: _Bucket, evidence: Evidence, whole_ns: int) -> BucketReport:
    shape = timing.buckets.row(int(bucket.rows[0]), named=True)
    period = timing.cycles.spans.duration_ns
    overlap = float(timing.time.overlap[bucket.rows].mean())
    period_spread = spread(period[bucket.rows])
    assert period_spread is not None, "a bucket has cycles"
    mean = period_spread.mean
    phases = _phases(timing, bucket, evidence, mean)
    accepted = evidence.accepted.get(bucket.number)
    return BucketReport(
        shape=BucketShape(**{name: shape[name] for name in BucketShape.__slots__}),
        ranks=len(set(timing.cycles.spans.lane[bucket.rows].tolist())),
        cycles=int(bucket.rows.size),
        time_share=int(period[bucket.rows].sum()) / whole_ns if whole_ns else 0.0,
        period_ns=period_spread,
        mean_period_ns=estimated_mean(mean, period[bucket.series]),
        overlap_ns_per_cycle=overlap,
        overlap_share=overlap / mean if mean else 0.0,
        phases=phases,
        rollups=_rollups(phases) if "verify" in str(shape["kind"]) else [],
        acceptance=bucket_acceptance(accepted, shape["verified_tokens"]) if accepted else None,
    )


def estimated_mean(mean: float, series: NDArray[np.int64]) -> Estimated:
    """The mean over all ranks, with the interval of one rank's cycles in order.

    The ranks of a group run the same cycles: counting each would only pretend to know more.
    """
    found = block_mean(series.tolist())
    if found is None:
        return Estimated(mean)
    return Estimated(mean, mean + found.low - found.value, mean + found.high - found.value)


def _rollups(phases: Sequence[BucketPhase]) -> list[Rollup]:
    rollups = []
    for name, members in ROLLUPS.items():
        own = [phase for phase in phases if phase.phase in members]
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
    launches = _launches(bucket, evidence.launches)
    classes = _classes(timing, bucket, evidence)
    for label, phase in enumerate(timing.labels):
        window = spread(timing.time.window[rows, label])
        if window is None or not window.mean:
            continue
        graphs, kernels = launches.get(label, (0, 0))
        class_time = classes.get(label, _ClassMeans())
        phases.append(
            BucketPhase(
                phase=phase,
                window_ns_per_cycle=window,
                window_ns=estimated_mean(window.mean, timing.time.window[bucket.series, label]),
                window_share=window.mean / mean_period_ns if mean_period_ns else 0.0,
                gap_ns_per_cycle=float(gaps[label].sum()),
                gaps=gaps_by_cause(timing, totals[label], gaps[label]),
                graph_launches_per_cycle=graphs / rows.size,
                kernel_launches_per_cycle=kernels / rows.size,
                classes=class_time.classes,
                class_cycles=class_time.cycles,
                class_window_ns=class_time.window_ns,
            )
        )
    return phases


def _launches(bucket: _Bucket, launches: pl.DataFrame | None) -> dict[int, tuple[int, int]]:
    """Graph and kernel launches of each label in the bucket's cycles."""
    if launches is None:
        return {}
    own = launches.filter(pl.col("cycle").is_in(bucket.rows)).group_by("label")
    found = own.agg(pl.sum("graph_launches"), pl.sum("kernel_launches"))
    return {label: (graphs, kernels) for label, graphs, kernels in found.iter_rows()}


@dataclass(frozen=True, slots=True)
class _ClassMeans:
    """Kernel classes of one phase, over the cycles that show all of its kernels."""

    cycles: int = 0
    window_ns: float = 0.0
    classes: list[ClassTime] = field(default_factory=list)


def _classes(timing: Timing, bucket: _Bucket, evidence: Evidence) -> dict[int, _ClassMeans]:
    """Kernel classes by label; a whole-graph row hides the kernels of its cycle and label."""
    if evidence.classes is None:
        return {}
    own = evidence.classes.filter(pl.col("cycle").is_in(bucket.rows))
    hidden = (pl.col("class") == _WHOLE_GRAPH).any().over("cycle", "label")
    longest = _longest(bucket, evidence.longest)
    return {
        int(label): _class_means(timing, int(label), rows, longest)
        for (label,), rows in own.filter(~hidden).group_by("label", maintain_order=True)
    }


def _longest(bucket: _Bucket, longest: pl.DataFrame | None) -> dict[tuple[int, str], str]:
    """The longest kernel of each label and class."""
    if longest is None:
        return {}
    own = longest.filter(pl.col("bucket") == bucket.number)
    return {(label, name): kernel for _, label, name, kernel in own.iter_rows()}


def _class_means(
    timing: Timing, label: int, seen: pl.DataFrame, longest: Mapping[tuple[int, str], str]
) -> _ClassMeans:
    cycles = seen["cycle"].unique().to_numpy()
    sums = seen.group_by("class").agg(pl.sum("ops"), pl.sum("busy_ns"))
    means = [
        ClassTime(name, ops / cycles.size, busy_ns / cycles.size, longest.get((label, name)))
        for name, ops, busy_ns in sums.sort(-pl.col("busy_ns"), "class").iter_rows()
    ]
    return _ClassMeans(cycles.size, float(timing.time.window[cycles, label].mean()), means)
