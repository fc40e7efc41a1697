"""What the scheduler plans: requests that follow one another, and acceptance dealt or drawn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtx_hooks import vocabulary
from tests.strategies import examples
from traceanalyzer.simulation import Eagle3Settings, eagle3_server, truth_of
from traceanalyzer.simulation.schedule import plan

SEED = Eagle3Settings.seed_case(ranks=1)


def dealt(settings: Eagle3Settings) -> list[int]:
    return [
        drafts
        for turn in plan(settings)
        if turn.complete
        for drafts in turn.iteration.accepted_drafts
    ]


@examples(0.3)
@given(
    st.integers(0, 300),
    st.integers(1, 12),
    st.floats(0, 1),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
)
def test_dealt_acceptance_is_as_near_as_whole_requests_allow(cycles, k, chance, sizes):
    settings = replace(
        SEED,
        cycles=cycles + 1,
        draft_tokens=k,
        accept_probability=chance,
        batch_sizes=tuple(sizes),
        detail_cycles=0,
    )
    accepted = dealt(settings)
    for position in range(1, k + 1):
        reached = sum(drafts >= position for drafts in accepted)
        assert abs(reached - len(accepted) * chance**position) <= 1
    expected = len(accepted) * sum(chance**position for position in range(1, k + 1))
    assert sum(accepted) <= expected + 0.5
    assert sum(accepted) >= expected - 0.5 * (k + 1)


def test_another_seed_deals_the_same_numbers_in_another_order():
    first, second = dealt(SEED), dealt(replace(SEED, seed=2))
    assert first != second
    assert sorted(first) == sorted(second)


def test_each_prefill_begins_a_request_of_its_own():
    runs = defaultdict(set)
    run = 0
    for turn in plan(SEED):
        runs[run].update(turn.iteration.requests)
        run += turn.prefill is not None
    assert len(runs) >= 20
    assert all(len(requests) == 1 for requests in runs.values())
    hashes = [requests.pop() for requests in runs.values()]
    assert len(set(hashes)) == len(hashes)
    assert hashes == [
        vocabulary.request_hash(f"request {number}") for number in range(1, len(hashes) + 1)
    ]


def test_a_new_request_takes_the_place_of_the_oldest():
    turns = plan(replace(SEED, batch_sizes=(2,), cycles=3 * SEED.prefill_every))
    batches = list(dict.fromkeys(turn.iteration.requests for turn in turns))
    first, second, third, fourth = (
        vocabulary.request_hash(f"request {number}") for number in range(1, 5)
    )
    assert batches == [(first, second), (third, second), (third, fourth)]


def test_complete_turns_are_those_whose_cycles_are_kept():
    settings = replace(SEED, cycles=40, layers=1)
    complete = [turn.iteration.number for turn in plan(settings) if turn.complete]
    (rank,) = truth_of(eagle3_server(settings)).ranks
    assert complete == [cycle.number for cycle in rank.cycles if cycle.status == "kept"]


@pytest.mark.parametrize("count", [0, 1, 3, 10_000])
def test_detailed_cycles_are_complete_and_as_many_as_asked_for(count):
    turns = plan(replace(SEED, detail_cycles=count))
    complete = [turn for turn in turns if turn.complete]
    detailed = [turn for turn in turns if turn.detailed]
    assert len(detailed) == min(count, len(complete))
    assert all(turn.complete for turn in detailed)
