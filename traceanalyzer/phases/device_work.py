"""What ran on a device before and beside an op: its covered time, its order, its streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.intervals import Intervals, Packing, places_in, sorted_rows, union
from traceanalyzer.trace import of_kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.phased import PhasedTrace

    Bools = NDArray[np.bool_]
    Int64s = NDArray[np.int64]


_FEW_STREAM_IDS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Stretches:
    """Ops with the time that anything ran on their device until they start and end, ns."""

    start_ns: Int64s
    end_ns: Int64s
    worked_until_start_ns: Int64s
    worked_until_end_ns: Int64s


class CoveredTime:
    """How much of a stretch of a lane some ops cover, their overlaps counted once."""

    def __init__(self, work: Intervals) -> None:
        self._covered = union(work) if work.size else work
        self._total = np.append(0, np.cumsum(self._covered.duration_ns))

    def within(self, stretches: Intervals) -> Int64s:
        """The covered time of each stretch, ns."""
        begin = Intervals(stretches.lane, stretches.start_ns, stretches.start_ns)
        end = Intervals(stretches.lane, stretches.end_ns, stretches.end_ns)
        return self.until(end) - self.until(begin)

    def until(self, instants: Intervals) -> Int64s:
        """Covered time on all lanes before, and on the instant's own up to its start, ns."""
        covered = self._covered
        if not covered.size or not instants.size:
            return np.zeros(instants.size, np.int64)
        lanes = 1 + int(max(covered.lane.max(), instants.lane.max()))
        packing = Packing.covering(lanes, (covered.start_ns, covered.end_ns, instants.start_ns))
        starts = packing.key(covered.lane, covered.start_ns)
        count = places_in(starts, packing.key(instants.lane, instants.start_ns), "right")
        last = np.maximum(count - 1, 0)
        runs = count > 0
        if lanes > 1:
            runs &= covered.lane[last] == instants.lane
        beyond = np.maximum(covered.end_ns[last] - instants.start_ns, 0)
        return self._total[count] - beyond * runs


def worked_until_start(phased: PhasedTrace, order: DeviceOrder, op: Int64s) -> Int64s:
    """How long anything ran before each op, on all lanes before and on its own, ns.

    Args:
        phased: The trace.
        order: Its ops in the order of their starts.
        op: Ops with times.
    """
    place = np.zeros(phased.ops.size, np.int64)
    place[order.op] = np.arange(order.op.size)
    place = place[op]
    before = np.append(0, np.cumsum(order.added_ns()))[place]
    return before - np.maximum(order.reached[place] - order.start[place], 0)


def starts_early(phased: PhasedTrace, order: DeviceOrder, op: Int64s) -> Bools:
    """Which ops start before all earlier ones of their stream have ended.

    That is programmatic dependent launch: such a kernel is there before it has what it waits for.

    Args:
        phased: The trace.
        order: Its ops in the order of their starts.
        op: Ops with times.
    """
    rows = order.op[~order.alone()]
    stream, streams = small_codes(phased.trace.ops["stream_id"].to_numpy()[rows])
    lane = phased.ops.lane[rows] * streams + stream
    times = Intervals(lane, phased.ops.start_ns[rows], phased.ops.end_ns[rows])
    packing = Packing.covering(phased.ranks.size * streams, (times.start_ns, times.end_ns))
    start = packing.key(times.lane, times.start_ns)
    by_stream = sorted_rows(start)
    start, free = start[by_stream], packing.key(times.lane, times.end_ns)[by_stream]
    np.maximum.accumulate(free, out=free)
    early = np.zeros(phased.ops.size, bool)
    early[rows[by_stream[1:]]] = start[1:] < free[:-1]  # keys of other streams are lower
    return np.asarray(early[op])


def stream_lanes(phased: PhasedTrace) -> tuple[Int64s, int]:
    """A lane for each stream of each rank, by op, and how many lanes that may be."""
    stream, streams = small_codes(phased.trace.ops["stream_id"].to_numpy())
    return phased.ops.lane * streams + stream, phased.ranks.size * streams


def small_codes(ids: Int64s) -> tuple[Int64s, int]:
    """Ids renumbered from 0 in their order, and how many there are (1 for none)."""
    if not ids.size:
        return ids, 1
    low, high = int(ids.min()), int(ids.max())
    if high - low >= _FEW_STREAM_IDS:
        known, codes = np.unique(ids, return_inverse=True)
        return codes, known.size
    seen = np.zeros(high - low + 1, np.int64)
    seen[ids - low] = 1
    place = np.cumsum(seen)
    return (place - 1)[ids - low], int(place[-1])


def label_before(phased: PhasedTrace, op: Int64s) -> Int64s:
    """The label of the op of the same lane that ended last before each starts, -1 for none.

    Of several that end together the last row counts.
    """
    rows = np.flatnonzero(phased.collected)
    lane, end = phased.ops.lane[rows], phased.ops.end_ns[rows]
    at_lane, at = phased.ops.lane[op], phased.ops.start_ns[op]
    packing = Packing.covering(1 + int(phased.ops.lane.max(initial=0)), (end, at))
    keys = packing.key(lane, end)
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], packing.key(at_lane, at), "right") - 1
    before = rows[order[np.maximum(place, 0)]]
    held = (place >= 0) & (phased.ops.lane[before] == at_lane)
    return np.where(held, phased.label[before], -1)


def work_beside(phased: PhasedTrace, order: DeviceOrder, waiters: Int64s) -> Intervals:
    """When another kernel of a phase runs on the device of some ops while they do, disjoint.

    What no phase launched, such as moving a cache in the background, keeps nobody from going on.

    Args:
        phased: The trace.
        order: Its ops in the order of their starts.
        waiters: Ops with times, which do not count as work.
    """
    waits = np.zeros(phased.ops.size, bool)
    waits[waiters] = True
    rows = order.op[~order.alone()]
    kernel = of_kinds(phased.trace.ops, "kernel")
    works = ~waits & kernel & (phased.label < len(phased.spans.phases))
    return _common(*(union(phased.ops.take(rows[chosen[rows]])) for chosen in (works, waits)))


def _common(first: Intervals, second: Intervals) -> Intervals:
    """The time in both; each is disjoint and in order."""
    if not first.size or not second.size:
        return first.take(np.zeros(0, np.int64))
    lanes = 1 + int(max(first.lane.max(), second.lane.max()))
    times = (first.start_ns, first.end_ns, second.start_ns, second.end_ns)
    packing = Packing.covering(lanes, times)
    start, end = (packing.key(first.lane, each) for each in times[:2])
    since, until = (packing.key(second.lane, each) for each in times[2:])
    # Of the first those that end after one of the second starts, and start before it ends.
    low, high = np.searchsorted(end, since, "right"), np.searchsorted(start, until, "left")
    count = high - low
    of_second = np.repeat(np.arange(second.size), count)
    of_first = np.arange(of_second.size) + np.repeat(low - (np.cumsum(count) - count), count)
    start = np.maximum(start[of_first], since[of_second])
    end = np.minimum(end[of_first], until[of_second])
    return Intervals(packing.lane(start), packing.time(start), packing.time(end))


def idle_lateness(times: Stretches, lateness_ns: Int64s) -> Int64s:
    """The part of each op's lateness in which its device idled, since the collective before.

    It is idle time beyond that of the rank that started first; the rest is work that took longer.

    Args:
        times: Of shape (collectives, lanes), by time.
        lateness_ns: How far each started behind the first of its collective.
    """
    if not lateness_ns.size:
        return lateness_ns
    start = times.start_ns
    before = np.vstack((start[:1], np.minimum(times.end_ns[:-1], start[1:])))
    worked = times.worked_until_start_ns
    since = np.where(
        before < start, np.vstack((worked[:1], times.worked_until_end_ns[:-1])), worked
    )
    idle = start - before - (worked - since)
    quickest = np.take_along_axis(idle, lateness_ns.argmin(axis=1)[:, None], axis=1)
    return np.clip(idle - quickest, 0, lateness_ns)
