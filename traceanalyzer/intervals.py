"""Interval algebra on many lanes at once: union, gaps, overlap, containment.

Lanes are small integers (a GPU, a thread); times are int64 nanoseconds. Lane and time travel as
one packed key, so one sort and one running maximum serve all lanes: a later lane's keys exceed
every key of an earlier one. Intervals are half-open, and empty ones occupy nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

MAX_LABELS = 62
"""Labels that `sweep` tells apart: each is one bit of a positive int64."""

_KEY_BITS = 63
_MANY_WANTED = 4
"""Wanted keys to each that is there, from which on it costs less to look up these among those."""
_MOST_STEPS = 64
"""Beyond them intervals do not nest as host ranges do, and going through them in turn is faster."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Order-preserving keys lane * 2**bits + (time - origin), wide enough for the data at hand.

    Where there is `one_lane` it is lane 0: keys are times, and no lane is looked at.
    """

    origin_ns: int
    bits: int
    one_lane: bool = False

    @classmethod
    def covering(cls, lanes: int, times: Sequence[Int64s]) -> Packing:
        """Choose the width for the times and the number of lanes given.

        Raises:
            InputError: Lanes and times together do not fit 63 bits.
        """
        low = min((int(part.min()) for part in times if part.size), default=0)
        high = max((int(part.max()) for part in times if part.size), default=0)
        bits = max(1, (high - low + 1).bit_length())
        if bits + max(1, lanes).bit_length() > _KEY_BITS:
            raise InputError(
                f"times from {low} to {high} ns on {lanes} lanes are too far apart to order",
                next_step="Look for a broken timestamp, or analyse fewer files at once.",
            )
        return cls(low, bits, lanes <= 1)

    def key(self, lane: Int64s, time: Int64s) -> Int64s:
        """Pack."""
        if self.one_lane:
            return time - self.origin_ns
        key = lane << self.bits  # in place from here: at a million ops a temporary costs 2 ms
        key += time
        key -= self.origin_ns
        return key

    def lane(self, key: Int64s) -> Int64s:
        """The lane of a key."""
        return key >> self.bits

    def time(self, key: Int64s) -> Int64s:
        """The time of a key, ns."""
        time = key & ((1 << self.bits) - 1)
        time += self.origin_ns
        return time


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals on lanes: three int64 arrays of one length."""

    lane: Int64s
    start_ns: Int64s
    end_ns: Int64s

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.lane.size)

    @property
    def duration_ns(self) -> Int64s:
        """Length of each, ns."""
        return self.end_ns - self.start_ns

    def take(self, rows: NDArray[np.generic]) -> Intervals:
        """Those at `rows` (indices or a boolean mask)."""
        if rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)  # looked for once, not in each column
        return Intervals(self.lane[rows], self.start_ns[rows], self.end_ns[rows])

    def part(self, rows: slice) -> Intervals:
        """Neighbouring ones, without a copy."""
        return Intervals(self.lane[rows], self.start_ns[rows], self.end_ns[rows])


def sorted_rows(key: Int64s) -> Int64s:
    """Rows by key, of equals the lower row first.

    Ops are recorded nearly in order: merging the runs that are there takes a tenth of the time of
    a sort that looks for none.
    """
    return np.argsort(key, kind="stable")


def places_in(keys: Int64s, wanted: Int64s, side: Literal["left", "right"]) -> Int64s:
    """As `np.searchsorted`: how many of the sorted keys are lower than each wanted one, or equal.

    Few keys are looked up among many that are wanted in order, a tenth of the time at a million
    ops in a thousand cycles.

    Args:
        keys: Sorted.
        wanted: Any order.
        side: "left" counts lower keys, "right" equal ones as well.
    """
    if wanted.size < _MANY_WANTED * keys.size or (wanted[1:] < wanted[:-1]).any():
        return np.searchsorted(keys, wanted, side)
    first = np.searchsorted(wanted, keys, "left" if side == "right" else "right")
    held = np.diff(first, prepend=0, append=wanted.size)
    return np.repeat(np.arange(keys.size + 1), held)


def total_by(group: Int64s, groups: int, values: Int64s) -> Int64s:
    """Sum `values` by group.

    Args:
        group: Group of each value, 0 <= group < groups.
        groups: Length of the result.
        values: Non-negative integers.

    Returns:
        int64 sums, exact.
    """
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, group, values)
    return sums


def added_to_union(intervals: Intervals, precedence: Int64s) -> Int64s:
    """The time each interval adds to its lane's union when the earlier one keeps what they share.

    Args:
        intervals: Any order.
        precedence: Among equal starts, the lower keeps the time.

    Returns:
        ns per interval; they sum to the union of each lane.
    """
    if not intervals.size:
        return np.zeros(0, np.int64)
    packing = Packing.covering(_lanes(intervals), (intervals.start_ns, intervals.end_ns))
    start = packing.key(intervals.lane, intervals.start_ns)
    end = packing.key(intervals.lane, intervals.end_ns)
    order = sorted_rows(start)
    if (np.diff(start[order]) == 0).any():
        order = np.lexsort((precedence, start))
    start, end = start[order], end[order]
    reached = np.empty_like(end)
    reached[0] = start[0]
    np.maximum.accumulate(end[:-1], out=reached[1:])
    added = np.empty_like(end)
    added[order] = np.maximum(end - np.maximum(start, reached), 0)
    return added


def union(intervals: Intervals) -> Intervals:
    """Disjoint intervals that cover the same time, by lane and start; touching ones are joined."""
    packing = Packing.covering(_lanes(intervals), (intervals.start_ns, intervals.end_ns))
    first, last = _union_keys(packing, intervals.lane, intervals)
    return Intervals(packing.lane(first), packing.time(first), packing.time(last))


def _union_keys(packing: Packing, lane: Int64s, intervals: Intervals) -> tuple[Int64s, Int64s]:
    """The union on other lanes than the intervals' own, as packed starts and ends."""
    start, end = packing.key(lane, intervals.start_ns), packing.key(lane, intervals.end_ns)
    if (empty := start >= end).any():
        start, end = start[~empty], end[~empty]
    if not start.size:
        return start, end
    if np.any(start[1:] < start[:-1]):
        order = sorted_rows(start)
        start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > reached[:-1])))
    closes = np.concatenate((opens[1:] - 1, [end.size - 1]))
    return start[opens], reached[closes]


@dataclass(frozen=True, slots=True)
class Segments:
    """Stretches of a lane during which the same set of labels is active.

    `active` is a bit set: bit `label` is on while that label's intervals cover the time; 0 is a
    gap. Between a lane's first and last instant they are complete and disjoint.
    """

    spans: Intervals
    active: Int64s


def sweep(intervals: Intervals, label: Int64s, cuts: Intervals) -> Segments:
    """Cut each lane wherever the set of active labels changes, and at `cuts`.

    Args:
        intervals: Any order; those of one lane and label may overlap.
        label: Label of each interval, 0 <= label < MAX_LABELS.
        cuts: Instants (their start counts) at which segments are cut as well.

    Returns:
        Segments by lane and start, none empty.
    """
    labels = int(label.max()) + 1 if label.size else 1
    if labels > MAX_LABELS:
        raise InputError(f"more than {MAX_LABELS} different phases in one trace")
    lanes = max(_lanes(intervals), _lanes(cuts))
    times = (intervals.start_ns, intervals.end_ns, cuts.start_ns)
    packing = Packing.covering(lanes * labels, times)
    first, last = _union_keys(packing, intervals.lane * labels + label, intervals)
    # From keys of (lane, label) to keys of the lane alone: the label becomes a bit.
    numbers, bits = np.arange(lanes * labels), packing.bits
    group = first >> bits
    moved = ((numbers - numbers // labels) << bits)[group]
    bit = (np.int64(1) << numbers % labels)[group]
    key = np.concatenate((first - moved, last - moved, packing.key(cuts.lane, cuts.start_ns)))
    change = np.concatenate((bit, -bit, np.zeros(cuts.size, np.int64)))
    order = sorted_rows(key)
    key, active = key[order], np.cumsum(change[order])
    within = np.flatnonzero((key[1:] > key[:-1]) & (key[1:] >> bits == key[:-1] >> bits))
    begin, end = key[within], key[within + 1]
    return Segments(
        Intervals(packing.lane(begin), packing.time(begin), packing.time(end)), active[within]
    )


def joined_segments(parts: list[Segments]) -> Segments:
    """Segments of several lanes, or of one lane's stretches, one part after another.

    Args:
        parts: Empty afterwards, so that only one column at a time is held twice.
    """
    if len(parts) == 1:
        return parts.pop()
    lanes = [part.spans.lane for part in parts]
    columns = [
        [part.spans.start_ns for part in parts],
        [part.spans.end_ns for part in parts],
        [part.active for part in parts],
    ]
    parts.clear()
    lane = _joined_lanes(lanes)
    start, end, active = (_joined(column) for column in columns)
    return Segments(Intervals(lane, start, end), active)


def _joined_lanes(column: list[Int64s]) -> Int64s:
    """Lanes end to end; where all of them are one lane's number once, again its number once."""
    filled = [lane for lane in column if lane.size]
    if any(lane.strides != (0,) for lane in filled) or len({int(lane[0]) for lane in filled}) != 1:
        return _joined(column)
    return np.broadcast_to(filled[0][0], sum(lane.size for lane in filled))


def _joined(column: list[Int64s]) -> Int64s:
    joined = np.concatenate(column) if column else np.zeros(0, np.int64)
    column.clear()
    return joined


def lowest_of_equals(key: Int64s, rank: Int64s, rows: Int64s, first: Int64s) -> Int64s:
    """The row of lowest rank among those of equal keys.

    Args:
        key: Sorted.
        rank: Of each row.
        rows: Row of each key.
        first: Places of keys, each the first of its equals.
    """
    best, place = first.copy(), first + 1
    pending = np.flatnonzero(place < key.size)
    while (pending := pending[key[place[pending]] == key[first[pending]]]).size:
        lower = pending[rank[rows[place[pending]]] < rank[rows[best[pending]]]]
        best[lower] = place[lower]
        place[pending] += 1
        pending = pending[place[pending] < key.size]
    return rows[best]


class Containers:
    """Intervals that may contain others, searchable for the innermost one.

    Containment is inclusive at both ends. Innermost is the latest start, then the earliest end,
    then the lowest row. Nothing is assumed about nesting: crossing intervals are exact too.
    """

    def __init__(self, intervals: Intervals) -> None:
        self._lanes = _lanes(intervals)
        self._intervals = intervals
        self._rows = _outermost_first(intervals)
        self._sorted = intervals.take(self._rows)
        self._wider = _previous_greater(self._sorted)

    def innermost(self, inner: Intervals) -> Int64s:
        """Row of the innermost interval that contains each of `inner`, -1 when none does."""
        found = self._search(inner)
        return np.where(found >= 0, self._rows[found], -1) if self._rows.size else found

    def all_of(self, inner: Intervals) -> tuple[Int64s, Int64s]:
        """Every containment.

        Returns:
            Rows of `inner` and rows of their containers, as pairs; innermost containers first.
        """
        query = np.arange(inner.size)
        position = self._search(inner)
        queries, containers = [], []
        while (held := position >= 0).any():
            query, position = query[held], position[held]
            queries.append(query)
            containers.append(self._rows[position])
            position = self._climb(self._before(position, inner.take(query)), inner.take(query))
        if not queries:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(queries), np.concatenate(containers)

    def _before(self, position: Int64s, inner: Intervals) -> Int64s:
        """One place earlier in the order, -1 at the beginning of the lane."""
        before = position - 1
        return np.where((before >= 0) & (self._sorted.lane[before] == inner.lane), before, -1)

    def _search(self, inner: Intervals) -> Int64s:
        """Place in the sorted order of the innermost container, -1 when there is none."""
        if not self._rows.size or not inner.size:
            return np.full(inner.size, -1, np.int64)
        lanes = max(self._lanes, _lanes(inner))
        packing = Packing.covering(lanes, (self._sorted.start_ns, inner.start_ns))
        starts = packing.key(self._sorted.lane, self._sorted.start_ns)
        last = places_in(starts, packing.key(inner.lane, inner.start_ns), "right") - 1
        if lanes > 1:
            last[self._sorted.lane[last] != inner.lane] = -1
        return self._climb(last, inner)

    def _climb(self, position: Int64s, inner: Intervals) -> Int64s:
        """From a candidate that starts early enough to the nearest one that also ends late enough.

        Whatever lies between a candidate and its `_wider` ends no later than the candidate, so
        it is no container either.
        """
        ends = self._sorted.end_ns
        pending = np.flatnonzero(position >= 0)
        while (pending := pending[ends[position[pending]] < inner.end_ns[pending]]).size:
            position[pending] = self._wider[position[pending]]
            pending = pending[position[pending] >= 0]
        return position


def _outermost_first(intervals: Intervals) -> Int64s:
    """Rows by lane and start; the last of equal starts is the innermost: by end, then row."""
    rows = np.arange(intervals.size)
    packing = Packing.covering(_lanes(intervals), (intervals.start_ns,))
    key = packing.key(intervals.lane, intervals.start_ns)
    if (key[1:] > key[:-1]).all():
        return rows
    order = sorted_rows(key)
    if (np.diff(key[order]) > 0).all():
        return order
    return np.lexsort((-rows, -intervals.end_ns, key))


def _previous_greater(intervals: Intervals) -> Int64s:
    """For each place the nearest earlier one of its lane that ends strictly later, or -1."""
    lane, end = intervals.lane, intervals.end_ns
    wider = np.arange(-1, intervals.size - 1)
    wider[1:][lane[1:] != lane[:-1]] = -1
    # Whatever lies between a place and its candidate ends no later than the place, which also
    # holds when both step on together: siblings in a row take a step for each doubling.
    pending = np.flatnonzero(wider >= 0)
    for _ in range(_MOST_STEPS):
        if not (pending := pending[end[wider[pending]] <= end[pending]]).size:
            return wider
        wider[pending] = wider[wider[pending]]
        pending = pending[wider[pending] >= 0]
    return _previous_greater_in_turn(lane.tolist(), end.tolist())


def _previous_greater_in_turn(lanes: list[int], ends: list[int]) -> Int64s:
    """The same in one pass, whatever the order of the ends."""
    wider = [-1] * len(ends)
    stack: list[int] = []
    for place, (lane, end) in enumerate(zip(lanes, ends, strict=True)):
        while stack and (lanes[stack[-1]] != lane or ends[stack[-1]] <= end):
            stack.pop()
        if stack:
            wider[place] = stack[-1]
        stack.append(place)
    return np.array(wider, np.int64)


def _lanes(intervals: Intervals) -> int:
    return int(intervals.lane.max()) + 1 if intervals.size else 1
