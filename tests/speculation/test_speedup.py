from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.speculation.speedup import (
    ENOUGH_MATCHED_SHARE,
    BucketLoad,
    MixedSpeedup,
    batch_threshold,
    break_even_accept_len,
    break_even_period_ms,
    break_even_verify_ms,
    elasticities,
    free_drafting_speedup,
    goodput,
    implied_accept_len,
    mixed_speedup,
    perfect_acceptance_speedup,
    speedup,
    speedup_estimate,
    target_efficiency,
    tokens_per_s,
    verify_ms_per_committed_token,
    wasted_share,
    whole_service_speedup,
)

if TYPE_CHECKING:
    import random

# The seed case: Kimi-K2.5, TP8, EAGLE-3, k = 5. Measured ms, and tokens a second.
DRAFT, VERIFY, EXTEND, PERIOD, BASELINE = 2.18, 28.45, 1.12, 31.74, 11.1
MEASURED_RATE = 71.0
ACCEPT_LEN = implied_accept_len(MEASURED_RATE, PERIOD)

MS = st.floats(0.1, 500)
ACCEPT_LENS = st.floats(1, 9)


def test_the_cycle_of_the_seed_case() -> None:
    # Each part is rounded, and so is their sum.
    assert pytest.approx(PERIOD, abs=0.0151) == DRAFT + VERIFY + EXTEND
    shares = [
        -100 * each
        for each in elasticities(
            {"draft": DRAFT, "verify": VERIFY, "draft_extend": EXTEND}, PERIOD
        ).values()
    ]
    assert shares == pytest.approx([6.9, 89.6, 3.5], abs=0.05)


@pytest.mark.parametrize(
    ("found", "expected", "within"),
    [
        pytest.param(break_even_accept_len(PERIOD, BASELINE), 2.8595, 5e-5, id="break-even"),
        pytest.param(tokens_per_s(1, BASELINE), 90.1, 0.05, id="baseline tok/s"),
        pytest.param(VERIFY / 6, 4.74, 0.005, id="verify per token"),
        pytest.param(1 / target_efficiency(VERIFY, BASELINE), 2.563, 5e-4, id="verify per decode"),
        pytest.param(ACCEPT_LEN, 2.2535, 5e-5, id="implied accept_len"),
        pytest.param(speedup(ACCEPT_LEN, PERIOD, BASELINE), 0.788, 5e-4, id="speed-up"),
        pytest.param(tokens_per_s(2.1, PERIOD), 66.2, 0.05, id="tok/s at 2.1"),
        pytest.param(tokens_per_s(2.12, PERIOD), 66.8, 0.05, id="tok/s at 2.12"),
        pytest.param(tokens_per_s(2.25, PERIOD), 70.9, 0.05, id="tok/s at 2.25"),
        pytest.param(tokens_per_s(2.4, PERIOD), 75.6, 0.05, id="tok/s at 2.4"),
        pytest.param(
            break_even_verify_ms(ACCEPT_LEN, BASELINE, DRAFT + EXTEND), 21.71, 0.006, id="verify*"
        ),
        pytest.param(break_even_period_ms(ACCEPT_LEN, BASELINE), 25.01, 0.005, id="cycle*"),
        pytest.param(
            verify_ms_per_committed_token(ACCEPT_LEN, VERIFY), 12.62, 0.005, id="verify committed"
        ),
        pytest.param(100 * wasted_share(ACCEPT_LEN, 6), 62.4, 0.05, id="wasted"),
        pytest.param(
            free_drafting_speedup(ACCEPT_LEN, VERIFY, BASELINE) * tokens_per_s(1, BASELINE),
            79.21,
            0.005,
            id="free draft and extend",
        ),
        pytest.param(
            perfect_acceptance_speedup(5, PERIOD, BASELINE) * tokens_per_s(1, BASELINE),
            189,
            0.05,
            id="every draft accepted",
        ),
    ],
)
def test_figures_of_the_seed_case(found: float, expected: float, within: float) -> None:
    assert found == pytest.approx(expected, abs=within)


def test_verify_must_lose_a_quarter_in_the_seed_case() -> None:
    needed = break_even_verify_ms(ACCEPT_LEN, BASELINE, DRAFT + EXTEND)
    assert needed / VERIFY - 1 == pytest.approx(-0.237, abs=5e-4)


# Laws.


@examples(0.3)
@given(ACCEPT_LENS, MS, MS, MS)
def test_speedup_at_break_even_is_one_on_each_axis(
    accept_len: float, verify_ms: float, rest_ms: float, baseline_ms: float
) -> None:
    period_ms = verify_ms + rest_ms
    needed = break_even_accept_len(period_ms, baseline_ms)
    assert speedup(needed, period_ms, baseline_ms) == pytest.approx(1)
    longest = break_even_period_ms(accept_len, baseline_ms)
    assert speedup(accept_len, longest, baseline_ms) == pytest.approx(1)
    dearest = break_even_verify_ms(accept_len, baseline_ms, rest_ms)
    if dearest > 0:
        assert speedup(accept_len, dearest + rest_ms, baseline_ms) == pytest.approx(1)
    else:
        assert speedup(accept_len, rest_ms, baseline_ms) <= 1 + 1e-9


@examples(0.3)
@given(ACCEPT_LENS, MS, MS, st.integers(1, 256))
def test_speedup_is_the_ratio_of_token_rates_at_one_batch(
    accept_len: float, period_ms: float, baseline_ms: float, batch: int
) -> None:
    rate = tokens_per_s(accept_len, period_ms, batch)
    plain = tokens_per_s(1, baseline_ms, batch)
    assert rate / plain == pytest.approx(speedup(accept_len, period_ms, baseline_ms))
    assert implied_accept_len(rate, period_ms, batch) == pytest.approx(accept_len)
    cycles = 7
    assert goodput(accept_len * batch * cycles, period_ms * cycles) == pytest.approx(rate)


@examples(0.3)
@given(ACCEPT_LENS, MS, MS, MS, MS)
def test_ceilings_are_never_below_the_speedup(
    accept_len: float, draft_ms: float, verify_ms: float, other_ms: float, baseline_ms: float
) -> None:
    now = speedup(accept_len, draft_ms + verify_ms + other_ms, baseline_ms)
    assert free_drafting_speedup(accept_len, verify_ms, baseline_ms, other_ms) > now
    if verify_ms_per_committed_token(accept_len, verify_ms) > baseline_ms * (1 + 1e-9):
        assert free_drafting_speedup(accept_len, verify_ms, baseline_ms, other_ms) < 1
    period_ms = draft_ms + verify_ms + other_ms
    assert perfect_acceptance_speedup(8, period_ms, baseline_ms) >= now * (1 - 1e-9)


@examples(0.3)
@given(st.dictionaries(st.sampled_from("abcd"), MS, min_size=1), ACCEPT_LENS, MS)
def test_elasticities_are_the_slopes_of_the_logarithm(
    phase_ms: dict[str, float], accept_len: float, baseline_ms: float
) -> None:
    period_ms = sum(phase_ms.values())
    slopes = elasticities(phase_ms, period_ms)
    assert sum(slopes.values()) == pytest.approx(-1)
    for phase, ms in phase_ms.items():
        longer = speedup(accept_len, period_ms + 1e-5 * ms, baseline_ms)
        change = math.log(longer / speedup(accept_len, period_ms, baseline_ms))
        assert change / math.log1p(1e-5) == pytest.approx(slopes[phase], rel=1e-3)


@examples(0.3)
@given(ACCEPT_LENS, MS, MS, st.floats(0, 0.3), st.floats(0, 0.3))
def test_the_interval_of_a_speedup_holds_it_and_is_no_narrower_than_a_parts(
    accept_len: float, period_ms: float, baseline_ms: float, a_share: float, t_share: float
) -> None:
    def within(value: float, share: float) -> Estimate:
        return Estimate(value, value / (1 + share), value * (1 + share))

    found = speedup_estimate(
        within(accept_len, a_share), within(period_ms, t_share), Estimate.exact(baseline_ms)
    )
    assert found.value == pytest.approx(speedup(accept_len, period_ms, baseline_ms))
    widest = 1 + max(a_share, t_share)
    assert found.low <= found.value / widest * (1 + 1e-9)
    assert found.high >= found.value * widest * (1 - 1e-9)


@examples(0.3)
@given(st.floats(0, 1), st.floats(0.2, 5))
def test_a_whole_service_gains_between_nothing_and_the_speedup_of_decoding(
    phi: float, decode_speedup: float
) -> None:
    whole = whole_service_speedup(phi, decode_speedup)
    low, high = sorted((1.0, decode_speedup))
    assert low - 1e-9 <= whole <= high + 1e-9
    assert 1 / whole == pytest.approx(phi + (1 - phi) / decode_speedup)


# Mixed loads.


def load(
    cycles: int, accept_len: float, period_ms: float, batch: int, baseline_ms: float | None
) -> BucketLoad:
    return BucketLoad(cycles * batch * accept_len, cycles * period_ms, batch, baseline_ms)


_loads = st.lists(
    st.builds(load, st.integers(1, 1000), ACCEPT_LENS, MS, st.integers(1, 64), MS),
    min_size=1,
    max_size=6,
)


@examples(0.5)
@given(_loads)
def test_a_mixed_speedup_lies_within_those_of_its_buckets(loads: list[BucketLoad]) -> None:
    each = [mixed_speedup([one]).speedup or 0.0 for one in loads]
    found = mixed_speedup(loads)
    assert found.matched_share == 1
    assert found.speedup is not None
    assert min(each) * (1 - 1e-9) <= found.speedup <= max(each) * (1 + 1e-9)


@examples(0.3)
@given(st.integers(1, 1000), ACCEPT_LENS, MS, st.integers(1, 64), MS)
def test_one_bucket_has_the_plain_speedup(
    cycles: int, accept_len: float, period_ms: float, batch: int, baseline_ms: float
) -> None:
    found = mixed_speedup([load(cycles, accept_len, period_ms, batch, baseline_ms)])
    assert found.speedup == pytest.approx(speedup(accept_len, period_ms, baseline_ms))


@examples(0.3)
@given(_loads, st.randoms(use_true_random=False))
def test_splitting_or_shuffling_buckets_changes_nothing(
    loads: list[BucketLoad], rng: random.Random
) -> None:
    halves = [
        BucketLoad(each.committed_tokens / 2, each.wall_ms / 2, each.batch, each.baseline_ms)
        for each in (*loads, *loads)
    ]
    rng.shuffle(halves)
    found, again = mixed_speedup(loads), mixed_speedup(halves)
    assert found.speedup is not None
    assert again.speedup == pytest.approx(found.speedup)


# (cycles, accept_len, period, batch, baseline) of a small and a large batch, and the cycles of the
# two in the run without speculation: its mix of batches is another one.
ALL_WIN = ([(900, 2.6, 25.0, 1, 10.0), (100, 2.6, 50.0, 32, 20.0)], (100, 900))
ALL_LOSE = ([(100, 2.4, 25.0, 1, 10.0), (900, 2.4, 50.0, 32, 20.0)], (900, 100))


@pytest.mark.parametrize(("case", "wins"), [(ALL_WIN, True), (ALL_LOSE, False)])
def test_a_shift_of_load_is_no_speedup_and_hides_none(
    case: tuple[list[tuple[int, float, float, int, float]], tuple[int, int]], wins: bool
) -> None:
    """Simpson's paradox: every bucket says one thing, pooled tokens a second the other."""
    buckets, plain_cycles = case
    loads = [load(*bucket) for bucket in buckets]
    assert all((speedup(a, t, base) > 1) == wins for _, a, t, _, base in buckets)
    pooled = goodput(
        sum(each.committed_tokens for each in loads), sum(each.wall_ms for each in loads)
    )
    plain = goodput(
        sum(n * b for n, (_, _, _, b, _) in zip(plain_cycles, buckets, strict=True)),
        sum(n * base for n, (_, _, _, _, base) in zip(plain_cycles, buckets, strict=True)),
    )
    assert (pooled / plain > 1) != wins
    found = mixed_speedup(loads).speedup
    assert found is not None
    assert (found > 1) == wins


def test_means_over_buckets_lose_where_each_bucket_wins() -> None:
    buckets = [(900, 1.2, 11.0, 1, 10.0), (100, 4.0, 79.0, 1, 20.0)]
    cycles = sum(bucket[0] for bucket in buckets)
    accept_len, period_ms, baseline_ms = (
        sum(bucket[0] * bucket[at] for bucket in buckets) / cycles for at in (1, 2, 4)
    )
    assert speedup(accept_len, period_ms, baseline_ms) < 1
    found = mixed_speedup([load(*bucket) for bucket in buckets]).speedup
    assert found is not None
    assert found > 1


def test_means_over_buckets_win_where_each_bucket_loses() -> None:
    buckets = [(500, 4.0, 41.0, 1, 10.0), (500, 1.0, 41.0, 1, 40.0)]
    accept_len, period_ms, baseline_ms = (
        sum(bucket[at] for bucket in buckets) / 2 for at in (1, 2, 4)
    )
    assert speedup(accept_len, period_ms, baseline_ms) > 1
    found = mixed_speedup([load(*bucket) for bucket in buckets]).speedup
    assert found is not None
    assert found < 1


@pytest.mark.parametrize(("unmatched_ms", "given"), [(24.9, True), (25.1, False)])
def test_too_little_matched_time_withholds_the_speedup(unmatched_ms: float, given: bool) -> None:
    found = mixed_speedup([BucketLoad(20, 100, 1, 11.0), BucketLoad(99, unmatched_ms, 8, None)])
    assert found.matched_share == pytest.approx(100 / (100 + unmatched_ms))
    assert (found.matched_share >= ENOUGH_MATCHED_SHARE) == given
    assert found.speedup == (pytest.approx(2.2) if given else None)


def test_no_load_has_no_speedup() -> None:
    assert mixed_speedup([]) == MixedSpeedup(None, 0.0)


# Where speculation stops to pay.

_points = st.lists(
    st.tuples(st.floats(0.3, 3), st.floats(1, 1.4), st.floats(1, 1.4)), min_size=1, max_size=7
).map(
    lambda rows: [
        (float(2**at), Estimate(s, s / below, s * above))
        for at, (s, below, above) in enumerate(rows)
    ]
)


@examples(0.5)
@given(_points)
def test_the_threshold_lies_between_the_batches_on_either_side_of_one(
    points: list[tuple[float, Estimate]],
) -> None:
    found = batch_threshold(points)
    values = [s.value for _, s in points]
    falls = [at for at in range(1, len(values)) if values[at] < 1 <= min(values[:at])]
    if found.batch is None:
        assert not falls
        assert found.outcome == ("loses from the start" if values[0] < 1 else "wins throughout")
        assert (found.outcome == "wins throughout") == all(each >= 1 for each in values)
    else:
        assert found.outcome == "crosses"
        assert points[falls[0] - 1][0] <= found.batch <= points[falls[0]][0]
        assert (found.low or 0) <= found.batch * (1 + 1e-9)
        assert (found.high or math.inf) >= found.batch * (1 - 1e-9)


@examples(0.3)
@given(st.floats(1.01, 100), st.floats(0.05, 2), st.permutations([1, 2, 4, 16, 64, 128]))
def test_a_speedup_that_falls_as_a_power_of_the_batch_is_crossed_exactly(
    crossing: float, power: float, batches: list[int]
) -> None:
    found = batch_threshold(
        [(batch, Estimate.exact((crossing / batch) ** power)) for batch in batches]
    )
    assert found.batch == pytest.approx(crossing)
    assert found.low == found.high == found.batch


def test_a_threshold_beyond_the_batches_measured_is_open() -> None:
    points = [(1.0, Estimate(1.05, 0.9, 1.2)), (8.0, Estimate(0.99, 0.8, 1.1))]
    found = batch_threshold(points)
    assert (found.low, found.high) == (None, None)
    assert found.batch is not None
    with pytest.raises(ValueError, match="at some batch"):
        batch_threshold([])


def test_the_interval_widens_with_the_doubt() -> None:
    batches = [(1.0, 1.8), (8.0, 1.2), (32.0, 0.8), (64.0, 0.5)]
    found = [
        batch_threshold([(b, Estimate(s, s / (1 + w), s * (1 + w))) for b, s in batches])
        for w in (0.0, 0.05, 0.1)
    ]
    widths = [(each.high or math.inf) - (each.low or 0) for each in found]
    assert all(after > before for before, after in pairwise(widths))
