"""What to do about the target's forward and about time in which the device waits.

A fixed step between decode and verify means that verify takes another path than decode: find it
and fix it. Time that waits for the host or for a synchronising call bounds its own gain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.speculation.situation import (
    bounded,
    cycle_costs,
    percent,
    share_text,
    still_loses,
)

if TYPE_CHECKING:
    from traceanalyzer.speculation.confidence import Estimate
    from traceanalyzer.speculation.situation import Action, ClassGrowth, Situation

_HOST_BOUND_SHARE: Final = 0.15
_EAGER_GAP_SHARE: Final = 0.02
_SYNCHRONISED_SHARE: Final = 0.05
_WORTH_NAMING_SHARE: Final = 0.05
# SGLang's --speculative-attention-mode defaults to prefill and covers target verify.
_ON_DECODE_ATTENTION: Final = (
    "Verify on the decode attention kernel (SGLang: --speculative-attention-mode decode)"
)


def fixed_share_of(situation: Situation) -> Estimate | None:
    """Share of verify's growth over decode that is a fixed step; None where a sweep is missing."""
    if situation.verify_fit is None or not situation.verify_is_dear:
        return None
    n = situation.forward_tokens
    return situation.verify_fit.fixed_share if n is None else situation.verify_fit.share_at(n)


def half_fixed_cycle_ms(situation: Situation) -> float | None:
    """The period at k = 1 if half of verify's growth over decode were fixed.

    A longer one says that most of the growth is fixed, a shorter one that most is per token.
    """
    k, n, growth_ms = situation.draft_tokens, situation.forward_tokens, situation.growth_ms
    if growth_ms is None or k is None or n is None or k < 2 or not situation.is_chain:
        return None
    return cycle_costs(situation, 0.5 * max(growth_ms, 0.0) / (n - 1)).period_ms(1, 2)


def fix_the_verify_path(situation: Situation) -> list[Action]:
    """Most of verify's growth over decode is there whatever it carries."""
    share, fit, growth_ms = fixed_share_of(situation), situation.verify_fit, situation.growth_ms
    if share is None or fit is None or growth_ms is None or share.value <= 0.5:
        return []
    step_ms = min(fit.step_ms.value, growth_ms)
    rate, gain = situation.without(step_ms)
    per_token_ms = max(fit.per_token_ms.value, 0.0)
    evidence = (
        f"{step_ms:.1f} ms of what verify costs over a decode step is fixed "
        f"({share_text(share)} of the growth)" + _suspects(situation) + still_loses(situation, rate)
    )
    dividing_ms = half_fixed_cycle_ms(situation)
    return [
        bounded(
            f"Bring verify to a decode step's cost plus {per_token_ms:.2f} ms a token",
            (rate, gain),
            evidence,
            "a cycle that grows in proportion to k"
            if dividing_ms is None
            else f"a cycle at k = 1 below {dividing_ms:.1f} ms",
        )
    ]


def _suspects(situation: Situation) -> str:
    """The class that grew most, and an eager launch."""
    suspects = [_grown(each) for each in _by_growth(situation)[:1]]
    if situation.verify_is_eager:
        suspects.append("verify runs eagerly")
    return "".join(f"; {each}" for each in suspects)


def _by_growth(situation: Situation) -> list[ClassGrowth]:
    grown = [each for each in situation.class_growth if each.growth_ms > 0]
    return sorted(grown, key=lambda each: -each.growth_ms)


def _grown(growth: ClassGrowth) -> str:
    text = f"{growth.name} {growth.decode_ms:.2f} -> {growth.verify_ms:.2f} ms"
    if growth.kernel_changed:
        text += f", {growth.decode_kernel} -> {growth.verify_kernel}"
    return text


def run_decodes_kernels(situation: Situation) -> list[Action]:
    """A class that verify runs on another kernel than decode."""
    return [
        _run_decodes_kernel(situation, growth)
        for growth in _by_growth(situation)
        if growth.kernel_changed
        and growth.growth_ms > _WORTH_NAMING_SHARE * situation.period_ms.value
    ]


def _run_decodes_kernel(situation: Situation, growth: ClassGrowth) -> Action:
    if "attention" in growth.name.casefold():
        action = _ON_DECODE_ATTENTION
    else:
        action = f"Get {growth.name} in verify onto the kernel that decode runs"
    rate, gain = situation.without(growth.growth_ms)
    return bounded(
        action,
        (rate, gain),
        _grown(growth) + still_loses(situation, rate),
        f"{growth.name} in verify staying near {growth.verify_ms:.2f} ms on decode's kernel",
    )


def stop_waiting_for_the_host(situation: Situation) -> list[Action]:
    """The device idles because launches come late."""
    idle_ms = situation.host_idle_ms
    share = idle_ms / situation.period_ms.value
    if situation.verify_is_eager and share > _EAGER_GAP_SHARE:
        action = "Capture the verify forward in a CUDA graph"
        refuted_by = "gaps before kernels that stay with verify replayed from a graph"
    elif share > _HOST_BOUND_SHARE:
        action = (
            "Take the host off the critical path: overlap scheduling (SGLang 0.5.6-0.5.10: "
            "SGLANG_ENABLE_SPEC_V2, off by default) and CUDA graphs for what runs eagerly"
        )
        refuted_by = "gaps of the causes host late and launch latency that stay with both on"
    else:
        return []
    rate, gain = situation.without(idle_ms)
    evidence = f"the device waits {idle_ms:.2f} ms of the cycle for launches ({percent(share)})"
    return [
        bounded(action, (rate, gain), evidence + still_loses(situation, rate), refuted_by),
    ]


def stop_synchronising(situation: Situation) -> list[Action]:
    """Synchronising calls hold the host up inside the cycle."""
    share = situation.synchronisation_ms / situation.period_ms.value
    if share <= _SYNCHRONISED_SHARE:
        return []
    rate, gain = situation.without(situation.synchronisation_ms)
    evidence = (
        f"{situation.synchronisation_ms:.2f} ms of the cycle are gaps after synchronising calls "
        f"({percent(share)})" + still_loses(situation, rate)
    )
    return [
        bounded(
            "Take synchronising calls out of the cycle, a timer's own first",
            (rate, gain),
            evidence,
            f"tok/s without them no higher than {situation.tokens_per_s:.1f}",
        )
    ]
