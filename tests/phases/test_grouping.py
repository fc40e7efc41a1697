"""Groups of keys against plain Python, for dense keys and for keys too far apart for a table."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.phases.grouping import (
    begins_anew,
    distinct,
    least_of,
    ordered,
    parted,
    rows_by_key,
    without_repeats,
)

keys = st.lists(st.one_of(st.integers(-4, 4), st.integers(-(1 << 40), 1 << 40)), max_size=12)
near = st.lists(st.integers(0, 5), max_size=12)


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


@examples(1)
@given(st.one_of(keys, near), st.one_of(keys, near))
def test_distinct_keys_are_a_sorted_set(first: list[int], second: list[int]) -> None:
    known, places = distinct(array(first), array(second))
    assert known.tolist() == sorted({*first, *second})
    assert [known[place].tolist() for place in places] == [first, second]


@examples(1)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), min_size=1, max_size=12))
def test_least_of_each_group(rows: list[tuple[int, int]]) -> None:
    known, (place,) = distinct(array([group for group, _ in rows]))
    values = array([value for _, value in rows])
    groups = [[value for group, value in rows if group == own] for own in known.tolist()]
    assert least_of(place, known.size, values).tolist() == [min(own) for own in groups]


@examples(1)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(0, 2), st.integers(0, 1 << 40)),
            st.one_of(st.integers(-2, 2), st.integers(-(1 << 40), 1 << 40)),
        ),
        max_size=12,
    )
)
def test_rows_are_ordered_by_slot_start_and_row(rows: list[tuple[int, int]]) -> None:
    found = ordered(array([slot for slot, _ in rows]), array([start for _, start in rows]))
    assert found.tolist() == sorted(range(len(rows)), key=lambda row: (*rows[row], row))


@examples(1)
@given(st.lists(st.integers(0, 1 << 62), max_size=12), st.integers(1, 1 << 40))
def test_parts_of_keys_are_quotient_and_remainder(values: list[int], size: int) -> None:
    quotient, remainder = parted(array(values), size)
    assert list(zip(quotient.tolist(), remainder.tolist(), strict=True)) == [
        divmod(value, size) for value in values
    ]


@examples(1)
@given(keys)
def test_rows_by_key_are_ascending_rows_of_each_key(values: list[int]) -> None:
    known, rows = rows_by_key(array(values))
    assert known.tolist() == sorted(set(values))
    assert [own.tolist() for own in rows] == [
        [row for row, value in enumerate(values) if value == key] for key in known
    ]


@examples(1)
@given(near)
def test_runs_begin_where_a_neighbour_differs(values: list[int]) -> None:
    runs = [(key, len(list(run))) for key, run in groupby(values)]
    begins = [place == 0 for _, length in runs for place in range(length)]
    assert begins_anew(array(values)).tolist() == begins
    assert without_repeats(array(values)).tolist() == [key for key, _ in runs]
