"""Two sequences of kernels beside each other, against trying every way to pair them."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.phases.kernel_alignment import MOST_CELLS, aligned

KINDS = 4
SEQUENCES = st.lists(st.integers(0, KINDS - 1), max_size=9)
LIKENESS = st.lists(
    st.lists(st.integers(0, 5), min_size=KINDS, max_size=KINDS), min_size=KINDS, max_size=KINDS
)


def most(one: list[int], other: list[int], likeness: list[list[int]]) -> int:
    """The greatest sum of likeness, by trying every pairing in order."""

    @cache
    def best(row: int, column: int) -> int:
        if row == len(one) or column == len(other):
            return 0
        paired = likeness[one[row]][other[column]] + best(row + 1, column + 1)
        return max(paired, best(row + 1, column), best(row, column + 1))

    return best(0, 0)


@given(SEQUENCES, SEQUENCES, LIKENESS)
def test_no_pairing_is_more_alike(
    one: list[int], other: list[int], likeness: list[list[int]]
) -> None:
    pairs = aligned(one, other, np.array(likeness))
    assert pairs is not None
    told = [likeness[one[row]][other[column]] for row, column in pairs]
    assert sum(told) == most(one, other, likeness)
    assert all(told), "kinds of no likeness are not paired"
    for (row, column), (next_row, next_column) in pairwise(pairs):
        assert row < next_row
        assert column < next_column


def test_a_changed_kernel_stands_in_the_place_of_the_old() -> None:
    """Kinds 0 and 1 are in both; 2 is of the same class as 3."""
    likeness = np.diag([5, 5, 5, 5])
    likeness[2, 3] = 3
    assert aligned([0, 2, 1, 0, 2, 1], [0, 3, 1, 0, 3, 1], likeness) == [
        (place, place) for place in range(6)
    ]


def test_sequences_too_long_are_not_aligned() -> None:
    side = [0] * 4_097
    assert len(side) ** 2 > MOST_CELLS
    assert aligned(side, side, np.ones((1, 1), np.int64)) is None
