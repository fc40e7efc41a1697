"""Ops in the order in which they start on their device: one sort for all that is told from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.intervals import Packing, sorted_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace

    Bools = NDArray[np.bool_]
    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DeviceOrder:
    """Ops with times by lane, start and row. Times are keys: those of a later lane are greater.

    Attributes:
        op: Row in `trace.ops` of each.
        start: Its start.
        end: Its end.
        reached: The last end of those before it; of the first its own start.
        packing: How keys are packed.
    """

    op: Int64s
    start: Int64s
    end: Int64s
    reached: Int64s
    packing: Packing

    def filled(self) -> DeviceOrder:
        """The same without ops that take no time."""
        filled = self.end > self.start
        if filled.all():
            return self
        start, end = self.start[filled], self.end[filled]
        return DeviceOrder(self.op[filled], start, end, _reached(start, end), self.packing)

    def alone(self) -> Bools:
        """Which ones share none of their time with others of their device."""
        apart = self.start >= self.reached
        apart[:-1] &= apart[1:]  # the next one begins when all before have ended
        return apart

    def added_ns(self) -> Int64s:
        """What each adds to the busy time of its device, the earlier keeping what they share."""
        added = self.end - np.maximum(self.start, self.reached)
        return np.maximum(added, 0, out=added)


def device_order(phased: PhasedTrace) -> DeviceOrder:
    """The order of a trace with settled phases."""
    rows = None if phased.collected.all() else np.flatnonzero(phased.collected)
    ops = phased.ops if rows is None else phased.ops.take(rows)
    packing = Packing.covering(phased.ranks.size, (ops.start_ns, ops.end_ns))
    start, end = packing.key(ops.lane, ops.start_ns), packing.key(ops.lane, ops.end_ns)
    order = sorted_rows(start)
    start, end = start[order], end[order]
    op = order if rows is None else rows[order]
    return DeviceOrder(op, start, end, _reached(start, end), packing)


def _reached(start: Int64s, end: Int64s) -> Int64s:
    reached = np.empty_like(end)
    reached[:1] = start[:1]
    np.maximum.accumulate(end[:-1], out=reached[1:])
    return reached
