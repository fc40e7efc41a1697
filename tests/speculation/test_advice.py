from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.speculation.acceptance import geometric_survival
from traceanalyzer.speculation.advice import (
    Action,
    ClassGrowth,
    Situation,
    advise,
    next_measurement,
)
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.speculation.cost import FixedStep, LinearCost, fixed_step
from traceanalyzer.speculation.draft_length import predict
from traceanalyzer.speculation.situation import cycle_costs, survival_of, token_ms
from traceanalyzer.speculation.speedup import (
    Threshold,
    implied_accept_len,
    tokens_per_s,
    verify_ms_per_committed_token,
)

DECODE_MS, VERIFY_MS = 11.1, 28.45


def swept(verify: LinearCost) -> FixedStep:
    split = fixed_step(DECODE_MS, [(n, verify.ms(n)) for n in (2, 4, 6, 11)])
    assert split is not None
    return split


FIXED = swept(LinearCost(23.22, 0.87))
PER_TOKEN = swept(LinearCost(DECODE_MS - (VERIFY_MS - DECODE_MS) / 5, (VERIFY_MS - DECODE_MS) / 5))
ATTENTION = ClassGrowth(
    name="attention",
    decode_ms=2.1,
    verify_ms=11.6,
    decode_kernel="flash_mla_decode",
    verify_kernel="mla_prefill",
)
MOE = ClassGrowth(
    name="moe", decode_ms=3.7, verify_ms=7.7, decode_kernel="grouped", verify_kernel="grouped"
)

OFF = "Switch speculation off"
FIX = "Bring verify to a decode step's cost"
LENGTH = "Draft "
PUT_OFF = "Put off work on the draft's time"
CHEAPEN = "Cheapen draft and re-extend"
TP1 = "Run the draft at TP1"
GUESS = "Use a better draft model"
TRAIN = "Train the draft on its own predictions"


def narrow(value: float) -> Estimate:
    return Estimate(value, value * 0.97, value * 1.03)


def seed(**known: Any) -> Situation:
    """The seed case: Kimi-K2.5, TP8, EAGLE-3, k = 5, with what else is known."""
    measured: dict[str, Any] = {
        "accept_len": narrow(implied_accept_len(71.0, 31.74)),
        "draft_tokens": 5,
        "verified_tokens": 6,
        "batch": 1,
        "period_ms": narrow(31.74),
        "baseline_ms": narrow(DECODE_MS),
        "draft_ms": 2.18,
        "verify_ms": VERIFY_MS,
        "draft_extend_ms": 1.12,
        "other_ms": 0.0,
        "survival": (),
        "host_idle_ms": 0.0,
        "synchronisation_ms": 0.0,
        "verify_is_eager": None,
    }
    return Situation(**(measured | known))


def found(situation: Situation, start: str) -> Action | None:
    """The action that starts so; one at most."""
    matching = [each for each in advise(situation) if each.action.startswith(start)]
    assert len(matching) <= 1
    return matching[0] if matching else None


def the(situation: Situation, start: str) -> Action:
    action = found(situation, start)
    assert action is not None
    return action


def rate(situation: Situation, start: str) -> float | None:
    return the(situation, start).tokens_per_s_at_most


# The levers of the seed case.


def test_switching_off_gives_the_baseline() -> None:
    action = the(seed(), OFF)
    assert action.tokens_per_s_at_most == pytest.approx(90.1, abs=0.05)
    assert action.gain_share_at_most == pytest.approx(0.27, abs=0.005)
    assert "batch 1" in action.action
    assert "0.788 [" in action.evidence
    assert "2.86" in action.evidence


def test_draft_work_can_give_eleven_per_cent_and_never_the_win() -> None:
    action = the(seed(), PUT_OFF)
    assert action.tokens_per_s_at_most == pytest.approx(79.21, abs=0.01)
    assert action.gain_share_at_most == pytest.approx(0.116, abs=0.001)
    assert "cannot win" in action.action
    assert "12.62" in action.evidence
    assert "90.1" in action.evidence


def test_a_better_draft_is_priced_by_the_tenth() -> None:
    action = the(seed(), GUESS)
    assert "+3.15 tok/s (+4.4 %) per +0.1 accept_len" in action.action
    assert "2.86 (+26.9 %)" in action.evidence
    assert action.tokens_per_s_at_most is None


def test_in_a_fixed_step_world_the_verify_path_is_to_be_fixed() -> None:
    fixed = seed(verify_fit=FIXED)
    first, second = advise(fixed)[:2]
    assert first.action == f"{FIX} plus 0.87 ms a token"
    assert first.tokens_per_s_at_most == pytest.approx(120, abs=0.5)
    assert "13.0 ms" in first.evidence
    assert "74.9 %" in first.evidence
    assert second.action.startswith(OFF)
    shorter = the(fixed, LENGTH)
    assert shorter.action.startswith("Draft 4 tokens")
    assert shorter.tokens_per_s_at_most == pytest.approx(72.3, abs=0.05)
    assert "still below the 90.1" in shorter.evidence


def test_in_a_per_token_world_fewer_drafts_are_to_be_verified() -> None:
    per_token = seed(verify_fit=PER_TOKEN)
    first, second = advise(per_token)[:2]
    assert first.action == "Draft 1 token a cycle, not 5"
    assert first.tokens_per_s_at_most == pytest.approx(100.2, abs=0.05)
    assert "100.0 % of verify's growth over decode is per token" in first.evidence
    assert "still below" not in first.evidence
    assert second.action.startswith(OFF)
    assert found(per_token, FIX) is None


def test_the_measurement_that_decides_between_the_two_worlds() -> None:
    asked = next_measurement(seed())
    assert asked.startswith("Measure k = 1:")
    situation, survival = seed(), survival_of(seed())
    for added_ms in (0.0, (VERIFY_MS - DECODE_MS) / 5):
        period_ms = predict(1, survival, cycle_costs(situation, added_ms)).period_ms
        assert f"{period_ms:.1f} ms" in asked
    assert "29.6 ms if" in asked
    assert "15.7 ms if" in asked
    assert "100.2 tok/s" in asked


def test_with_a_sweep_the_next_measurement_differs_between_the_worlds() -> None:
    in_fixed = next_measurement(seed(verify_fit=FIXED))
    assert "--cuda-graph-trace=node" in in_fixed
    assert "13.0 ms" in in_fixed
    named = next_measurement(seed(verify_fit=FIXED, class_growth=(MOE, ATTENTION)))
    assert "attention" in named
    assert "11.60 ms" in named
    in_per_token = next_measurement(seed(verify_fit=PER_TOKEN))
    assert in_per_token.startswith("Run k = 1:")
    assert "15.7 ms" in in_per_token


def test_a_sweep_that_cannot_tell_is_not_taken_for_an_answer() -> None:
    wide = Estimate(8.0, 3.0, 13.0)
    open_fit = FixedStep(wide, Estimate(1.87, 0.8, 2.9), Estimate(0.46, 0.2, 0.8))
    assert next_measurement(seed(verify_fit=open_fit)).startswith("Measure k = 1:")


def test_cutting_where_the_two_worlds_part_gives_the_advice_of_each() -> None:
    """A run at k = 1 on either side of the printed border leads to the other advice."""
    border = float(next_measurement(seed()).split("Above ")[1].split(" ms")[0])
    for shift_ms, fixes in ((0.5, True), (-0.5, False)):
        verify_2_ms = border + shift_ms - 1.12 - seed().other_ms + 0.01
        split = fixed_step(DECODE_MS, [(2, verify_2_ms), (6, VERIFY_MS)])
        assert (found(seed(verify_fit=split), FIX) is not None) == fixes


# Single rules.


@pytest.mark.parametrize(("reach", "off"), [(0.99, True), (1.01, False)])
def test_off_only_when_even_the_upper_bound_loses(reach: float, off: bool) -> None:
    """The upper end of the baseline alone moves across break-even."""
    accept_len, break_even_ms = seed().accept_len.value, 31.74 / seed().accept_len.value
    situation = seed(
        accept_len=Estimate.exact(accept_len),
        period_ms=Estimate.exact(31.74),
        baseline_ms=Estimate(DECODE_MS, DECODE_MS, break_even_ms * reach),
    )
    assert (found(situation, OFF) is not None) == off


def test_an_undecided_speedup_asks_for_cycles() -> None:
    near = seed(
        accept_len=Estimate(2.75, 2.6, 2.9), verify_fit=PER_TOKEN, baseline_ms=Estimate.exact(11.1)
    )
    assert found(near, OFF) is None
    asked = next_measurement(near)
    assert "cannot be told from 1" in asked
    assert "accept_len" in asked
    times = int(asked.split("about ")[1].split()[0])
    speedup = near.speedup
    assert speedup is not None
    shrink = math.sqrt(times)
    assert speedup.value * (speedup.high / speedup.value) ** (1 / shrink) <= 1
    assert speedup.value * (speedup.high / speedup.value) ** (1 / math.sqrt(times - 1)) > 1


def test_hardly_any_difference_asks_for_no_number_of_cycles() -> None:
    at_one = seed(baseline_ms=Estimate(14.08, 13, 15), verify_fit=FIXED)
    assert "far more cycles" in next_measurement(at_one)


def test_without_a_baseline_it_is_the_next_measurement() -> None:
    blind = seed(baseline_ms=None)
    assert next_measurement(blind).startswith("Measure the baseline")
    assert {found(blind, each) for each in (OFF, FIX, PUT_OFF)} == {None}


def test_distrust_comes_first_and_names_what_failed() -> None:
    doubtful = seed(problems=("coverage is 80 %", "syncs inside phases"), verify_fit=FIXED)
    first = advise(doubtful)[0]
    assert first.action.startswith("Do not act")
    assert first.evidence == "coverage is 80 %; syncs inside phases"
    assert advise(doubtful)[1:] == advise(replace(doubtful, problems=()))
    assert "coverage is 80 %" in next_measurement(doubtful)


def test_attention_on_another_kernel_is_named_with_the_engines_option() -> None:
    grown = seed(class_growth=(MOE, ATTENTION))
    action = the(grown, "Verify on the decode attention kernel")
    assert "SGLang: --speculative-attention-mode decode" in action.action
    assert "flash_mla_decode -> mla_prefill" in action.evidence
    assert action.tokens_per_s_at_most == pytest.approx(
        tokens_per_s(grown.accept_len.value, 31.74 - 9.5)
    )
    other = replace(ATTENTION, name="all-reduce")
    assert "SGLang" not in the(seed(class_growth=(other,)), "Get all-reduce in verify").action
    assert (
        "attention 2.10" in the(seed(verify_fit=FIXED, class_growth=(MOE, ATTENTION)), FIX).evidence
    )


@pytest.mark.parametrize(
    "growth",
    [
        MOE,
        replace(ATTENTION, decode_kernel=None),
        replace(ATTENTION, verify_ms=2.5),
        replace(ATTENTION, verify_ms=1.0),
    ],
)
def test_a_class_on_decodes_kernel_or_hardly_dearer_is_left_alone(growth: ClassGrowth) -> None:
    assert advise(seed(class_growth=(growth,))) == advise(seed())


@pytest.mark.parametrize(
    ("eager", "idle_ms", "start"),
    [
        (True, 1.0, "Capture the verify forward in a CUDA graph"),
        (True, 0.5, None),
        (None, 5.0, "Take the host off the critical path"),
        (False, 4.5, None),
    ],
)
def test_time_that_waits_for_the_host(
    eager: bool | None, idle_ms: float, start: str | None
) -> None:
    situation = seed(verify_is_eager=eager, host_idle_ms=idle_ms)
    if start is None:
        assert advise(situation) == advise(seed())
        return
    assert rate(situation, start) == pytest.approx(
        tokens_per_s(situation.accept_len.value, 31.74 - idle_ms)
    )


def test_an_eager_verify_is_a_suspect_of_the_fixed_step() -> None:
    assert "verify runs eagerly" in the(seed(verify_fit=FIXED, verify_is_eager=True), FIX).evidence


@pytest.mark.parametrize(("sync_ms", "told"), [(1.5, False), (1.7, True)])
def test_synchronising_calls_in_the_cycle(sync_ms: float, told: bool) -> None:
    action = found(seed(synchronisation_ms=sync_ms), "Take synchronising calls out")
    assert (action is not None) == told
    if action is not None:
        assert action.tokens_per_s_at_most == pytest.approx(71.0 * 31.74 / (31.74 - sync_ms))


WINNING: dict[str, Any] = {
    "accept_len": narrow(4.5),
    "period_ms": narrow(20.0),
    "draft_ms": 3.0,
    "verify_ms": 15.0,
    "draft_extend_ms": 1.5,
    "other_ms": 0.5,
}


def test_dear_drafting_is_worth_work_where_it_is_not_verify_that_loses() -> None:
    assert found(seed(**WINNING), CHEAPEN) is None
    dear = seed(**(WINNING | {"draft_ms": 4.5, "verify_ms": 13.5}))
    assert rate(dear, CHEAPEN) == pytest.approx(1000 * 4.5 / 14)
    assert found(dear, PUT_OFF) is None


def test_the_draft_at_tp1_saves_its_collectives_at_most() -> None:
    winning = seed(**WINNING, draft_collective_ms=1.0)
    won = the(winning, TP1)
    assert won.action == TP1
    assert won.gain_share_at_most == pytest.approx(20 / 19 - 1)
    assert winning.speedup is not None
    now = winning.speedup.value
    told = f"at most 1.00 ms of the cycle, 5.0 %, S from {now:.3f} to 2.629"
    assert told in won.evidence
    lost = the(seed(draft_collective_ms=1.2), TP1)
    assert "cannot win" in lost.action
    assert "at most 1.20 ms of the cycle, 3.8 %, S from 0.788 to 0.819" in lost.evidence
    assert "still below the 90.1" in lost.evidence
    blind = the(seed(draft_collective_ms=1.2, baseline_ms=None), TP1)
    assert "S from" not in blind.evidence


def test_the_draft_at_tp1_is_put_off_where_it_gains_little() -> None:
    action = the(seed(**WINNING, draft_collective_ms=0.5), "Put off running the draft at TP1")
    assert action.gain_share_at_most == pytest.approx(20 / 19.5 - 1)
    assert "at most 0.50 ms of the cycle" in action.evidence
    lost = the(seed(draft_collective_ms=0.5), TP1)
    assert "cannot win" in lost.action


@pytest.mark.parametrize("collective_ms", [None, 0.0])
def test_no_collective_no_advice_on_it(collective_ms: float | None) -> None:
    assert found(seed(draft_collective_ms=collective_ms), TP1) is None


def test_collectives_cannot_save_more_than_the_draft_takes() -> None:
    action = the(seed(draft_collective_ms=9.0), TP1)
    assert action.tokens_per_s_at_most == rate(seed(), PUT_OFF)
    assert "3.30 ms" in action.evidence


def test_lively_last_positions_ask_for_more_drafts_and_say_that_it_is_extrapolated() -> None:
    survival = geometric_survival(0.95, 5)
    lively = seed(
        **(WINNING | {"accept_len": narrow(1 + sum(survival))}),
        survival=survival,
        verify_fit=FixedStep(*map(Estimate.exact, (3.0, 0.2, 0.75))),
    )
    action = the(lively, LENGTH)
    assert action.action == "Draft 7 tokens a cycle, not 5"
    assert "extrapolated" in action.evidence
    assert "77.4 % of cycles accept all 5" in action.evidence


def test_a_wasteful_tree_is_to_shrink_where_tokens_cost() -> None:
    tree = seed(verified_tokens=16, verify_fit=FixedStep(*map(Estimate.exact, (3.0, 0.9, 0.2))))
    action = the(tree, "Verify a smaller tree than 16 tokens")
    assert action.tokens_per_s_at_most == pytest.approx(
        tokens_per_s(tree.accept_len.value, 31.74 - 10 * 0.9)
    )
    assert found(tree, LENGTH) is None
    assert next_measurement(tree)


@pytest.mark.parametrize(
    ("survival", "start"),
    [
        ((0.55, 0.3, 0.16, 0.09), GUESS),
        ((0.8, 0.5, 0.25, 0.1), TRAIN),
        ((0.8, 0.62, 0.5, 0.4), None),
        ((0.5, 0.45, 0.42, 0.4), None),
        ((0.0, 0.0), GUESS),
    ],
)
def test_acceptance_by_position_tells_what_the_draft_lacks(
    survival: tuple[float, ...], start: str | None
) -> None:
    length = {"draft_tokens": len(survival), "verified_tokens": len(survival) + 1}
    situation = seed(
        survival=survival, accept_len=narrow(1 + sum(survival)), baseline_ms=narrow(20.0), **length
    )
    told = [each for each in (GUESS, TRAIN) if found(situation, each)]
    assert told == ([start] if start else [])


def test_no_acceptance_is_recommended_that_cannot_win() -> None:
    hopeless = seed(draft_tokens=1, verified_tokens=2, accept_len=narrow(1.5))
    assert found(hopeless, GUESS) is None
    assert found(hopeless, OFF)


def test_where_the_batch_decides_it_is_named() -> None:
    threshold = Threshold(12.34, 9.0, None, "crosses")
    action = the(seed(threshold=threshold), "Speculate below batch 12.3 only")
    assert "[9.0, ?]" in action.evidence
    never = Threshold(None, None, None, "wins throughout")
    assert advise(seed(threshold=never)) == advise(seed())


def test_overshoot_lowers_the_survival_that_predictions_use() -> None:
    counted = (0.7, 0.5, 0.4, 0.3, 0.2)
    overshot = seed(survival=counted, accept_len=narrow(2.9))
    assert sum(survival_of(overshot)) == pytest.approx(1.9)
    assert survival_of(overshot) == pytest.approx([s * 1.9 / sum(counted) for s in counted])


def test_a_verify_hardly_dearer_than_decode_has_no_path_to_fix() -> None:
    for ratio, dear in ((1.29, False), (1.31, True)):
        verify_ms = ratio * DECODE_MS
        hardly = seed(verify_ms=verify_ms, period_ms=narrow(verify_ms + 3.3), verify_fit=FIXED)
        assert (found(hardly, FIX) is not None) == dear


def test_a_fixed_step_gives_back_no_more_than_verify_grew() -> None:
    large = FixedStep(*map(Estimate.exact, (20.0, 0.1, 0.9)))
    assert rate(seed(verify_fit=large), FIX) == pytest.approx(
        tokens_per_s(seed().accept_len.value, 31.74 - (VERIFY_MS - DECODE_MS))
    )


def test_one_draft_is_compared_with_three() -> None:
    asked = next_measurement(seed(draft_tokens=1, verified_tokens=2, accept_len=narrow(1.57)))
    assert asked.startswith("Measure k = 3:")
    assert "31.7 ms if" in asked


def test_verify_that_costs_a_decode_step_leaves_the_rest_to_ask() -> None:
    cheap = seed(verify_ms=11.2, period_ms=narrow(14.5))
    assert "by position" in next_measurement(cheap)
    counted = replace(cheap, survival=geometric_survival(0.57, 5))
    assert "other batch sizes" in next_measurement(counted)


@pytest.mark.parametrize("name", ["accept_len", "period_ms", "baseline_ms"])
def test_a_situation_needs_positive_figures(name: str) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        seed(**{name: Estimate.exact(0.0)})


# Laws.


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Any consistent situation; parts of what is known may be missing."""
    k = draw(st.integers(1, 8))
    survival = geometric_survival(draw(st.floats(0, 1)), k)
    draft_ms, extend_ms, other_ms = (draw(st.floats(0, 8)) for _ in range(3))
    verify_ms = draw(st.floats(2, 60))
    period_ms = draft_ms + extend_ms + other_ms + verify_ms
    step, token = (Estimate.exact(draw(st.floats(-2, 20))) for _ in range(2))
    known = draw(st.booleans())
    half = draw(st.sampled_from((0.0, 0.05, 0.3)))

    def doubtful(value: float) -> Estimate:
        return Estimate(value, value * (1 - half), value * (1 + half))

    return Situation(
        accept_len=doubtful(1 + sum(survival)),
        draft_tokens=draw(st.sampled_from((k, k, k, None))),
        verified_tokens=draw(st.sampled_from((k + 1, k + 1, 2 * k + 3, None))),
        batch=draw(st.sampled_from((None, 1, 16))),
        period_ms=doubtful(period_ms),
        baseline_ms=doubtful(draw(st.floats(1, 30))) if known else None,
        draft_ms=draft_ms,
        verify_ms=verify_ms,
        draft_extend_ms=extend_ms,
        other_ms=other_ms,
        survival=draw(st.sampled_from((survival, ()))),
        host_idle_ms=draw(st.floats(0, 1)) * period_ms,
        synchronisation_ms=draw(st.floats(0, 1)) * period_ms,
        verify_is_eager=draw(st.sampled_from((None, True, False))),
        verify_fit=draw(st.sampled_from((None, FixedStep(step, token, Estimate.exact(0.5))))),
        class_growth=draw(st.sampled_from(((), (MOE, ATTENTION)))),
        draft_collective_ms=draw(st.none() | st.floats(0, 10)),
        problems=draw(st.sampled_from(((), ("coverage is 80 %",)))),
    )


@examples(0.4)
@given(situations())
def test_every_gain_is_a_bound_above_what_is_now_and_they_are_ranked(situation: Situation) -> None:
    actions = advise(situation)
    gains = [each.gain_share_at_most for each in actions if each.gain_share_at_most is not None]
    assert gains == sorted(gains, reverse=True)
    assert all(each >= -1e-9 for each in gains)
    for each in actions:
        assert each.evidence
        assert each.refuted_by
        if each.gain_share_at_most is not None:
            assert each.tokens_per_s_at_most == pytest.approx(
                situation.tokens_per_s * (1 + each.gain_share_at_most)
            )
    assert bool(situation.problems) == (actions[:1] != () and "Do not act" in actions[0].action)
    assert next_measurement(situation).endswith(".")


@examples(0.4)
@given(situations())
def test_draft_time_is_never_recommended_as_a_win_where_verify_alone_loses(
    situation: Situation,
) -> None:
    assume(situation.baseline_ms is not None)
    assert situation.baseline_ms is not None
    cost_ms = verify_ms_per_committed_token(situation.accept_len.value, situation.verify_ms)
    loses = cost_ms > situation.baseline_ms.value * (1 + 1e-9)
    assert found(situation, CHEAPEN) is None or not loses
    plain = situation.baseline_tokens_per_s
    assert plain is not None
    for start in (PUT_OFF, TP1):
        action = found(situation, start)
        if action is None or not loses:
            continue
        assert "cannot win" in action.action
        assert action.tokens_per_s_at_most is not None
        assert action.tokens_per_s_at_most < plain


@examples(0.4)
@given(situations())
def test_off_is_said_exactly_when_the_upper_bound_is_below_one(situation: Situation) -> None:
    speedup = situation.speedup
    assert (found(situation, OFF) is not None) == (speedup is not None and speedup.high < 1)


def is_predicted(situation: Situation) -> bool:
    """Whether it is known what another draft length would give."""
    known = situation.draft_tokens is not None and token_ms(situation) is not None
    return known and situation.is_chain


@examples(0.4)
@given(situations().filter(is_predicted), st.integers(1, 12))
def test_predictions_pass_through_the_present_and_never_beat_a_decode_step(
    situation: Situation, other: int
) -> None:
    k, added_ms = situation.draft_tokens, token_ms(situation)
    assert k is not None
    assert added_ms is not None
    costs = cycle_costs(situation, added_ms)
    now = predict(k, survival_of(situation), costs)
    assert now.tokens_per_s == pytest.approx(situation.tokens_per_s)
    assert now.period_ms == pytest.approx(situation.period_ms.value)
    baseline = situation.baseline_ms
    floor_ms = 0.0 if baseline is None else min(situation.verify_ms, baseline.value)
    assert costs.verify.ms(other + 1) >= floor_ms - 1e-6


@examples(0.4)
@given(situations())
def test_the_length_advised_is_the_brute_force_one(situation: Situation) -> None:
    action = found(situation, LENGTH)
    k, added_ms = situation.draft_tokens, token_ms(situation)
    if k is None or not situation.is_chain or added_ms is None:
        assert action is None
        return
    costs, survival = cycle_costs(situation, added_ms), survival_of(situation)
    rates = {each: predict(each, survival, costs).tokens_per_s for each in range(1, k + 3)}
    best = max(rates.values())
    if action is None:
        assert best <= 1.0101 * situation.tokens_per_s
    else:
        assert action.tokens_per_s_at_most == pytest.approx(best)
        assert rates[int(action.action.split()[1])] == pytest.approx(best)
