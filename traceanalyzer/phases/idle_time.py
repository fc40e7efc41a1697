"""When devices idle: between their ops, cut at the borders of their cycles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.intervals import Intervals, places_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.cycles import Cycles
    from traceanalyzer.phases.device_order import DeviceOrder

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IdleTime:
    """Idle stretches by lane and start.

    Attributes:
        spans: The stretches; a border cuts one in two.
        since_ns: When the device went idle, which is earlier where a border cut its time.
        ops: The ops between which it idles, those that take no time left out.
        next_op: Place in `ops` of the first one that starts at a stretch's end or later on its
            lane, -1 for none.
    """

    spans: Intervals
    since_ns: Int64s
    ops: DeviceOrder
    next_op: Int64s


def idle_time(order: DeviceOrder, cycles: Cycles) -> IdleTime:
    """The idle time of a trace's devices from the first of their ops and borders to the last."""
    ops, packing = order.filled(), order.packing
    cut = cycles.borders(packing)
    # A border is an op that takes no time.
    place = np.searchsorted(ops.start, cut)
    start, reached = (np.insert(column, place, cut) for column in (ops.start, ops.end))
    np.maximum.accumulate(reached, out=reached)
    idle = start[1:] > reached[:-1]
    idle &= packing.lane(start[1:]) == packing.lane(reached[:-1])
    before = np.flatnonzero(idle)
    begin, end = reached[before], start[before + 1]
    next_op = before + 1 - places_in(place + np.arange(cut.size), before + 1, "left")
    of_lane = packing.lane(np.append(ops.start, -1)[next_op]) == packing.lane(end)
    spans = Intervals(packing.lane(begin), packing.time(begin), packing.time(end))
    since = packing.time(_first_of_touching(begin, end))
    return IdleTime(spans, since, ops, np.where(of_lane, next_op, -1))


def _first_of_touching(begin: Int64s, end: Int64s) -> Int64s:
    """Where the first of the stretches begins that lead to each one without a break."""
    continues = np.append(False, begin[1:] == end[:-1])[: begin.size]
    if not continues.any():
        return begin
    first = np.maximum.accumulate(np.where(continues, 0, np.arange(begin.size)))
    return begin[first]
