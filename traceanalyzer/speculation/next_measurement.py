"""Which single measurement would decide most?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from traceanalyzer.speculation.draft_advice import best_length
from traceanalyzer.speculation.draft_length import predict
from traceanalyzer.speculation.situation import cycle_costs, interval, survival_of
from traceanalyzer.speculation.verify_advice import fixed_share_of, half_fixed_cycle_ms

if TYPE_CHECKING:
    from traceanalyzer.speculation.situation import Situation

_TELLING_SHARE: Final = 0.02
"""Of the period: outcomes closer together are not told apart by one run."""

_DISTANT_ENOUGH: Final = 0.005
_MANY_TIMES: Final = 100


def next_measurement(situation: Situation) -> str:
    """The measurement to make next, with the outcomes it would tell apart.

    In this order: a capture that can be trusted, a baseline, whether verify's growth is a fixed
    step or per token, a speed-up on one side of 1, then what these lead to.
    """
    if situation.problems:
        return f"Record again so that this no longer holds: {situation.problems[0]}."
    if situation.baseline_ms is None:
        return (
            "Measure the baseline: the same server with speculation off, at the same batch and "
            "context length; k = 0 on a speculating server is slower and no baseline."
        )
    return _settle_cost(situation) or _settle_verdict(situation) or _settle_rest(situation)


def _settle_verdict(situation: Situation) -> str | None:
    """How many times the cycles an undecided speed-up needs; its interval shrinks with sqrt(N)."""
    speedup = situation.speedup
    if speedup is None or not speedup.low < 1 < speedup.high:
        return None
    distance = abs(math.log(speedup.value))
    reach = math.log(speedup.high) if speedup.value < 1 else -math.log(max(speedup.low, 1e-9))
    reach += distance
    known = distance > _DISTANT_ENOUGH and math.isfinite(reach)
    times = math.ceil((reach / distance) ** 2) if known else 0
    many = f"about {times} times as many cycles" if 0 < times <= _MANY_TIMES else "far more cycles"
    return (
        f"Record {many}: speed-up {interval(speedup, 3)} cannot be told from 1. Most of the doubt "
        f"is in {_widest(situation)}."
    )


def _widest(situation: Situation) -> str:
    parts = {
        "accept_len": situation.accept_len,
        "the period": situation.period_ms,
        "the baseline": situation.baseline_ms or situation.period_ms,
    }
    return max(parts, key=lambda name: (parts[name].high - parts[name].low) / parts[name].value)


def _settle_cost(situation: Situation) -> str | None:
    """One k cannot tell a fixed step from a cost per token, nor can a sweep that straddles half."""
    k, n, growth_ms = situation.draft_tokens, situation.forward_tokens, situation.growth_ms
    if not k or n is None or growth_ms is None or not situation.is_chain or _told_apart(situation):
        return None
    other = 1 if k > 1 else 3
    survival = survival_of(situation)
    fixed = predict(other, survival, cycle_costs(situation, 0.0))
    per_token = predict(other, survival, cycle_costs(situation, max(growth_ms, 0.0) / (n - 1)))
    if abs(fixed.period_ms - per_token.period_ms) < _TELLING_SHARE * situation.period_ms.value:
        return None
    text = (
        f"Measure k = {other}: a cycle of {fixed.period_ms:.1f} ms if verify's growth over decode "
        f"is a fixed step, {per_token.period_ms:.1f} ms if it is per token"
    )
    dividing_ms = half_fixed_cycle_ms(situation) if other == 1 else None
    if dividing_ms is None:
        return f"{text}, the draft's own steps on top."
    return (
        f"{text}. Above {dividing_ms:.1f} ms fix the verify path or switch off; below it draft "
        f"fewer tokens: k = 1 gives at most {per_token.tokens_per_s:.1f} tok/s, "
        f"{situation.tokens_per_s:.1f} now."
    )


def _told_apart(situation: Situation) -> bool:
    """Whether a sweep says on which side of half the fixed share lies."""
    if situation.verify_fit is None:
        return False
    share = fixed_share_of(situation)
    return share is None or not share.low < 0.5 < share.high


def _settle_rest(situation: Situation) -> str:
    share, fit, growth_ms = fixed_share_of(situation), situation.verify_fit, situation.growth_ms
    if share is not None and fit is not None and growth_ms is not None and share.value > 0.5:
        return _find_the_step(situation, min(fit.step_ms.value, growth_ms))
    best = best_length(situation)
    if best is not None:
        return (
            f"Run k = {best.draft_tokens}: the sweep predicts a cycle of {best.period_ms:.1f} ms "
            f"and at most {best.tokens_per_s:.1f} tok/s, against {situation.tokens_per_s:.1f} now."
        )
    if not situation.survival:
        return "Count accepted drafts by position: it tells which drafts pay."
    return (
        "Measure at the other batch sizes you serve, with and without speculation: the speed-up "
        "usually falls with batch."
    )


def _find_the_step(situation: Situation, step_ms: float) -> str:
    if not situation.class_growth:
        return (
            "Record plain decoding and speculation by graph node (nsys profile "
            f"--cuda-graph-trace=node): the kernel classes say where the fixed {step_ms:.1f} ms "
            "between them sit."
        )
    worst = max(situation.class_growth, key=lambda each: each.growth_ms)
    return (
        f"Measure verify again with {worst.name} on decode's path: {worst.verify_ms:.2f} ms now, "
        f"{worst.decode_ms:.2f} ms in a decode step."
    )
