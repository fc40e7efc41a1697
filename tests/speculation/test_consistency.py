"""Counts of one acceptance against each other, and the case whose counter said 0.98."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.speculation.acceptance import (
    AcceptanceCounts,
    AcceptanceReading,
    alpha_of,
    geometric_survival,
    sd_from_survival,
)
from traceanalyzer.speculation.confidence import Estimate, cycles_needed
from traceanalyzer.speculation.consistency import (
    bonus_excluded_looking,
    bonus_twice_looking,
    contamination_share,
    explain_low,
    implied_accept_len,
    implied_period_ms,
    noise_half_width,
    three_way,
    troubles_of,
)

REFERENCE = Estimate(2.25, 2.12, 2.40)
SD = sd_from_survival(geometric_survival(alpha_of(2.12, 5), 5))


def test_three_counts_that_agree() -> None:
    found = three_way(2.25, 2.24, 71, 31.74, draft_tokens=5)
    assert found.agree
    assert found.compared
    assert found.texts == ()
    assert [round(row.accept_len, 2) for row in found.rows] == [2.25, 2.24, 2.25]


def test_a_counter_of_0_98_is_bonus_exclusive_and_still_too_low() -> None:
    found = three_way(0.98, None, 71, 31.74, draft_tokens=5)
    assert not found.agree
    assert round(found.rows[1].accept_len, 4) == 2.2535
    below, apart, period = found.texts
    assert "below 1: it leaves the bonus token out (1.98 with it)" in below
    assert "0.98 looks as if the bonus token were left out (1.98 with it)" in apart
    assert "an accept_len of 1.98 needs a period of 27.9 ms; measured: 31.74 ms" in period
    assert round(implied_period_ms(1.98, 71), 1) == 27.9


def test_every_pair_is_compared() -> None:
    found = three_way(2.35, 2.15, 71, 31.74)
    assert not found.agree
    assert [text.split(",")[0] for text in found.texts] == ["counters 2.35"]
    twice = three_way(3.25, 2.25, None, None)
    assert "counted twice" in twice.texts[0]


def test_one_count_alone_contradicts_nothing() -> None:
    for found in (three_way(2.25, None, None, 31.74), three_way(None, None, None, None)):
        assert found.agree
        assert not found.compared
    assert not three_way(7.0, None, None, None, draft_tokens=5).agree


def test_a_throughput_out_of_bounds_is_not_blamed_on_the_bonus() -> None:
    slow = three_way(None, None, 20, 31.74, draft_tokens=5)
    assert slow.texts == (
        "tokens/s x period: 0.63 tokens a cycle cannot be: the throughput holds time outside "
        "these cycles, or fewer requests ran",
    )
    fast = three_way(None, None, 710, 31.74, draft_tokens=5)
    assert "22.54 tokens a cycle cannot be: more requests ran" in fast.texts[0]
    assert three_way(None, None, 710, 31.74, draft_tokens=5, batch=10).agree


@examples()
@given(st.floats(1, 9), st.floats(1, 100), st.integers(1, 64))
def test_throughput_and_period_imply_the_length_they_came_from(
    length: float, period_ms: float, batch: int
) -> None:
    tokens_per_s = length * batch / period_ms * 1000
    assert implied_accept_len(tokens_per_s, period_ms, batch) == pytest.approx(length)
    assert implied_period_ms(length, tokens_per_s, batch) == pytest.approx(period_ms)
    assert three_way(length, length, tokens_per_s, period_ms, batch=batch).agree


@pytest.mark.parametrize("numbers", [(0, 31.74, 1), (71, -1, 1), (71, 31.74, 0)])
def test_rates_are_positive(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="positive"):
        implied_period_ms(*numbers)
    with pytest.raises(InputError, match="positive"):
        implied_accept_len(*numbers)


def test_what_looks_bonus_exclusive() -> None:
    assert bonus_excluded_looking(0.98)
    assert bonus_excluded_looking(0.98, 2.25)
    assert bonus_excluded_looking(1.25, 2.25)
    assert not bonus_excluded_looking(1.25)
    assert not bonus_excluded_looking(1.98, 2.25)
    assert not bonus_excluded_looking(2.25, 2.25)
    assert bonus_twice_looking(3.25, 2.25)
    assert not bonus_twice_looking(2.25, 2.25)
    assert not bonus_twice_looking(1.02, 0.02)


@pytest.mark.parametrize(("reference", "percent"), [(2.12, 12.5), (2.25, 21.6), (2.40, 30.0)])
def test_contamination_of_the_case(reference: float, percent: float) -> None:
    assert round(100 * contamination_share(0.98, reference), 1) == percent


@examples()
@given(st.floats(0, 0.99), st.floats(1.05, 9))
def test_contamination_comes_back(share: float, reference: float) -> None:
    diluted = (1 - share) * (reference - 1)
    assert contamination_share(diluted, reference) == pytest.approx(share, abs=1e-9)


def test_contamination_needs_something_to_dilute() -> None:
    assert contamination_share(1.5, 2.0) == 0
    for accepted, reference in ((0.0, 1.0), (-0.1, 2.0)):
        with pytest.raises(InputError, match="diluted"):
            contamination_share(accepted, reference)


@examples()
@given(st.floats(0.1, 5), st.floats(0.05, 2))
def test_noise_reaches_a_width_at_the_cycles_it_needs(sd: float, width: float) -> None:
    cycles = cycles_needed(sd, width)
    assert noise_half_width(sd, cycles) <= width * (1 + 1e-9)
    if cycles > 1:
        assert noise_half_width(sd, cycles - 1) > width * (1 - 1e-9)


def test_noise_needs_cycles() -> None:
    with pytest.raises(InputError):
        noise_half_width(1.5, 0)


def test_the_candidates_for_0_98_in_order() -> None:
    bonus, noise, contamination, prompts, change = explain_low(0.98, REFERENCE, SD, 100)
    assert "1.98 with the bonus" in bonus
    against_middle, against_low = (int(each) for each in re.findall(r"about (\d+)", noise))
    assert against_middle == pytest.approx(105, rel=0.1)
    assert against_low == pytest.approx(350, rel=0.12)
    assert "possible" in noise
    shares = [float(each) for each in re.findall(r"([\d.]+)%", contamination)]
    assert shares == pytest.approx([12, 22, 30], abs=0.5)
    assert "same prompts" in prompts
    assert "same token ids" in change


def test_the_cycles_that_noise_could_hide_behind() -> None:
    """About 350 cycles against 2.12 and 105 against 2.25, for an sd between 1.35 and 1.5."""
    low, high = (
        [cycles_needed(sd, gap) for sd in (1.35, 1.5)] for gap in (2.12 - 1.98, 2.25 - 1.98)
    )
    assert low[0] == pytest.approx(350, rel=0.03)
    assert high[0] < 105 < high[1]


def test_enough_cycles_exclude_noise() -> None:
    noise = explain_low(0.98, REFERENCE, SD, 2000)[1]
    assert noise.endswith("excluded.")
    assert "count the cycles" in explain_low(0.98, REFERENCE, SD, None)[1]


def test_an_exact_reference_is_named_once() -> None:
    texts = explain_low(1.98, Estimate.exact(2.25), SD, None)
    assert len(texts) == 4
    assert texts[0].count("against") == 1
    assert texts[1].count("for 2.25") == 1


def test_a_length_that_is_not_low_needs_no_explanation() -> None:
    assert explain_low(2.12, REFERENCE, SD, 100) == ()
    assert explain_low(3.0, REFERENCE, SD, 100) == ()
    assert len(explain_low(1.25, REFERENCE, SD, 100)) == 1  # the bonus explains it all


SOUND = AcceptanceReading(
    source="simulated",
    read_as="tokens a verify",
    conversion="none",
    accept_len=2.4651,
    draft_tokens=5,
    survival=AcceptanceCounts.from_histogram(5, [11, 14, 11, 4, 0, 3]).survival(),
    request_cycles=43,
    committed_tokens=106,
)


def test_a_sound_reading_has_no_troubles() -> None:
    assert troubles_of(SOUND) == ()


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        (replace(SOUND, accept_len=0.98, survival=(), committed_tokens=None), "below 1"),
        (replace(SOUND, accept_len=6.5, survival=(), committed_tokens=None), "above 6"),
        (replace(SOUND, survival=(0.5, 0.6)), "survival rises"),
        (replace(SOUND, survival=(0.5, 0.4)), "positions add up to 1.90"),
        (replace(SOUND, committed_tokens=63), "63 tokens in 43 cycles are 1.47 a cycle"),
    ],
    ids=["below", "above", "rising", "sum", "committed"],
)
def test_each_trouble_is_told(reading: AcceptanceReading, says: str) -> None:
    (text,) = troubles_of(reading)
    assert says in text
