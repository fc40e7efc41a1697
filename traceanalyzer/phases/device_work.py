"""What ran on a device before and beside an op: its covered time, its order, its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.intervals import Intervals, Packing, union

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace

    Bools = NDArray[np.bool_]
    Int64s = NDArray[np.int64]


class CoveredTime:
    """How much of a stretch of a lane some ops cover, their overlaps counted once."""

    def __init__(self, work: Intervals) -> None:
        self._covered = union(work) if work.size else work
        self._total = np.append(0, np.cumsum(self._covered.duration_ns))

    def within(self, stretches: Intervals) -> Int64s:
        """The covered time of each stretch, ns."""
        begin = Intervals(stretches.lane, stretches.start_ns, stretches.start_ns)
        end = Intervals(stretches.lane, stretches.end_ns, stretches.end_ns)
        return self._until(end) - self._until(begin)

    def _until(self, instants: Intervals) -> Int64s:
        """Covered time on all lanes before, and on the instant's own up to it."""
        covered = self._covered
        if not covered.size or not instants.size:
            return np.zeros(instants.size, np.int64)
        lanes = 1 + int(max(covered.lane.max(), instants.lane.max()))
        packing = Packing.covering(lanes, (covered.start_ns, covered.end_ns, instants.start_ns))
        starts = packing.key(covered.lane, covered.start_ns)
        count = np.searchsorted(starts, packing.key(instants.lane, instants.start_ns), "right")
        last = np.maximum(count - 1, 0)
        runs = (count > 0) & (covered.lane[last] == instants.lane)
        beyond = np.where(runs, np.maximum(covered.end_ns[last] - instants.start_ns, 0), 0)
        return self._total[count] - beyond


def starts_early(phased: PhasedTrace, op: Int64s) -> Bools:
    """Which ops start before all earlier ones of their stream have ended.

    That is programmatic dependent launch: such a kernel is there before it has what it waits for.
    """
    rows = np.flatnonzero(
        phased.collected & np.isin(phased.ops.lane, np.unique(phased.ops.lane[op]))
    )
    times = phased.ops.take(rows)
    order = (
        pl.DataFrame(
            {
                "op": rows,
                "lane": times.lane,
                "stream": phased.trace.ops["stream_id"].to_numpy()[rows],
                "start_ns": times.start_ns,
                "end_ns": times.end_ns,
            }
        )
        .sort("lane", "stream", "start_ns", "op")
        .with_columns(free_ns=pl.col("end_ns").cum_max().shift(1).over("lane", "stream"))
    )
    early = np.zeros(phased.ops.size, bool)
    early[order.filter(pl.col("start_ns") < pl.col("free_ns"))["op"].to_numpy()] = True
    return early[op]


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


def runs_beside(phased: PhasedTrace, waiters: Int64s, op: Int64s, wait_ns: Int64s) -> Int64s:
    """The part of each op's wait in which another kernel of a phase runs on its device.

    What no phase launched, such as moving a cache in the background, keeps nobody from going on.

    Args:
        phased: The trace.
        waiters: Ops that do not count as work.
        op: Ops that begin with waiting.
        wait_ns: For how long, the same shape.
    """
    others = phased.collected & np.isin(phased.ops.lane, np.unique(phased.ops.lane[op]))
    others &= (phased.trace.ops["kind"] == "kernel").to_numpy()
    others &= phased.label < len(phased.spans.phases)
    others[waiters] = False
    start = phased.ops.start_ns[op]
    waits = Intervals(phased.ops.lane[op].ravel(), start.ravel(), (start + wait_ns).ravel())
    return CoveredTime(phased.ops.take(others)).within(waits).reshape(op.shape)


def idle_lateness(phased: PhasedTrace, op: Int64s, lateness_ns: Int64s) -> Int64s:
    """The part of each op's lateness in which its device idled, since the collective before.

    It is idle time beyond that of the rank that started first; the rest is work that took longer.

    Args:
        phased: The trace.
        op: Shape (collectives, lanes), by time.
        lateness_ns: How far each started behind the first of its collective.
    """
    if not op.size:
        return lateness_ns
    lane, start = phased.ops.lane[op], phased.ops.start_ns[op]
    before = np.vstack((start[:1], np.minimum(phased.ops.end_ns[op[:-1]], start[1:])))
    stretches = Intervals(lane.ravel(), before.ravel(), start.ravel())
    covered = CoveredTime(phased.ops.take(phased.collected)).within(stretches)
    idle = start - before - covered.reshape(op.shape)
    quickest = np.take_along_axis(idle, lateness_ns.argmin(axis=1)[:, None], axis=1)
    return np.clip(idle - quickest, 0, lateness_ns)
