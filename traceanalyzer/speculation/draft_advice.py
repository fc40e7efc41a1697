"""What to do about the draft: its time, its length, and how well it guesses.

Where verify alone costs more per committed token than a plain decode step, no saving in the
draft's time can win, and the advice says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.speculation.acceptance import conditional_from_survival
from traceanalyzer.speculation.draft_length import (
    best_draft_tokens,
    extended_survival,
    pays_above,
)
from traceanalyzer.speculation.situation import (
    Action,
    bounded,
    cycle_costs,
    percent,
    still_loses,
    survival_of,
    token_ms,
)
from traceanalyzer.speculation.speedup import (
    break_even_accept_len,
    perfect_acceptance_speedup,
    tokens_per_s,
    verify_ms_per_committed_token,
    wasted_share,
)
from traceanalyzer.speculation.verify_advice import fixed_share_of

if TYPE_CHECKING:
    from traceanalyzer.speculation.draft_length import Prediction
    from traceanalyzer.speculation.situation import Situation

_DEAR_DRAFTING_SHARE: Final = 0.25
_WORTH_A_RUN_SHARE: Final = 0.01
_LITTLE_GAIN_SHARE: Final = 0.03
"""Of another parallelism of the draft, which takes weeks: less is no reason to begin."""
_LOW_FIRST_ACCEPTANCE: Final = 0.6
_FLAT_WITHIN: Final = 0.15
_EXTRAPOLATED_DRAFTS: Final = 2
_MOSTLY_WASTED_SHARE: Final = 0.7
_ACCEPT_LEN_STEP: Final = 0.1


def verify_alone_loses(situation: Situation) -> bool:
    """Whether verify costs more per committed token than a plain decode step."""
    if situation.baseline_ms is None:
        return False
    cost_ms = verify_ms_per_committed_token(situation.accept_len.value, situation.verify_ms)
    return cost_ms > situation.baseline_ms.value


def cheapen_drafting(situation: Situation) -> list[Action]:
    """Draft and re-extend: out of reach as a win, or a large enough part of the cycle."""
    outcome = situation.without_drafting(situation.drafting_ms)
    if verify_alone_loses(situation) and situation.drafting_ms > 0:
        return [_drafting_cannot_win(situation, outcome)]
    share = situation.drafting_ms / situation.period_ms.value
    if share <= _DEAR_DRAFTING_SHARE:
        return []
    return [
        bounded(
            "Cheapen draft and re-extend: one CUDA graph for the draft loop, a smaller draft "
            "vocabulary, fused kernels",
            outcome,
            f"they take {situation.drafting_ms:.2f} ms of the cycle ({percent(share)})"
            + still_loses(situation, outcome[0]),
            "their busy time (not gaps) already at the draft model's own weight traffic",
        )
    ]


def _drafting_cannot_win(situation: Situation, outcome: tuple[float, float]) -> Action:
    cost_ms = verify_ms_per_committed_token(situation.accept_len.value, situation.verify_ms)
    baseline_ms = situation.baseline_ms.value if situation.baseline_ms else 0.0
    return bounded(
        "Put off work on the draft's time: even free, draft and re-extend cannot win here",
        outcome,
        f"verify alone costs {cost_ms:.2f} ms a committed token, a plain step {baseline_ms:.2f}"
        + still_loses(situation, outcome[0]),
        f"verify below {situation.accept_len.value * baseline_ms:.2f} ms",
    )


def draft_without_collectives(situation: Situation) -> list[Action]:
    """The draft on one GPU of the group needs no all-reduce, but reads all its weights there."""
    collective_ms = min(situation.draft_collective_ms or 0.0, situation.drafting_ms)
    if collective_ms <= 0:
        return []
    rate, gain = situation.without_drafting(collective_ms)
    evidence = (
        f"its collectives take at most {collective_ms:.2f} ms of the cycle, "
        f"{percent(collective_ms / situation.period_ms.value)}"
    )
    if situation.speedup is not None:
        now = situation.speedup.value
        evidence += f", S from {now:.3f} to {now * (1 + gain):.3f}"
    action = "Run the draft at TP1"
    if verify_alone_loses(situation):
        action += ", after verify: alone it cannot win"
    elif gain < _LITTLE_GAIN_SHARE:
        action = "Put off running the draft at TP1: little to gain"
    return [
        bounded(
            action,
            (rate, gain),
            evidence + still_loses(situation, rate),
            "draft and re-extend at TP1 no shorter: each GPU then reads all of the draft's weights",
        )
    ]


def best_length(situation: Situation) -> Prediction | None:
    """The chain length of most tokens a second; None where no sweep told what a token costs.

    None as well where the present length is as good to one per cent. Acceptance is extrapolated by
    two positions at most.
    """
    k, added_ms = situation.draft_tokens, token_ms(situation)
    if not k or added_ms is None or not situation.is_chain:
        return None
    costs = cycle_costs(situation, added_ms)
    best = best_draft_tokens(survival_of(situation), costs, range(1, k + 1 + _EXTRAPOLATED_DRAFTS))
    worth_it = best.tokens_per_s > (1 + _WORTH_A_RUN_SHARE) * situation.tokens_per_s
    return best if worth_it else None


def change_draft_length(situation: Situation) -> list[Action]:
    """Fewer or more drafts a cycle."""
    best, k = best_length(situation), situation.draft_tokens
    if best is None or k is None:
        return []
    rate, gain = best.tokens_per_s, best.tokens_per_s / situation.tokens_per_s - 1
    why = _why_fewer(situation) if best.draft_tokens < k else _why_more(situation, best)
    # The period at which the new length would give the present tokens a second.
    useless_ms = best.period_ms * (1 + gain)
    return [
        bounded(
            f"Draft {best.draft_tokens} token{'s' * (best.draft_tokens > 1)} a cycle, not {k}",
            (rate, gain),
            why + still_loses(situation, rate),
            f"a cycle at k = {best.draft_tokens} of {useless_ms:.1f} ms or more "
            f"(predicted {best.period_ms:.1f} ms)",
        )
    ]


def _why_fewer(situation: Situation) -> str:
    k, added_ms, survival = situation.draft_tokens, token_ms(situation), survival_of(situation)
    reasons = []
    share = fixed_share_of(situation)
    if share is not None and share.value < 0.5:
        reasons.append(f"{percent(1 - share.value)} of verify's growth over decode is per token")
    if added_ms is not None and k is not None:
        needed = pays_above(k, survival, cycle_costs(situation, added_ms))
        last = extended_survival(survival, k)[-1]
        reasons.append(f"draft {k} survives {last:.2f} and pays from {needed:.2f}")
    reasons += [
        f"{each.name} grew {each.verify_ms / each.decode_ms:.1f}x"
        for each in situation.class_growth
        if each.name.casefold().startswith("moe") and each.decode_ms > 0
    ]
    return "; ".join(reasons)


def _why_more(situation: Situation, best: Prediction) -> str:
    survival = survival_of(situation)
    text = f"{percent(survival[-1])} of cycles accept all {len(survival)} drafts"
    if best.extrapolated:
        text += f"; acceptance beyond position {len(survival)} is extrapolated"
    return text


def shrink_tree(situation: Situation) -> list[Action]:
    """A tree of which most is thrown away, where a token of verify has a price."""
    k, n, added_ms = situation.draft_tokens, situation.forward_tokens, token_ms(situation)
    if k is None or n is None or added_ms is None or n <= k + 1:
        return []
    wasted = wasted_share(situation.accept_len.value, n)
    rate, gain = situation.without(added_ms * (n - k - 1))
    if wasted < _MOSTLY_WASTED_SHARE or gain < _WORTH_A_RUN_SHARE:
        return []
    return [
        bounded(
            f"Verify a smaller tree than {n} tokens, down to a chain of {k + 1}",
            (rate, gain),
            f"{percent(wasted)} of verified tokens commit nothing, and each costs "
            f"{added_ms:.2f} ms" + still_loses(situation, rate),
            "accept_len falling by a larger share than the period",
        )
    ]


def guess_better(situation: Situation) -> list[Action]:
    """What acceptance by position says about the draft model."""
    survival = situation.survival or survival_of(situation)
    if not survival or _no_acceptance_wins(situation):
        return []
    conditional = [p for p in conditional_from_survival(survival) if p is not None]
    first, last = conditional[0], conditional[-1]
    if first < _LOW_FIRST_ACCEPTANCE and abs(last - first) <= _FLAT_WITHIN:
        action = "Use a better draft model, or train this one on this traffic"
        refuted_by = "the same accept_len on prompts like the draft's training data"
    elif first >= _LOW_FIRST_ACCEPTANCE and first - last > _FLAT_WITHIN:
        action = "Train the draft on its own predictions (EAGLE-3's training-time test)"
        refuted_by = "the same fall of acceptance by position at temperature 0"
    else:
        return []
    shown = " ".join(f"{p:.2f}" for p in conditional)
    how = "given the previous" if situation.survival else "assumed equal at each position"
    return [
        Action(
            action=f"{action}: {_per_accept_len(situation)}",
            tokens_per_s_at_most=None,
            gain_share_at_most=None,
            evidence=f"acceptance by position {shown} ({how})" + _needs(situation),
            refuted_by=refuted_by,
        )
    ]


def _per_accept_len(situation: Situation) -> str:
    step = _ACCEPT_LEN_STEP
    rate = tokens_per_s(step, situation.period_ms.value, situation.requests)
    return (
        f"+{rate:.2f} tok/s (+{percent(step / situation.accept_len.value)}) per +{step} accept_len"
    )


def _no_acceptance_wins(situation: Situation) -> bool:
    """Whether even every draft accepted leaves the speed-up below 1."""
    if situation.baseline_ms is None or situation.draft_tokens is None:
        return False
    period_ms, baseline_ms = situation.period_ms.value, situation.baseline_ms.value
    return perfect_acceptance_speedup(situation.draft_tokens, period_ms, baseline_ms) < 1


def _needs(situation: Situation) -> str:
    speedup = situation.speedup
    if speedup is None or situation.baseline_ms is None or speedup.value >= 1:
        return ""
    needed = break_even_accept_len(situation.period_ms.value, situation.baseline_ms.value)
    more = needed / situation.accept_len.value - 1
    return f"; break-even needs accept_len {needed:.2f} (+{percent(more)})"
