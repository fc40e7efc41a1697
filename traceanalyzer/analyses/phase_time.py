"""GPU time by phase: totals over the whole trace, and windows in each cycle.

A phase's window is the time only it runs plus the gaps that its ops end; windows and the time in
which phases overlap add up to the period, to the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.intervals import Intervals, Segments, joined_segments, sweep, total_by
from traceanalyzer.phases.attribution import launched_by_graph_call

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.cycles import Cycles
    from traceanalyzer.phases.phased import PhasedTrace


@dataclass(frozen=True, slots=True)
class CycleTime:
    """Time in each cycle, ns.

    Attributes:
        window: Shape (cycles, labels): exclusive time and gaps of each phase.
        overlap: Shape (cycles,): two phases or more run.
        gap: Shape (cycles, labels, causes): the gaps within the windows.
    """

    window: NDArray[np.int64]
    overlap: NDArray[np.int64]
    gap: NDArray[np.int64]

    @property
    def period(self) -> NDArray[np.int64]:
        """Windows and overlap together."""
        return self.window.sum(axis=1) + self.overlap


def phase_segments(work: Intervals, label: NDArray[np.int64], cycles: Cycles) -> Segments:
    """The timeline of every lane by the set of phases that run, cut at cycle borders.

    Args:
        work: Ops (or host spans) with times.
        label: Phase of each.
        cycles: Whose borders cut.
    """
    borders = cycles.spans
    lane = np.concatenate((borders.lane, borders.lane))
    time = np.concatenate((borders.start_ns, borders.end_ns))
    cuts = Intervals(lane, time, time)
    # Lane by lane the arrays stay in cache and their memory is reused: a quarter of the time.
    parts = []
    for each in np.flatnonzero(np.bincount(np.concatenate((work.lane, lane)))):
        own = work.lane == each
        parts.append(sweep(work.take(own), label[own], cuts.take(cuts.lane == each)))
    return joined_segments(parts)


def cycle_time(
    cycles_found: Cycles, segments: Segments, gaps: pl.DataFrame, shape: tuple[int, int]
) -> CycleTime:
    """Windows, overlap and gaps of every cycle.

    Args:
        cycles_found: The cycles.
        segments: Their timeline, see `phase_segments`.
        gaps: Its gaps: cycle, label, cause, ns.
        shape: How many labels and how many causes there are.
    """
    cycles, (labels, causes) = cycles_found.spans.size, shape
    cycle = cycles_found.at(segments.spans)
    duration = segments.spans.duration_ns
    one = _single_label(segments.active)
    alone = (one >= 0) & (cycle >= 0)
    exclusive = total_by(
        cycle[alone] * labels + one[alone], cycles * labels, duration[alone]
    ).reshape(cycles, labels)
    several = (one < 0) & (segments.active != 0) & (cycle >= 0)
    inside = gaps.filter(pl.col("cycle") >= 0)
    place = inside.select(
        (pl.col("cycle") * labels + pl.col("label")) * causes + pl.col("cause")
    ).to_series()
    gap = total_by(place.to_numpy(), cycles * labels * causes, inside["ns"].to_numpy()).reshape(
        cycles, labels, causes
    )
    return CycleTime(
        window=exclusive + gap.sum(axis=2),
        overlap=total_by(cycle[several], cycles, duration[several]),
        gap=gap,
    )


def _single_label(active: NDArray[np.int64]) -> NDArray[np.int64]:
    """The label of sets of one label, -1 of any other set."""
    single = (active != 0) & (active & (active - 1) == 0)
    return np.where(single, np.log2(np.maximum(active, 1)).astype(np.int64), -1)


def phase_totals(phased: PhasedTrace, segments: Segments) -> pl.DataFrame:
    """Totals over the whole trace, edge cycles included.

    Returns:
        One row a rank and phase that has ops: lane, label, ops, kernels, kernel_ns, graph_rows,
        graph_row_ns, launches, graph_launches, summed_ns, busy_ns, exclusive_ns, overlap_ns.
    """
    lanes, labels = phased.ranks.size, len(phased.labels)
    groups = lanes * labels
    group = phased.ops.lane * labels + phased.label
    kinds = phased.trace.ops["kind"]
    duration = phased.ops.duration_ns
    columns: dict[str, NDArray[np.int64]] = {
        "ops": np.bincount(group, minlength=groups),
        "summed_ns": total_by(group, groups, duration),
    }
    for kind, count, total in (
        ("kernel", "kernels", "kernel_ns"),
        ("graph", "graph_rows", "graph_row_ns"),
    ):
        rows = (kinds == kind).to_numpy()
        columns[count] = np.bincount(group[rows], minlength=groups)
        columns[total] = total_by(group[rows], groups, duration[rows])
    columns |= _launch_counts(phased, group, groups)
    columns |= _segment_totals(segments, lanes, labels)
    lane, label = np.divmod(np.arange(groups), labels)
    return pl.DataFrame({"lane": lane, "label": label, **columns}).filter(pl.col("ops") > 0)


def _launch_counts(
    phased: PhasedTrace, group: NDArray[np.int64], groups: int
) -> dict[str, NDArray[np.int64]]:
    """Distinct launches, and graph launches among them, by group."""
    launch = phased.attribution.launch
    held = launch >= 0
    pairs = np.sort(launch[held] * groups + group[held])
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: pairs.size]]
    launched, of_group = np.divmod(pairs, groups)
    by_graph = launched_by_graph_call(phased.trace, launched)
    return {
        "launches": np.bincount(of_group, minlength=groups),
        "graph_launches": np.bincount(of_group[by_graph], minlength=groups),
    }


def _segment_totals(segments: Segments, lanes: int, labels: int) -> dict[str, NDArray[np.int64]]:
    """Busy, exclusive and shared time by lane and label, flattened."""
    lane, active, duration = segments.spans.lane, segments.active, segments.spans.duration_ns
    one = _single_label(active)
    alone = np.flatnonzero(one >= 0)
    place = lane[alone] * labels + one[alone]
    exclusive = total_by(place, lanes * labels, duration[alone])
    shared = np.zeros((lanes, labels), np.int64)
    several = np.flatnonzero((one < 0) & (active != 0))
    for label in range(labels):
        on = several[active[several] >> label & 1 == 1]
        shared[:, label] = total_by(lane[on], lanes, duration[on])
    overlap = shared.ravel()
    return {"busy_ns": exclusive + overlap, "exclusive_ns": exclusive, "overlap_ns": overlap}
