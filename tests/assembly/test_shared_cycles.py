"""Cycles that some rank lost: which of the others' are left out with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.assembly.shared_cycles import lost_elsewhere

# bucket, lane, number
Kept = list[tuple[int, int, int]]

KEPT = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 12)), unique=True, max_size=90
)
REPLICAS = st.lists(st.integers(0, 1), min_size=4, max_size=4)


def lost(kept: Kept, replica: list[int]) -> list[bool]:
    table = np.array(kept, np.int64).reshape(-1, 3)
    bucket, lane, number = table.T
    found: list[bool] = lost_elsewhere(bucket, lane, number, np.array(replica)).tolist()
    return found


def by_sets(kept: Kept, replica: list[int]) -> list[bool]:
    """The same from sets of numbers."""
    found = []
    for bucket, lane, number in kept:
        peers = {
            other: {own[2] for own in kept if own[:2] == (bucket, other)}
            for other in range(len(replica))
            if replica[other] == replica[lane]
        }
        sets = [numbers for numbers in peers.values() if numbers]
        shared, all_of_them = set.intersection(*sets), set.union(*sets)
        leans = min(map(len, sets)) < 0.9 * len(all_of_them)
        found.append(leans and len(shared) >= 3 and number not in shared)
    return found


@examples()
@given(KEPT, REPLICAS)
def test_it_is_what_sets_of_numbers_tell(kept: Kept, replica: list[int]) -> None:
    assert lost(kept, replica) == by_sets(kept, replica)


@pytest.mark.parametrize(("missing", "dropped"), [(1, 0), (4, 4)])
def test_a_rank_that_lost_many_takes_the_others_along(missing: int, dropped: int) -> None:
    kept = [(0, 0, number) for number in range(20)]
    kept += [(0, 1, number) for number in range(missing, 20)]
    assert lost(kept, [0, 0]) == [number < dropped for _, _, number in kept]


def test_data_parallel_ranks_run_cycles_of_their_own() -> None:
    kept = [(0, 0, number) for number in range(20)] + [(0, 1, number) for number in range(9)]
    assert not any(lost(kept, [0, 1]))
    assert any(lost(kept, [0, 0]))


def test_nothing_is_left_out_where_a_number_is_not_known() -> None:
    kept = [(0, 0, number) for number in range(-1, 20)] + [(0, 1, number) for number in range(9)]
    assert not any(lost(kept, [0, 0]))
