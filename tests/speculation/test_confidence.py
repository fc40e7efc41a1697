"""Intervals against published figures, brute force, and simulations that know the truth."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.speculation.acceptance import alpha_of, geometric_survival, sd_from_survival
from traceanalyzer.speculation.confidence import (
    Estimate,
    block_mean,
    block_ratio,
    clustered_ratio,
    cycles_needed,
    cycles_to_tell_apart,
    differs,
    product,
    ratio,
    t_quantile_95,
    wilson,
)

LEVEL = 0.93
"""What an interval called 95 % must reach in simulation."""

positive = st.floats(0.1, 50)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    value, below, above = draw(positive), draw(st.floats(0, 0.9)), draw(st.floats(0, 3))
    return Estimate(value, value * (1 - below), value * (1 + above))


def holds(estimate: Estimate | None, truth: float) -> bool:
    assert estimate is not None
    return estimate.low <= truth <= estimate.high


def test_an_interval_holds_its_value() -> None:
    assert Estimate.exact(2.25) == Estimate(2.25, 2.25, 2.25)
    for wrong in ((1.0, 1.1, 1.2), (1.0, 0.8, 0.9), (math.nan, 0.0, 1.0)):
        with pytest.raises(ValueError, match="not within"):
            Estimate(*wrong)


# Wilson.


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_is_the_published_one(successes: int, trials: int, low: float, high: float) -> None:
    """Newcombe 1998, Stat. Med. 17, 857-872, table I, method 3."""
    found = wilson(successes, trials)
    assert found.value == successes / trials
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@examples(0.4)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_ends_are_where_the_score_test_just_rejects(counts: tuple[int, int]) -> None:
    successes, trials = counts
    found = wilson(successes, trials)
    for end in (found.low, found.high):
        score = abs(found.value - end)
        assert score == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / trials), abs=1e-7)
    mirrored = wilson(trials - successes, trials)
    assert mirrored.low == pytest.approx(1 - found.high)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 4)])
def test_wilson_needs_trials(successes: int, trials: int) -> None:
    with pytest.raises(InputError):
        wilson(successes, trials)


# Student's t.


@pytest.mark.parametrize(
    ("degrees", "value"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_t_is_the_tabled_one(degrees: int, value: float) -> None:
    assert round(t_quantile_95(degrees), 3) == value


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 40, 200, 201, 5000])
def test_t_holds_its_share_of_the_density(degrees: int) -> None:
    """The density integrated by Simpson's rule is the reference."""
    end, steps = t_quantile_95(degrees), 4000
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    scale /= math.sqrt(degrees * math.pi)
    heights = [
        scale * (1 + (end * at / steps) ** 2 / degrees) ** (-(degrees + 1) / 2)
        for at in range(steps + 1)
    ]
    inner = 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    area = (heights[0] + heights[-1] + inner) * end / steps / 3
    assert 2 * area == pytest.approx(0.95, abs=1e-8)


def test_t_needs_a_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        t_quantile_95(0)


# Ratios by request.


def simulated_requests(rng: random.Random, lengths: float, spread: float) -> list[tuple[int, int]]:
    """20 requests as (tokens, cycles): lengths lognormal, alpha normal around 0.57, k = 5."""
    requests = []
    for _ in range(20):
        cycles = max(1, round(30 * rng.lognormvariate(0, lengths)))
        alpha = min(0.95, max(0.05, rng.gauss(0.57, spread)))
        tokens = 0
        for _ in range(cycles):
            tokens += 1
            for _ in range(5):
                if rng.random() >= alpha:
                    break
                tokens += 1
        requests.append((tokens, cycles))
    return requests


def true_accept_len(spread: float) -> float:
    rng = random.Random(5)
    alphas = [min(0.95, max(0.05, rng.gauss(0.57, spread))) for _ in range(20_000)]
    return statistics.fmean(1 + sum(geometric_survival(alpha, 5)) for alpha in alphas)


@pytest.mark.parametrize(("lengths", "spread"), [(0.0, 0.0), (0.5, 0.1), (0.8, 0.15)])
def test_ratios_of_20_requests_hold_the_truth(lengths: float, spread: float) -> None:
    """Simulated: requests of very different lengths, acceptance differing between them."""
    rng, truth, draws = random.Random(7), true_accept_len(spread), 2000
    held = sum(
        holds(clustered_ratio(simulated_requests(rng, lengths, spread)), truth)
        for _ in range(draws)
    )
    assert held >= LEVEL * draws


def test_cycles_taken_as_independent_would_be_too_sure() -> None:
    rng, truth, held = random.Random(7), true_accept_len(0.15), 0
    for _ in range(200):
        requests = simulated_requests(rng, 0.5, 0.15)
        cycles = sum(each for _, each in requests)
        mean = sum(tokens for tokens, _ in requests) / cycles
        held += abs(mean - truth) <= 1.96 * 1.49 / math.sqrt(cycles)
    assert held < 0.8 * 200


@examples(0.4)
@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 100)), min_size=2, max_size=30))
def test_a_ratio_is_its_brute_force_jackknife(clusters: list[tuple[int, int]]) -> None:
    above, below = (sum(each) for each in zip(*clusters, strict=True))
    without = [(above - a) / (below - b) for a, b in clusters]
    variance = sum((each - above / below) ** 2 for each in without)
    variance *= (len(clusters) - 1) / len(clusters)
    effective = below**2 / sum(b**2 for _, b in clusters)
    half = t_quantile_95(max(1, math.floor(effective + 1e-9) - 1)) * math.sqrt(variance)
    found = clustered_ratio(clusters)
    assert found is not None
    assert found.value == pytest.approx(above / below)
    if half < 20 * found.value:
        assert math.log(found.high / found.value) == pytest.approx(half / found.value, abs=1e-9)
        assert math.log(found.value / found.low) == pytest.approx(half / found.value, abs=1e-9)


def test_equal_clusters_give_a_students_interval() -> None:
    values = [2.1, 2.3, 2.0, 2.6, -0.1]
    found = clustered_ratio([(value, 1) for value in values])
    half = 2.776445 * statistics.stdev(values) / math.sqrt(5)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((1.78 - half, 1.78 + half), rel=1e-6)


def test_one_long_request_among_short_ones_widens_the_interval() -> None:
    """Both hold 2,000 cycles in requests of 2.15 or 2.35 tokens a cycle."""
    even = clustered_ratio([(215, 100), (235, 100)] * 10)
    uneven = clustered_ratio([(43, 20), (47, 20)] * 10 + [(3440, 1600)])
    assert even is not None
    assert uneven is not None
    assert uneven.high - uneven.low > 2 * (even.high - even.low)


def test_a_ratio_needs_two_clusters_and_sound_denominators() -> None:
    assert clustered_ratio([]) is None
    assert clustered_ratio([(5, 2), (0, 0)]) is None
    assert clustered_ratio([(0, 3), (0, 1)]) == Estimate.exact(0)
    lost = clustered_ratio([(1000, 1000), (5, 0.001)])
    assert lost is not None
    assert (lost.low, lost.high) == (0, math.inf)
    for wrong in ([(1, -1), (2, 2)], [(1, 0), (2, 2)]):
        with pytest.raises(InputError, match="denominator"):
            clustered_ratio(wrong)


# Means of dependent cycles.


def autoregressive(rng: random.Random, count: int, dependence: float) -> list[float]:
    state = rng.gauss(0, 1) / math.sqrt(1 - dependence**2)
    values = []
    for _ in range(count):
        values.append(30 + state)
        state = dependence * state + rng.gauss(0, 1)
    return values


@pytest.mark.parametrize("dependence", [-0.5, 0.0, 0.5, 0.8, 0.9])
def test_means_of_200_dependent_cycles_hold_the_truth(dependence: float) -> None:
    """Simulated first-order autoregressive periods around 30 ms."""
    rng, draws = random.Random(13), 1000
    held = sum(holds(block_mean(autoregressive(rng, 200, dependence)), 30) for _ in range(draws))
    assert held >= LEVEL * draws


def test_a_slow_drift_beneath_noise_is_not_missed() -> None:
    """Simulated, and harder: 200 cycles are few for it, so the level is only nearly held."""
    rng, draws, held = random.Random(31), 1000, 0
    for _ in range(draws):
        values = [each + 2 * rng.gauss(0, 1) for each in autoregressive(rng, 200, 0.9)]
        held += holds(block_mean(values), 30)
    assert held >= 0.9 * draws


def test_means_of_dependent_cycles_taken_as_independent_would_be_too_sure() -> None:
    rng, held = random.Random(13), 0
    for _ in range(200):
        values = autoregressive(rng, 200, 0.6)
        half = 1.96 * statistics.stdev(values) / math.sqrt(200)
        held += abs(statistics.fmean(values) - 30) <= half
    assert held < 0.8 * 200


def test_ratios_of_200_dependent_cycles_hold_the_truth() -> None:
    """Simulated: tokens over a period that grows with them and drifts."""
    rng, draws, held = random.Random(17), 1000, 0
    for _ in range(draws):
        periods = autoregressive(rng, 200, 0.7)
        tokens = [rng.choice((1, 2, 2, 3, 4, 6)) for _ in periods]
        pairs = [(each, period + each - 3) for each, period in zip(tokens, periods, strict=True)]
        held += holds(block_ratio(pairs), 3 / 30)
    assert held >= LEVEL * draws


@examples(0.4)
@given(st.lists(st.floats(-100, 100), min_size=2, max_size=15))
def test_a_short_series_gets_students_interval(values: list[float]) -> None:
    found = block_mean(values)
    assert found is not None
    half = t_quantile_95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    assert found.value == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert found.high - found.value == pytest.approx(half, rel=1e-6, abs=1e-6)


@examples(0.3)
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=60), st.floats(0.1, 9), st.floats(-50, 50))
def test_intervals_move_and_stretch_with_their_series(
    values: list[float], stretch: float, shift: float
) -> None:
    plain = block_mean(values)
    moved = block_mean([stretch * each + shift for each in values])
    assert plain is not None
    assert moved is not None
    for name in ("value", "low", "high"):
        wanted = stretch * getattr(plain, name) + shift
        assert getattr(moved, name) == pytest.approx(wanted, rel=1e-5, abs=1e-3)


@examples(0.3)
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=60), st.floats(0.5, 4))
def test_a_ratio_over_a_constant_is_a_mean(values: list[float], constant: float) -> None:
    mean, quotient = block_mean(values), block_ratio([(each, constant) for each in values])
    assert mean is not None
    assert quotient is not None
    assert quotient.value * constant == pytest.approx(mean.value, abs=1e-9)
    assert quotient.high * constant == pytest.approx(mean.high, rel=1e-5, abs=1e-3)


def test_what_moves_together_cancels_in_a_ratio() -> None:
    rng = random.Random(3)
    pairs = [(2 * below, below) for below in autoregressive(rng, 100, 0.8)]
    found = block_ratio(pairs)
    assert found is not None
    assert found.value == pytest.approx(2)
    assert found.high - found.low < 1e-9


def test_a_series_needs_two_values() -> None:
    assert block_mean([]) is None
    assert block_mean([1.0]) is None
    assert block_ratio([(1, 2)]) is None
    assert block_ratio([(1, 0), (2, 0)]) is None
    assert block_mean([31.74] * 200) == Estimate.exact(31.74)


# Products.


@examples(0.4)
@given(estimates(), estimates())
def test_a_quotient_turns_over(one: Estimate, other: Estimate) -> None:
    there, back = ratio(one, other), ratio(other, one)
    assert there.value == pytest.approx(1 / back.value)
    assert there.low == pytest.approx(1 / back.high)


@examples(0.4)
@given(estimates(), st.floats(-3, 3))
def test_one_factor_keeps_its_ends(factor: Estimate, exponent: float) -> None:
    found = product((factor, exponent))
    ends = sorted((factor.low**exponent, factor.high**exponent))
    assert (found.low, found.high) == pytest.approx(ends)


@examples(0.4)
@given(estimates(), estimates(), positive)
def test_doubt_only_grows_and_exact_factors_add_none(
    one: Estimate, other: Estimate, factor: float
) -> None:
    both = product((one, 1), (other, 1))
    assert both.high / both.value >= max(one.high / one.value, other.high / other.value) - 1e-9
    scaled = product((one, 1), (Estimate.exact(factor), 1))
    assert (scaled.low, scaled.high) == pytest.approx((one.low * factor, one.high * factor))
    assert product((one, 1), (other, 0)) == product((one, 1))


def test_a_speedup_holds_the_truth() -> None:
    """Simulated: S = A x T_base / T from three independent means."""
    rng, held = random.Random(23), 0
    for _ in range(1000):
        factors = []
        for mean, sd, exponent in ((2.25, 0.06, 1.0), (11.1, 0.3, 1.0), (31.74, 0.9, -1.0)):
            value = rng.gauss(mean, sd)
            factors.append((Estimate(value, value - 1.96 * sd, value + 1.96 * sd), exponent))
        held += holds(product(*factors), 2.25 * 11.1 / 31.74)
    assert 0.93 <= held / 1000 <= 0.97


def test_an_interval_down_to_zero_bounds_nothing() -> None:
    vague = Estimate(1.0, 0.0, 2.0)
    assert product((vague, 1)).low == 0
    assert product((vague, -1)).high == math.inf
    assert product() == Estimate.exact(1)
    with pytest.raises(InputError, match="positive"):
        product((Estimate(0.0, 0.0, 1.0), 1))


# Comparing, and how many cycles it takes.


def test_estimates_differ_when_zero_is_no_possible_difference() -> None:
    one = Estimate(2.25, 2.15, 2.35)
    assert differs(one, Estimate(2.40, 2.30, 2.50))  # the intervals overlap
    assert not differs(one, Estimate(2.38, 2.28, 2.48))
    assert not differs(one, one)
    assert differs(one, Estimate.exact(2.36))
    assert not differs(one, Estimate.exact(2.35))
    # Only the sides that face each other count.
    assert differs(Estimate(2.0, 1.0, 2.1), Estimate(2.4, 2.3, 3.4))


@examples(0.4)
@given(estimates(), estimates())
def test_differing_knows_no_order(one: Estimate, other: Estimate) -> None:
    assert differs(one, other) == differs(other, one)


def test_cycles_the_case_needs() -> None:
    accept_len = 71 * 31.74 / 1000
    sd = sd_from_survival(geometric_survival(alpha_of(accept_len, 5), 5))
    assert [cycles_needed(sd, half) for half in (0.2, 0.1, 0.05)] == [213, 851, 3402]
    assert cycles_needed(sd, 31.74 / 11.1 - accept_len) == 24
    assert round(cycles_needed(sd, 0.1) * 31.74 / 1000) == 27  # seconds of decoding


def test_telling_two_runs_apart() -> None:
    """Simulated at the size asked for: the difference shows in about 8 of 10 tries."""
    rng, sd, difference = random.Random(29), 1.5, 0.6
    count = cycles_to_tell_apart(sd, difference)
    assert count == math.ceil(2 * (2.8016 * sd / difference) ** 2)
    shown = 0
    for _ in range(1000):
        gap = rng.gauss(difference, sd * math.sqrt(2 / count))
        shown += gap > 1.96 * sd * math.sqrt(2 / count)
    assert 0.76 <= shown / 1000 <= 0.84


@pytest.mark.parametrize("width", [0.0, -1.0, math.nan])
def test_a_width_is_positive(width: float) -> None:
    with pytest.raises(InputError, match="positive"):
        cycles_needed(1.5, width)
    with pytest.raises(InputError, match="positive"):
        cycles_to_tell_apart(1.5, width)
