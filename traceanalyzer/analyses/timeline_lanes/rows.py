"""Stacking: the fewest rows in which spans of one track lie side by side without overlap.

Spans are taken by start, of equal starts the longer first, and each goes to the lowest row that
is free: properly nested ranges come to lie at their depth.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.intervals import Intervals, Packing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

# Peeling costs a pass over all that is left for each row; beyond this many a loop is faster.
_PEELED_ROWS: Final = 12


def stacked_rows(intervals: Intervals) -> Int64s:
    """The row of each interval within its lane, from 0 up."""
    rows = np.zeros(intervals.size, np.int64)
    if not intervals.size:
        return rows
    lanes = int(intervals.lane.max()) + 1
    packing = Packing.covering(lanes, (intervals.start_ns, intervals.end_ns))
    start = packing.key(intervals.lane, intervals.start_ns)
    end = packing.key(intervals.lane, intervals.end_ns)
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    left = np.arange(order.size)
    for row in range(_PEELED_ROWS):
        taken = _side_by_side(start[left], end[left])
        rows[order[left[taken]]] = row
        left = left[~taken]
        if not left.size:
            return rows
    lane = packing.lane(start[left])
    rows[order[left]] = _PEELED_ROWS + _by_lowest_free_row(lane, start[left], end[left])
    return rows


def _side_by_side(start: Int64s, end: Int64s) -> NDArray[np.bool_]:
    """Which intervals, sorted by start, the lowest row takes: each first one after the last's end.

    The first of every connected stretch is one of them, because all before it have ended; from
    there the chain is followed in all stretches at once, twice as far with every pass.
    """
    size = start.size
    taken = np.ones(size + 1, bool)
    reached = np.maximum.accumulate(end)
    taken[1:size] = start[1:] >= reached[:-1]
    if taken.all():
        return taken[:size]
    follower = np.append(
        np.maximum(np.searchsorted(start, end, "left"), np.arange(1, size + 1)), size
    )
    longest = int(np.diff(np.append(np.flatnonzero(taken[:size]), size)).max())
    for _ in range(longest.bit_length()):
        taken[follower[taken]] = True
        follower = follower[follower]
    return taken[:size]


def _by_lowest_free_row(lane: Int64s, start: Int64s, end: Int64s) -> Int64s:
    """The same one by one, for the few tracks with very many rows."""
    rows: list[int] = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    current, opened = -1, 0
    for at, since, until in zip(lane.tolist(), start.tolist(), end.tolist(), strict=True):
        if at != current:
            current, opened, busy, free = at, 0, [], []
        while busy and busy[0][0] <= since:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, opened = opened, opened + 1
        rows.append(row)
        heapq.heappush(busy, (until, row))
    return np.array(rows, np.int64)
