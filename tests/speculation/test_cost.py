from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.speculation.cost import (
    ExpertCost,
    FixedStep,
    LinearCost,
    LinearFit,
    MeasuredCost,
    StairCost,
    experts_touched,
    fit_linear,
    fixed_step,
)

MS = st.floats(0.01, 200)
TOKENS = st.integers(1, 64)
_lines = st.builds(LinearCost, st.floats(-20, 100), st.floats(-5, 20))
_sizes = st.lists(TOKENS, min_size=2, max_size=7, unique=True)


def around(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half)


# Curves.


@examples(0.3)
@given(st.dictionaries(TOKENS, MS, min_size=1, max_size=6), st.floats(0.5, 70))
def test_a_measured_cost_passes_through_its_points_and_lies_between_its_neighbours(
    points: dict[int, float], tokens: float
) -> None:
    curve = MeasuredCost(tuple(points.items()))
    for number, ms in points.items():
        assert curve.ms(number) == pytest.approx(ms)
        assert curve.covers(number)
    assert curve.covers(tokens) == (min(points) <= tokens <= max(points))
    for (n0, ms0), (n1, ms1) in pairwise(sorted(points.items())):
        if n0 <= tokens <= n1:
            assert min(ms0, ms1) - 1e-9 <= curve.ms(tokens) <= max(ms0, ms1) + 1e-9


@examples(0.3)
@given(_lines, _sizes, st.floats(0, 200))
def test_a_measured_line_goes_on_beyond_its_points(
    line: LinearCost, sizes: list[int], tokens: float
) -> None:
    curve = MeasuredCost(tuple((n, line.ms(n)) for n in sizes))
    assert curve.ms(tokens) == pytest.approx(line.ms(tokens), abs=1e-6)


def test_one_point_is_the_cost_of_anything() -> None:
    assert MeasuredCost(((6, 28.45),)).ms(11) == 28.45


@pytest.mark.parametrize("points", [(), ((6, 28.45), (6, 28.5))])
def test_a_measured_cost_needs_points_that_do_not_contradict(
    points: tuple[tuple[float, float], ...],
) -> None:
    with pytest.raises(ValueError, match="one for each number"):
        MeasuredCost(points)


@examples(0.3)
@given(st.frozensets(TOKENS, min_size=1, max_size=6), TOKENS)
def test_graphs_pad_to_the_next_size_and_run_eagerly_beyond(
    sizes: frozenset[int], tokens: int
) -> None:
    padded = tokens
    while padded not in sizes and padded < max(sizes):
        padded += 1
    curve = LinearCost(1.0, 2.0)
    stairs = StairCost(curve, tuple(sizes))
    assert stairs.padded(tokens) == (padded if tokens <= max(sizes) else tokens)
    assert stairs.ms(tokens) == curve.ms(stairs.padded(tokens))


@pytest.mark.parametrize(
    ("tokens", "touched"), [(1, 8), (2, 15.83), (4, 31.0), (6, 45.6), (11, 79.4)]
)
def test_experts_touched_by_the_tokens_of_kimi_k25(tokens: int, touched: float) -> None:
    assert experts_touched(384, 8, tokens) == pytest.approx(touched, abs=0.05)


def test_experts_touched_is_the_mean_of_uniform_routing() -> None:
    rng = random.Random(3)
    draws = 4000
    total = sum(
        len({expert for _ in range(5) for expert in rng.sample(range(16), 3)}) for _ in range(draws)
    )
    assert total / draws == pytest.approx(experts_touched(16, 3, 5), abs=0.1)


@pytest.mark.parametrize(("experts", "active", "tokens"), [(8, 0, 1), (8, 9, 1), (8, 2, -1)])
def test_impossible_experts(experts: int, active: int, tokens: int) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        experts_touched(experts, active, tokens)


@examples(0.3)
@given(st.integers(2, 512), st.data(), MS, MS, st.integers(2, 32))
def test_an_expert_cost_passes_through_its_two_points_and_flattens(
    experts: int, data: st.DataObject, one_token_ms: float, more_ms: float, tokens: int
) -> None:
    active = data.draw(st.integers(1, experts - 1))
    if experts_touched(experts, active, 2) - active < 1e-3:
        return
    curve = ExpertCost.through(experts, active, one_token_ms, (tokens, one_token_ms + more_ms))
    assert curve.ms(1) == pytest.approx(one_token_ms)
    assert curve.ms(tokens) == pytest.approx(one_token_ms + more_ms)
    steps = [curve.ms(n + 1) - curve.ms(n) for n in range(1, 12)]
    assert all(after <= before + 1e-9 * more_ms for before, after in pairwise(steps))


def test_experts_that_explain_all_of_verifys_growth_are_a_third_of_a_decode_step() -> None:
    assert ExpertCost.through(384, 8, 11.1, (6, 28.45)).expert_ms == pytest.approx(3.69, abs=0.01)


# Fits.


def fit(points: list[tuple[float, Estimate | float]]) -> LinearFit:
    found = fit_linear(points)
    assert found is not None
    return found


@examples(0.5)
@given(_lines, _sizes, st.sampled_from((None, 0.0, 0.5)))
def test_a_fit_recovers_the_line_that_made_the_points(
    line: LinearCost, sizes: list[int], half: float | None
) -> None:
    found = fit(
        [(n, line.ms(n) if half is None else around(line.ms(n), half * (1 + n % 3))) for n in sizes]
    )
    assert found.fixed.value == pytest.approx(line.fixed_ms, abs=1e-6)
    assert found.per_token.value == pytest.approx(line.per_token_ms, abs=1e-6)
    assert found.curve == LinearCost(found.fixed.value, found.per_token.value)
    assert found.residual_ms == pytest.approx(0, abs=1e-6)
    assert (found.per_token.high - found.per_token.low > 1e-4) == bool(half)


@examples(0.3)
@given(st.lists(st.tuples(TOKENS, MS), min_size=2, max_size=6), st.data())
def test_no_other_line_leaves_less(points: list[tuple[int, float]], data: st.DataObject) -> None:
    found = fit_linear(points)
    if len({n for n, _ in points}) < 2:
        assert found is None
        return
    assert found is not None
    near = LinearCost(
        found.fixed.value + data.draw(st.floats(-1, 1)),
        found.per_token.value + data.draw(st.floats(-1, 1)),
    )
    squares = sum((ms - found.curve.ms(n)) ** 2 for n, ms in points)
    assert squares <= sum((ms - near.ms(n)) ** 2 for n, ms in points) + 1e-6
    assert found.residual_ms == pytest.approx((squares / len(points)) ** 0.5, abs=1e-6)


def test_a_narrow_point_weighs_more() -> None:
    wide_above = fit([(1, around(10, 0.1)), (2, around(20, 0.1)), (3, around(60, 20))])
    wide_below = fit([(1, around(10, 20)), (2, around(20, 0.1)), (3, around(60, 0.1))])
    assert wide_above.per_token.value == pytest.approx(10, abs=0.1)
    assert wide_below.per_token.value == pytest.approx(40, abs=0.1)


def test_two_points_have_the_interval_that_their_own_give() -> None:
    found = fit([(0, around(10, 3)), (2, around(20, 4))])
    assert found.fixed.value == 10
    assert found.fixed.high - found.fixed.value == pytest.approx(3)
    assert found.per_token.high - found.per_token.value == pytest.approx(5 / 2)
    half_known = fit([(0, Estimate.exact(10)), (2, around(20, 4))])
    assert half_known.per_token.high - half_known.per_token.value == pytest.approx(4 / 2)
    assert fit([(0, 10.0), (2, 20.0)]).per_token == Estimate.exact(5)


def test_points_that_miss_the_line_by_more_than_they_allow_widen_it() -> None:
    straight = fit([(n, around(n, 0.1)) for n in (1, 2, 3, 4)])
    bent = fit([(n, around(n**2, 0.1)) for n in (1, 2, 3, 4)])
    straight_width = straight.per_token.high - straight.per_token.low
    assert bent.per_token.high - bent.per_token.low > 5 * straight_width


TRUE_LINE = LinearCost(23.22, 0.87)
SIMULATIONS = 1500


def covered(
    line: LinearCost, sizes: tuple[int, ...], *, known: bool, decode_ms: float
) -> list[float]:
    """In simulations, the share in which fixed, per token, step and fixed share are held."""
    rng = random.Random(11)
    hits = [0, 0, 0, 0]
    growth = line.ms(max(sizes)) - decode_ms
    step = line.ms(1) - decode_ms
    for _ in range(SIMULATIONS):
        points: list[tuple[float, Estimate | float]] = []
        for n in sizes:
            sd = 0.2 * (1 + n % 3) if known else 0.4
            drawn = rng.gauss(line.ms(n), sd)
            points.append((n, around(drawn, 1.96 * sd) if known else drawn))
        found = fit(points)
        split = fixed_step(around(rng.gauss(decode_ms, 0.3), 1.96 * 0.3), points)
        assert split is not None
        truths = (line.fixed_ms, line.per_token_ms, step, step / growth)
        estimates = (found.fixed, found.per_token, split.step_ms, split.fixed_share)
        for number, (truth, each) in enumerate(zip(truths, estimates, strict=True)):
            hits[number] += each.low <= truth <= each.high
    return [each / SIMULATIONS for each in hits]


@pytest.mark.parametrize(
    ("sizes", "known"), [((2, 6), True), ((2, 4, 6, 11), True), ((2, 3, 4, 6, 11), False)]
)
def test_intervals_of_a_fit_hold_the_truth(sizes: tuple[int, ...], known: bool) -> None:
    assert min(covered(TRUE_LINE, sizes, known=known, decode_ms=11.1)) >= 0.93


# The fixed step.


def test_the_fixed_step_of_the_seed_case() -> None:
    split = fixed_step(11.1, [(n, TRUE_LINE.ms(n)) for n in (2, 4, 6, 11)])
    assert split is not None
    assert split.step_ms.value == pytest.approx(12.99)
    assert split.per_token_ms.value == pytest.approx(0.87)
    assert split.share_at(6).value == pytest.approx(0.749, abs=0.001)
    assert split.growth_ms(6) == pytest.approx(TRUE_LINE.ms(6) - 11.1)
    assert split.fixed_share == split.share_at(11)


@examples(0.3)
@given(MS, MS, MS, _sizes)
@example(1.0, 50.40576672128647, 1.01, [12, 1, 3, 4, 34, 23, 6])
def test_the_split_adds_up_to_verifys_growth(
    decode_ms: float, step_ms: float, token_ms: float, sizes: list[int]
) -> None:
    points = [(n, decode_ms + step_ms + token_ms * (n - 1)) for n in sizes]
    split = fixed_step(decode_ms, points)
    assert split is not None
    assert split.step_ms.value == pytest.approx(step_ms, abs=1e-6)
    for n, ms in points:
        assert decode_ms + split.growth_ms(n) == pytest.approx(ms)
        by_token = token_ms * (n - 1)
        assert split.share_at(n).value == pytest.approx(step_ms / (step_ms + by_token), abs=1e-6)


def test_one_number_of_tokens_cannot_be_split() -> None:
    assert fit_linear([(6, 28.4), (6, 28.5)]) is None
    assert fixed_step(11.1, [(6, 28.45)]) is None


def test_verify_as_cheap_as_decode_has_no_fixed_share() -> None:
    nothing = Estimate.exact(0.0)
    assert FixedStep(nothing, nothing, nothing).share_at(6) == nothing
    assert FixedStep(around(-1, 0.5), around(1, 0.5), nothing).share_at(6) == nothing


def test_the_decode_steps_own_doubt_is_in_the_step() -> None:
    points = [(1, around(24, 3)), (2, around(25, 3))]
    split = fixed_step(around(11, 4), points)
    assert split is not None
    assert split.step_ms.high == pytest.approx(13 + 5)
    assert split.step_ms.low == pytest.approx(13 - 5)
