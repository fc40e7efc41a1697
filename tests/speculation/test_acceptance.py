"""Counts of accepted drafts, against enumerations of single cycles and published figures."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.speculation.acceptance import (
    AcceptanceCounts,
    SlotLedger,
    accept_len_from_survival,
    alpha_of,
    conditional_from_survival,
    geometric_survival,
    sd_from_survival,
    survival_from_conditional,
)

Cycles = list[tuple[int, int]]


def cycles_of(draw_k: st.SearchStrategy[int]) -> st.SearchStrategy[Cycles]:
    """Single request-cycles as (k, accepted)."""
    one = draw_k.flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k)))
    return st.lists(one, min_size=1, max_size=40)


MIXED = cycles_of(st.integers(0, 6))
ONE_LENGTH = st.integers(1, 8).flatmap(lambda k: cycles_of(st.just(k)))


def counted(cycles: Cycles) -> AcceptanceCounts:
    return AcceptanceCounts.from_rows((k, accepted, 1) for k, accepted in cycles)


def product_limit(cycles: Cycles) -> list[Fraction]:
    """Kaplan and Meier's estimate from lifetimes, exact.

    A cycle lives to the position that refused it; one that accepted all its drafts is lost from
    sight there. Behind the last position that anybody could reach nobody survives.
    """
    lives = [(accepted + 1, True) if accepted < k else (k, False) for k, accepted in cycles]
    alive, curve = Fraction(1), []
    for position in range(1, max(k for k, _ in cycles) + 1):
        watched = sum(end >= position for end, _ in lives)
        ended = sum(end == position and refused for end, refused in lives)
        alive *= Fraction(watched - ended, watched) if watched else 0
        curve.append(alive)
    return curve


@examples(0.3)
@given(MIXED)
def test_survival_with_varying_k_is_the_product_limit(cycles: Cycles) -> None:
    assert counted(cycles).survival() == pytest.approx([float(s) for s in product_limit(cycles)])


@examples(0.3)
@given(ONE_LENGTH)
def test_with_one_k_survival_is_the_share_of_cycles_and_sums_to_the_length(cycles: Cycles) -> None:
    counts = counted(cycles)
    k = cycles[0][0]
    shares = [sum(a >= i for _, a in cycles) / len(cycles) for i in range(1, k + 1)]
    assert counts.survival() == pytest.approx(shares)
    assert counts.draft_tokens == k
    assert accept_len_from_survival(counts.survival()) == pytest.approx(counts.accept_len)


@examples(0.3)
@given(MIXED)
def test_survival_never_rises_and_the_length_keeps_its_bounds(cycles: Cycles) -> None:
    counts = counted(cycles)
    curve = (1.0, *counts.survival())
    assert all(before >= after >= 0 for before, after in pairwise(curve))
    assert counts.accept_len is not None
    assert 1 <= counts.accept_len <= counts.longest + 1
    assert 1 <= accept_len_from_survival(counts.survival()) <= counts.longest + 1


@examples(0.3)
@given(MIXED)
def test_totals_are_those_of_the_single_cycles(cycles: Cycles) -> None:
    counts = counted(cycles)
    accepted = [each for _, each in cycles]
    assert counts.request_cycles == len(cycles)
    assert counts.accepted_drafts == sum(accepted)
    assert counts.drafted_tokens == sum(k for k, _ in cycles)
    assert counts.longest == max(k for k, _ in cycles)
    assert counts.draft_tokens == (counts.longest if len({k for k, _ in cycles}) == 1 else None)
    assert counts.histogram() == tuple(accepted.count(i) for i in range(counts.longest + 1))
    mean = sum(accepted) / len(cycles)
    if len(cycles) > 1:
        variance = sum((each - mean) ** 2 for each in accepted) / (len(cycles) - 1)
        assert counts.accepted_sd == pytest.approx(variance**0.5)


@examples(0.3)
@given(MIXED)
def test_at_risk_counts_those_who_drafted_far_enough_and_were_not_refused(cycles: Cycles) -> None:
    counts = counted(cycles)
    for position, (reached, chances) in enumerate(counts.at_risk(), start=1):
        could = [a for k, a in cycles if k >= position and a >= position - 1]
        assert (reached, chances) == (sum(a >= position for a in could), len(could))
    ratios = [reached / chances if chances else None for reached, chances in counts.at_risk()]
    assert list(counts.conditional()) == ratios


@examples(0.3)
@given(MIXED, MIXED)
def test_counts_add_up(some: Cycles, more: Cycles) -> None:
    assert counted(some) + counted(more) == counted(some + more)


@examples(0.3)
@given(ONE_LENGTH)
def test_a_histogram_comes_back(cycles: Cycles) -> None:
    counts = counted(cycles)
    assert AcceptanceCounts.from_histogram(cycles[0][0], counts.histogram()) == counts


def test_nothing_counted_has_no_length() -> None:
    counts = AcceptanceCounts({(5, 2): 0})
    assert counts == AcceptanceCounts({})
    assert (counts.request_cycles, counts.longest, counts.draft_tokens) == (0, 0, None)
    assert (counts.accept_len, counts.accepted_sd) == (None, None)
    assert (counts.survival(), counts.histogram(), counts.at_risk()) == ((), (), ())
    assert AcceptanceCounts({(5, 2): 1}).accepted_sd is None


@pytest.mark.parametrize("cell", [(2, 3), (2, -1), (-1, -1)])
def test_more_accepted_than_drafted_cannot_be(cell: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="cannot be"):
        AcceptanceCounts({cell: 1})


def test_negative_counts_cannot_be_not_even_where_they_would_cancel() -> None:
    with pytest.raises(InputError):
        AcceptanceCounts.from_histogram(3, [1, -1])
    with pytest.raises(InputError):
        AcceptanceCounts.from_rows([(3, 1, 2), (3, 1, -1)])


def test_a_position_nobody_could_reach_counts_as_not_reached() -> None:
    counts = AcceptanceCounts({(2, 2): 1, (5, 0): 1})
    assert counts.conditional() == (0.5, 1.0, None, None, None)
    assert counts.survival() == (0.5, 0.5, 0.0, 0.0, 0.0)


def test_survival_is_unbiased_where_k_depends_on_nothing() -> None:
    """Simulated: k is drawn from 1 to 5 before anything is accepted."""
    rng = random.Random(11)
    chances = (0.8, 0.7, 0.6, 0.5, 0.4)
    cycles = []
    for _ in range(40_000):
        k = rng.randint(1, 5)
        accepted = 0
        while accepted < k and rng.random() < chances[accepted]:
            accepted += 1
        cycles.append((k, accepted))
    truth = survival_from_conditional(chances)
    counts = counted(cycles)
    assert counts.survival() == pytest.approx(truth, abs=0.012)
    # The share of all cycles would be far too low at the last position, which few drafted.
    assert counts.histogram()[5] / counts.request_cycles < truth[4] / 3


def test_sglang_documented_request() -> None:
    """SGLang pull request 33518: 106 tokens in 43 verifies, 63 of 215 drafts, and the histogram."""
    counts = AcceptanceCounts.from_histogram(5, [11, 14, 11, 4, 0, 3])
    assert (counts.request_cycles, counts.accepted_drafts, counts.drafted_tokens) == (43, 63, 215)
    assert counts.accept_len == pytest.approx(106 / 43)
    assert round(106 / 43, 4) == 2.4651
    assert round(counts.accepted_drafts / counts.drafted_tokens, 4) == 0.2930


def test_the_case_with_five_drafts() -> None:
    """71 tokens/s at 31.74 ms a cycle, read as drafts accepted alike and on their own."""
    accept_len = 71 * 31.74 / 1000
    alpha = alpha_of(accept_len, 5)
    assert round(accept_len, 4) == 2.2535
    assert round(alpha, 4) == 0.5718
    curve = geometric_survival(alpha, 5)
    assert [round(each, 2) for each in curve] == [0.57, 0.33, 0.19, 0.11, 0.06]
    assert round(accept_len_from_survival(geometric_survival(alpha, 10)), 3) == 2.330
    assert round(sd_from_survival(curve), 3) == 1.488


@examples(0.3)
@given(st.floats(0, 1), st.integers(1, 12))
def test_alpha_comes_back_from_its_length(alpha: float, k: int) -> None:
    length = accept_len_from_survival(geometric_survival(alpha, k))
    again = geometric_survival(alpha_of(length, k), k)
    assert accept_len_from_survival(again) == pytest.approx(length, rel=1e-12)
    if alpha < 1:
        assert length == pytest.approx((1 - alpha ** (k + 1)) / (1 - alpha))


@pytest.mark.parametrize(("length", "k"), [(0.98, 5), (6.01, 5), (float("nan"), 5), (1.0, 0)])
def test_no_alpha_gives_an_impossible_length(length: float, k: int) -> None:
    with pytest.raises(InputError, match="no acceptance probability"):
        alpha_of(length, k)


@pytest.mark.parametrize("alpha", [-0.1, 1.1])
def test_alpha_is_a_probability(alpha: float) -> None:
    with pytest.raises(InputError):
        geometric_survival(alpha, 3)


@examples(0.3)
@given(st.lists(st.floats(0, 1), max_size=8))
def test_conditionals_and_survival_are_inverses(conditional: list[float]) -> None:
    curve = survival_from_conditional(conditional)
    assert survival_from_conditional([p or 0.0 for p in conditional_from_survival(curve)]) == (
        pytest.approx(curve)
    )


@examples(0.3)
@given(ONE_LENGTH)
def test_the_spread_of_survival_is_that_of_its_histogram(cycles: Cycles) -> None:
    accepted = [each for _, each in cycles]
    mean = sum(accepted) / len(accepted)
    variance = sum((each - mean) ** 2 for each in accepted) / len(accepted)
    assert sd_from_survival(counted(cycles).survival()) == pytest.approx(variance**0.5, abs=1e-6)


def test_a_ledger_adds_up_or_is_refused() -> None:
    SlotLedger(verified=12, committed=5, rejected=3, overshoot=1, stale=2, idle=1)
    with pytest.raises(ValueError, match="12 verified slots"):
        SlotLedger(verified=12, committed=5, rejected=3)
    with pytest.raises(ValueError, match="not the sum"):
        SlotLedger(verified=12, committed=13, rejected=-1)
