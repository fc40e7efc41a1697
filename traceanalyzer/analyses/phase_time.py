"""GPU time by phase: totals over the whole trace, and windows in each cycle.

A phase's window is the time only it runs plus the gaps that its ops end; windows and the time in
which phases overlap add up to the period, to the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import (
    Intervals,
    Segments,
    joined_segments,
    places_in,
    sweep,
    total_by,
)
from traceanalyzer.phases.attribution import launched_by_graph_call
from traceanalyzer.phases.grouping import distinct, parted, without_repeats
from traceanalyzer.schema import OP_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.phases.cycles import Cycles
    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.phased import PhasedTrace


_OPS_AT_ONCE: Final = 1 << 16
_SEGMENTS_AT_ONCE: Final = 1 << 18
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


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
    parts: list[Segments] = []
    lanes = 1 + max(int(own.max(initial=-1)) for own in (work.lane, lane))
    for each in np.flatnonzero(sum(np.bincount(own, minlength=lanes) for own in (work.lane, lane))):
        own = work.lane == each
        of_own = label if own.all() else label[own]
        parts += _of_lane(work.take(own), of_own, cuts.take(cuts.lane == each))
    return joined_segments(parts)


def _of_lane(work: Intervals, label: NDArray[np.int64], cuts: Intervals) -> list[Segments]:
    """The segments of one lane, in stretches of time that its cuts part anyway.

    So arrays stay in cache and their memory is reused: a quarter of the time and of the memory.
    """
    cuts = cuts.take(np.argsort(cuts.start_ns))
    started = np.searchsorted(np.sort(work.start_ns, kind="stable"), cuts.start_ns)
    cut = np.searchsorted(started, np.arange(_OPS_AT_ONCE, work.size, _OPS_AT_ONCE))
    borders = np.unique(cuts.start_ns[cut[cut < cuts.size]]).tolist()
    parts = []
    for since, until in pairwise((_EARLIEST, *borders, _LATEST)):
        own = (work.start_ns < until) & (work.end_ns > since)
        inside = (cuts.start_ns >= since) & (cuts.start_ns <= until)
        here = work.take(own)
        clipped = Intervals(
            here.lane, np.maximum(here.start_ns, since), np.minimum(here.end_ns, until)
        )
        found = sweep(clipped, label[own], cuts.take(inside))
        if borders:  # one lane's number once, until the stretches are joined
            lane = np.broadcast_to(cuts.lane[:1], found.active.size)
            spans = Intervals(lane, found.spans.start_ns, found.spans.end_ns)
            found = Segments(spans, found.active)
        parts.append(found)
    return parts


@dataclass(frozen=True, slots=True)
class ActiveTime:
    """How long each set of phases ran, by lane and cycle; a row may come more than once.

    Attributes:
        lane: Of each row.
        cycle: Of each row, -1 outside.
        active: The set of each row, as in `Segments`.
        ns: Its time.
    """

    lane: NDArray[np.int64]
    cycle: NDArray[np.int64]
    active: NDArray[np.int64]
    ns: NDArray[np.int64]


def active_time(cycles: Cycles, segments: Segments) -> ActiveTime:
    """Sum a timeline, see `phase_segments`, by its cycles."""
    lanes = 1 + int(segments.spans.lane.max(initial=0))
    parts = []
    for some in _some_at_once(segments):
        sets, (place,) = distinct(some.active)
        slot = cycles.slots(some.spans.lane, cycles.at(some.spans), lanes)
        keys, (key,) = distinct(slot * sets.size + place)
        ns = total_by(key, keys.size, some.spans.duration_ns)
        slot, place = parted(keys, max(sets.size, 1))
        parts.append((*cycles.of_slots(slot, lanes), sets[place], ns))
    if not parts:
        return ActiveTime(*(np.zeros(0, np.int64),) * 4)
    return ActiveTime(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def active_time_of_ops(phased: PhasedTrace, order: DeviceOrder) -> ActiveTime:
    """The same for the ops of a trace, of which only those that share their time are divided.

    Args:
        phased: A trace with settled phases.
        order: Its ops in the order of their starts.
    """
    cycles = phased.cycles
    ops, cut = order.filled(), cycles.borders(order.packing)
    alone = ops.alone()
    alone &= places_in(cut, ops.end, "left") <= places_in(cut, ops.start, "right")
    own, shared = ops.op[alone], ops.op[~alone]
    lanes, labels = phased.ranks.size, len(phased.labels)
    slot = cycles.slots(phased.ops.lane[own], phased.cycle[own], lanes)
    key, keys = slot * labels + phased.label[own], (lanes + cycles.spans.size) * labels
    ns = total_by(key, keys, phased.ops.end_ns[own] - phased.ops.start_ns[own])
    slot, label = parted(np.flatnonzero(ns), labels)
    lane, cycle = cycles.of_slots(slot, lanes)
    divided = phase_segments(phased.ops.take(shared), phased.label[shared], cycles)
    rest = active_time(cycles, divided)
    return ActiveTime(
        np.concatenate((lane, rest.lane)),
        np.concatenate((cycle, rest.cycle)),
        np.concatenate((np.int64(1) << label, rest.active)),
        np.concatenate((ns[ns != 0], rest.ns)),
    )


def cycle_time(
    cycles: int, active: ActiveTime, gaps: pl.DataFrame, shape: tuple[int, int]
) -> CycleTime:
    """Windows, overlap and gaps of every cycle.

    Args:
        cycles: How many there are.
        active: The time of their phases.
        gaps: Gaps: cycle, label, cause, ns.
        shape: How many labels and how many causes there are.
    """
    labels, causes = shape
    one = _single_label(active.active)
    alone = np.flatnonzero((one >= 0) & (active.cycle >= 0))
    slot = active.cycle[alone] * labels + one[alone]
    exclusive = total_by(slot, cycles * labels, active.ns[alone])
    several = np.flatnonzero((one < 0) & (active.active != 0) & (active.cycle >= 0))
    overlap = total_by(active.cycle[several], cycles, active.ns[several])
    inside = gaps.filter(pl.col("cycle") >= 0)
    place = inside.select(
        (pl.col("cycle") * labels + pl.col("label")) * causes + pl.col("cause")
    ).to_series()
    gap = total_by(place.to_numpy(), cycles * labels * causes, inside["ns"].to_numpy()).reshape(
        cycles, labels, causes
    )
    return CycleTime(
        window=exclusive.reshape(cycles, labels) + gap.sum(axis=2),
        overlap=overlap,
        gap=gap,
    )


def _single_label(active: NDArray[np.int64]) -> NDArray[np.int64]:
    """The label of sets of one label, -1 of any other set."""
    found = np.full(active.size, -1, np.int64)
    for label in range(int(active.max(initial=0)).bit_length()):
        found[active == 1 << label] = label
    return found


def phase_totals(phased: PhasedTrace, active: ActiveTime) -> pl.DataFrame:
    """Totals over the whole trace, edge cycles included.

    Args:
        phased: A trace with settled phases.
        active: The time of its phases.

    Returns:
        One row a rank and phase that has ops: lane, label, ops, kernels, kernel_ns, graph_rows,
        graph_row_ns, launches, graph_launches, summed_ns, busy_ns, exclusive_ns, overlap_ns.
    """
    lanes, labels = phased.ranks.size, len(phased.labels)
    groups = lanes * labels
    group = phased.ops.lane * labels + phased.label
    kinds = len(OP_KINDS)
    place = group * kinds + phased.trace.ops["kind"].to_physical().to_numpy()
    count = np.bincount(place, minlength=groups * kinds).reshape(groups, kinds)
    ns = total_by(place, groups * kinds, phased.ops.duration_ns).reshape(groups, kinds)
    kernel, graph = OP_KINDS.index("kernel"), OP_KINDS.index("graph")
    columns: dict[str, NDArray[np.int64]] = {
        "ops": count.sum(axis=1),
        "summed_ns": ns.sum(axis=1),
        "kernels": count[:, kernel],
        "kernel_ns": ns[:, kernel],
        "graph_rows": count[:, graph],
        "graph_row_ns": ns[:, graph],
    }
    columns |= _launch_counts(phased, group, groups)
    columns |= _active_totals(active, lanes, labels)
    lane, label = np.divmod(np.arange(groups), labels)
    return pl.DataFrame({"lane": lane, "label": label, **columns}).filter(pl.col("ops") > 0)


def _launch_counts(
    phased: PhasedTrace, group: NDArray[np.int64], groups: int
) -> dict[str, NDArray[np.int64]]:
    """Distinct launches, and graph launches among them, by group."""
    pairs = phased.attribution.launch * groups + group
    pairs = np.sort(without_repeats(pairs[pairs >= 0]), kind="stable")  # few of a replay are left
    pairs = without_repeats(pairs)
    launched, of_group = parted(pairs, groups)
    by_graph = launched_by_graph_call(phased.trace, launched)
    return {
        "launches": np.bincount(of_group, minlength=groups),
        "graph_launches": np.bincount(of_group[by_graph], minlength=groups),
    }


def _active_totals(active: ActiveTime, lanes: int, labels: int) -> dict[str, NDArray[np.int64]]:
    """Busy, exclusive and shared time by lane and label, flattened."""
    one = _single_label(active.active)
    alone = np.flatnonzero(one >= 0)
    place = active.lane[alone] * labels + one[alone]
    exclusive = total_by(place, lanes * labels, active.ns[alone])
    several = np.flatnonzero((one < 0) & (active.active != 0))
    shared = np.zeros((lanes, labels), np.int64)
    for label in range(labels):
        on = several[active.active[several] >> label & 1 == 1]
        shared[:, label] = total_by(active.lane[on], lanes, active.ns[on])
    overlap = shared.ravel()
    return {"busy_ns": exclusive + overlap, "exclusive_ns": exclusive, "overlap_ns": overlap}


def _some_at_once(segments: Segments) -> Iterator[Segments]:
    """The segments in turn, so many that what is computed of them takes little memory."""
    for first in range(0, segments.active.size, _SEGMENTS_AT_ONCE):
        some = slice(first, first + _SEGMENTS_AT_ONCE)
        yield Segments(segments.spans.part(some), segments.active[some])
