from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.intervals import (
    MAX_LABELS,
    Containers,
    Intervals,
    Packing,
    added_to_union,
    lowest_of_equals,
    places_in,
    sweep,
    total_by,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[int, int, int]
"""Lane, start, end."""

_rows = st.tuples(st.integers(0, 2), st.integers(-12, 12), st.sampled_from((0, 0, 1, 3, 9))).map(
    lambda row: (row[0], row[1], row[1] + row[2])
)
_lists = st.lists(_rows, max_size=10)
_origins = st.sampled_from((0, 10**18, -(10**18)))


def intervals(rows: Sequence[Row], origin_ns: int = 0) -> Intervals:
    """Rows as arrays, moved by an origin."""
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Intervals(table[:, 0].copy(), table[:, 1] + origin_ns, table[:, 2] + origin_ns)


def rows_of(found: Intervals, origin_ns: int = 0) -> list[Row]:
    return list(
        zip(
            found.lane.tolist(),
            (found.start_ns - origin_ns).tolist(),
            (found.end_ns - origin_ns).tolist(),
            strict=True,
        )
    )


def covered(rows: Sequence[Row]) -> set[tuple[int, int]]:
    """Every lane and nanosecond that an interval covers."""
    return {(lane, time) for lane, start, end in rows for time in range(start, end)}


def ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


@examples()
@given(_lists, _origins)
def test_union_covers_the_same_time_in_disjoint_pieces(rows: list[Row], origin: int) -> None:
    found = rows_of(union(intervals(rows, origin)), origin)
    assert covered(found) == covered(rows)
    assert all(start < end for _, start, end in found)
    assert all(
        one[0] < other[0] or (one[0] == other[0] and one[2] < other[1])
        for one, other in pairwise(found)
    )


@examples()
@given(_lists, st.data())
def test_each_interval_adds_what_earlier_ones_left(rows: list[Row], data: st.DataObject) -> None:
    precedence = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    taken: set[tuple[int, int]] = set()
    expected = [0] * len(rows)
    for row in sorted(range(len(rows)), key=lambda row: (rows[row][1], precedence[row], row)):
        own = covered([rows[row]])
        expected[row] = len(own - taken)
        taken |= own
    found = added_to_union(intervals(rows), ints(precedence))
    assert found.tolist() == expected
    assert sum(expected) == len(covered(rows))


@examples()
@given(_lists, st.data(), st.lists(_rows, max_size=4), _origins)
def test_sweep_tells_what_is_active_when(
    rows: list[Row], data: st.DataObject, cuts: list[Row], origin: int
) -> None:
    label = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    found = sweep(intervals(rows, origin), ints(label), intervals(cuts, origin))
    spans = rows_of(found.spans, origin)
    active: dict[tuple[int, int], int] = defaultdict(int)
    for (lane, start, end), bit in zip(rows, label, strict=True):
        for time in range(start, end):
            active[lane, time] |= 1 << bit
    instants: dict[int, set[int]] = defaultdict(set)
    for lane, start, end in rows:
        instants[lane] |= {start, end} if end > start else set()
    for lane, start, _ in cuts:
        instants[lane].add(start)
    whole = [(lane, min(times), max(times)) for lane, times in instants.items() if times]
    assert sorted(spans) == spans
    assert sum(end - start for _, start, end in spans) == len(covered(whole))
    assert covered(spans) == covered(whole)
    for (lane, start, end), bits in zip(spans, found.active.tolist(), strict=True):
        assert start < end
        assert {active[lane, time] for time in range(start, end)} == {bits}
        assert not any(start < cut[1] < end for cut in cuts if cut[0] == lane)


def test_sweep_holds_as_many_labels_as_it_promises() -> None:
    rows = [(0, label, label + 1) for label in range(MAX_LABELS)]
    none = intervals([])
    found = sweep(intervals(rows), np.arange(MAX_LABELS), none)
    assert found.active.tolist() == [1 << label for label in range(MAX_LABELS)]
    with pytest.raises(InputError, match="phases"):
        sweep(intervals([*rows, (0, 90, 91)]), np.arange(MAX_LABELS + 1), none)


@examples()
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=10))
def test_of_equal_keys_the_row_of_lowest_rank_is_taken(pairs: list[tuple[int, int]]) -> None:
    keys = sorted(key for key, _ in pairs)
    rank = [rank for _, rank in pairs]
    rows = list(range(len(pairs)))[::-1]
    first = [keys.index(key) for key in sorted(set(keys))]
    found = lowest_of_equals(ints(keys), ints(rank), ints(rows), ints(first)).tolist()
    for key, row in zip(sorted(set(keys)), found, strict=True):
        equal = [rows[place] for place, other in enumerate(keys) if other == key]
        assert row == min(equal, key=lambda each: (rank[each], equal.index(each)))


def containers_of(rows: Sequence[Row], inner: Row) -> list[int]:
    """Rows that contain one interval, innermost first."""
    lane, start, end = inner
    return sorted(
        (
            row
            for row, (of, low, high) in enumerate(rows)
            if of == lane and low <= start and end <= high
        ),
        key=lambda row: (-rows[row][1], rows[row][2], row),
    )


@examples()
@given(st.lists(_rows, max_size=14), _lists, _origins)
def test_containers_are_found_innermost_first(
    rows: list[Row], inner: list[Row], origin: int
) -> None:
    search = Containers(intervals(rows, origin))
    expected = [containers_of(rows, each) for each in inner]
    assert search.innermost(intervals(inner, origin)).tolist() == [
        found[0] if found else -1 for found in expected
    ]
    query, container = search.all_of(intervals(inner, origin))
    grouped: dict[int, list[int]] = defaultdict(list)
    for place, row in zip(query.tolist(), container.tolist(), strict=True):
        grouped[place].append(row)
    assert grouped == {place: found for place, found in enumerate(expected) if found}


def test_many_crossing_intervals_are_searched_exactly() -> None:
    rows = [(row % 3, row * 7 % 50, row * 7 % 50 + row * 13 % 60) for row in range(200)]
    inner = [(row % 4, row * 11 % 60, row * 11 % 60 + row % 9) for row in range(200)]
    assert Containers(intervals(rows)).innermost(intervals(inner)).tolist() == [
        next(iter(containers_of(rows, each)), -1) for each in inner
    ]


def test_deep_nests_crossed_by_many_are_searched_exactly() -> None:
    """Each that crosses ends later than all of a nest of some hundred, which is no host's range."""
    nest = [(0, start, 1000 - start) for start in range(200)]
    crossing = [(0, start, 700 + start) for start in range(200, 400)]
    inner = [(0, start, end) for start in range(0, 400, 9) for end in range(start, 1100, 97)]
    rows = nest + crossing
    assert Containers(intervals(rows)).innermost(intervals(inner)).tolist() == [
        next(iter(containers_of(rows, each)), -1) for each in inner
    ]


@examples()
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.one_of(st.integers(0, 9), st.integers(2**52, 2**54))),
        max_size=6,
    )
)
def test_sums_by_group_are_exact(pairs: list[tuple[int, int]]) -> None:
    found = total_by(ints([group for group, _ in pairs]), 4, ints([value for _, value in pairs]))
    assert found.dtype == np.int64
    assert found.tolist() == [
        sum(value for of, value in pairs if of == group) for group in range(4)
    ]


@examples()
@given(
    st.lists(st.integers(-5, 5), max_size=6),
    st.lists(st.integers(-7, 7), max_size=40),
    st.booleans(),
    st.sampled_from(("left", "right")),
)
def test_few_keys_are_found_as_searching_finds_them(
    keys: list[int], wanted: list[int], in_order: bool, side: Literal["left", "right"]
) -> None:
    known, asked = ints(sorted(keys)), ints(sorted(wanted) if in_order else wanted)
    assert places_in(known, asked, side).tolist() == np.searchsorted(known, asked, side).tolist()


@examples()
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-(2**58), 2**58)), min_size=1, max_size=6))
def test_packed_keys_keep_the_order_and_come_apart_again(pairs: list[tuple[int, int]]) -> None:
    lane, time = ints([lane for lane, _ in pairs]), ints([time for _, time in pairs])
    packing = Packing.covering(6, (time,))
    keys = packing.key(lane, time)
    assert packing.lane(keys).tolist() == lane.tolist()
    assert packing.time(keys).tolist() == time.tolist()
    order = sorted(range(len(pairs)), key=lambda row: pairs[row])
    assert np.argsort(keys, kind="stable").tolist() == order


@examples()
@given(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=6))
def test_keys_of_a_single_lane_come_apart_as_others_do(times: list[int]) -> None:
    time = ints(times)
    packing, lane = Packing.covering(1, (time,)), np.zeros(time.size, np.int64)
    keys = packing.key(lane, time)
    assert keys.tolist() == [each - min(times) for each in times]
    assert packing.lane(keys).tolist() == lane.tolist()
    assert packing.time(keys).tolist() == times


def test_keys_that_would_not_fit_are_an_input_error() -> None:
    far = ints([-(2**61), 2**61])
    with pytest.raises(InputError, match="too far apart"):
        Packing.covering(2, (far,))
    broken = intervals([(0, -(2**61), -(2**61) + 5), (40, 2**61, 2**61 + 5)])
    for work in (
        lambda: union(broken),
        lambda: added_to_union(broken, ints([0, 0])),
        lambda: sweep(broken, ints([0, 0]), intervals([])),
        lambda: Containers(broken).innermost(broken),
    ):
        with pytest.raises(InputError, match="too far apart"):
            work()


def test_the_widest_keys_that_fit_are_exact() -> None:
    high = 2**60 - 2
    packing = Packing.covering(3, (ints([0, high]),))
    keys = packing.key(ints([3, 0]), ints([high, high]))
    assert keys.min() > 0
    assert packing.lane(keys).tolist() == [3, 0]
    assert packing.time(keys).tolist() == [high, high]


def test_nothing_in_nothing_out() -> None:
    none, one = intervals([]), intervals([(0, 0, 1)])
    assert union(none).size == 0
    assert union(intervals([(1, 5, 5)])).size == 0
    assert added_to_union(none, ints([])).size == 0
    assert sweep(none, ints([]), none).spans.size == 0
    assert Containers(none).innermost(one).tolist() == [-1]
    assert [part.size for part in Containers(none).all_of(one)] == [0, 0]
    assert [part.size for part in Containers(one).all_of(none)] == [0, 0]
    assert total_by(ints([]), 3, ints([])).tolist() == [0, 0, 0]
