"""Forwards with prompt tokens among those that recur: told by what lengthens off the graphs."""

from __future__ import annotations

import numpy as np
import pytest

from traceanalyzer.phases.inferred.prompts import Prompts, TargetForwards, prompts_in
from traceanalyzer.phases.inferred.sizes import Unclear

CYCLES = 10
REPLAY, EAGER, PROMPT = "r", "e", "p"


def told(*forwards: tuple[str, int]) -> Prompts:
    """What is told of forwards, each a kind and a length; prompts alone do not recur."""
    kinds = np.array([kind for kind, _ in forwards])
    ns = np.array([length for _, length in forwards])
    return prompts_in(TargetForwards(ns, kinds != PROMPT, kinds == REPLAY))


def replays(ns: int = 100) -> list[tuple[str, int]]:
    return [(REPLAY, ns)] * CYCLES


def eager(*lengths: int) -> list[tuple[str, int]]:
    return [(EAGER, ns) for ns in lengths]


def test_what_is_longer_at_once_off_the_graphs_carries_prompts() -> None:
    """And so does the rest of a prompt behind it, however short."""
    found = told(*replays(), *eager(200, 205, 101), *replays(), *eager(190), *replays())
    assert np.flatnonzero(found.carried).tolist() == [10, 11, 12, 23]
    assert not found.unsure.any()


def test_forwards_as_long_as_replays_carry_none() -> None:
    found = told(*replays(), *eager(*[104] * 20), *replays())
    assert not found.carried.any()
    assert not found.unsure.any()


def test_lone_forwards_as_long_as_replays_are_left_open_where_others_carry_prompts() -> None:
    parts = [*eager(200, 200), *replays()] * 20
    found = told(*replays(), *parts, *eager(103), *replays())
    assert np.flatnonzero(found.unsure).tolist() == [10 + 12 * 20]
    assert found.carried.sum() == 40


@pytest.mark.parametrize(
    "forwards",
    [
        pytest.param([*replays(), *eager(200, 200), *replays()], id="once"),
        pytest.param(
            [*replays(), *eager(110, 120, 180, 220, 170), *replays()] * 3, id="as a batch may grow"
        ),
        pytest.param(
            [*replays(), (PROMPT, 300), *eager(200, 200), *replays()] * 3, id="after a prompt"
        ),
        pytest.param(
            [*replays(), *eager(200), *replays(), *eager(101, 102)] * 3, id="as long as replays too"
        ),
    ],
)
def test_longer_forwards_of_another_cause_are_no_evidence(forwards: list[tuple[str, int]]) -> None:
    with pytest.raises(Unclear, match=r"batches beyond the graphs; record with ranges"):
        told(*forwards)


@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param([100] * 9 + [300] + [100] * 9 + [300] + [100] * 9, id="twice longer"),
        pytest.param([100] * 9 + [300, 280] + [100] * 9, id="two in a row"),
        pytest.param([300] * 9 + [200] + [300] * 9 + [150] + [300] * 9, id="ends of prompts"),
    ],
)
def test_without_replays_jumps_in_length_are_declined(lengths: list[int]) -> None:
    with pytest.raises(Unclear, match=r"2 times the length .* record with ranges"):
        told(*eager(*lengths))


@pytest.mark.parametrize(
    "forwards",
    [
        pytest.param(eager(*[100, 101, 99] * 9), id="even"),
        pytest.param(eager(*[100] * 9, 300, *[100] * 9), id="one slow forward"),
        pytest.param(eager(*[100, 150] * 9), id="drafts alternate in number"),
        pytest.param(eager(*[300] * 9, *[200] * 9, *[100] * 9), id="requests end"),
        pytest.param([*eager(*[100] * 9), (PROMPT, 900), *eager(*[200] * 9)] * 3, id="they come"),
    ],
)
def test_without_replays_lengths_that_jump_with_the_batch_are_none(
    forwards: list[tuple[str, int]],
) -> None:
    found = told(*forwards)
    assert not found.carried.any()
    assert not found.unsure.any()
