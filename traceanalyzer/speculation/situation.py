"""What is known about one bucket of cycles, and what a change of its times would give.

Everything that advice needs, measured elsewhere; the figures derived here are shared by the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.speculation.acceptance import alpha_of, geometric_survival
from traceanalyzer.speculation.cost import LinearCost
from traceanalyzer.speculation.draft_length import CycleCosts
from traceanalyzer.speculation.speedup import speedup_estimate, tokens_per_s

if TYPE_CHECKING:
    from traceanalyzer.speculation.confidence import Estimate
    from traceanalyzer.speculation.cost import FixedStep
    from traceanalyzer.speculation.speedup import Threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassGrowth:
    """What one kernel class costs in a decode step and in verify, ms, and its longest kernel."""

    name: str
    decode_ms: float
    verify_ms: float
    decode_kernel: str | None
    verify_kernel: str | None

    @property
    def growth_ms(self) -> float:
        """What verify costs more."""
        return self.verify_ms - self.decode_ms

    @property
    def kernel_changed(self) -> bool:
        """Whether verify is known to run another kernel than decode."""
        known = self.decode_kernel is not None and self.verify_kernel is not None
        return known and self.decode_kernel != self.verify_kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do.

    Args:
        action: An imperative sentence.
        tokens_per_s_at_most: Upper bound of what it leads to; None where nothing bounds it.
        gain_share_at_most: The same as a share of the present tokens a second.
        evidence: What it rests on.
        refuted_by: The observation that would show it wrong.
    """

    action: str
    tokens_per_s_at_most: float | None
    gain_share_at_most: float | None
    evidence: str
    refuted_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One bucket of cycles; times are ms per cycle.

    Args:
        accept_len: Committed tokens per request and cycle, bonus included.
        draft_tokens: k; None where it varies or is unknown.
        verified_tokens: n of one request.
        batch: Requests of a cycle.
        period_ms: Start to start.
        baseline_ms: A plain decode step at the same batch and context.
        draft_ms: Window of the draft phase.
        verify_ms: Windows of verify and sample.
        draft_extend_ms: Window of the re-extend.
        other_ms: Everything else.
        survival: P(accepted >= i); empty where positions were not counted.
        host_idle_ms: Gaps in which the device waited for a launch.
        synchronisation_ms: Gaps that a synchronising call caused.
        verify_is_eager: None where it is unknown.
        verify_fit: From runs with several numbers of verified tokens.
        class_growth: Kernel classes in decode and verify.
        draft_collective_ms: Collectives in draft and re-extend, waiting included.
        threshold: From runs at several batches.
        problems: Checks of the capture that failed.
        told_speedup: Where more is known of the speed-up than that its factors are independent.

    Raises:
        ValueError: accept_len, period or baseline is not positive.
    """

    accept_len: Estimate
    draft_tokens: int | None
    verified_tokens: int | None
    batch: int | None
    period_ms: Estimate
    baseline_ms: Estimate | None
    draft_ms: float
    verify_ms: float
    draft_extend_ms: float
    other_ms: float
    survival: tuple[float, ...]
    host_idle_ms: float
    synchronisation_ms: float
    verify_is_eager: bool | None
    verify_fit: FixedStep | None = None
    class_growth: tuple[ClassGrowth, ...] = ()
    draft_collective_ms: float | None = None
    threshold: Threshold | None = None
    problems: tuple[str, ...] = ()
    told_speedup: Estimate | None = None

    def __post_init__(self) -> None:
        measured = (self.accept_len, self.period_ms, self.baseline_ms)
        if any(each is not None and each.value <= 0 for each in measured):
            raise ValueError("accept_len, period and baseline must be positive")

    @property
    def requests(self) -> int:
        """Requests of a cycle, 1 where the batch is unknown."""
        return self.batch or 1

    @property
    def tokens_per_s(self) -> float:
        """Present tokens a second of all requests."""
        return tokens_per_s(self.accept_len.value, self.period_ms.value, self.requests)

    @property
    def baseline_tokens_per_s(self) -> float | None:
        """Tokens a second with speculation off."""
        if self.baseline_ms is None:
            return None
        return tokens_per_s(1.0, self.baseline_ms.value, self.requests)

    @property
    def speedup(self) -> Estimate | None:
        """S with its interval; None without a baseline."""
        if self.baseline_ms is None:
            return None
        if self.told_speedup is not None:
            return self.told_speedup
        return speedup_estimate(self.accept_len, self.period_ms, self.baseline_ms)

    @property
    def forward_tokens(self) -> int | None:
        """Verified tokens of one request; k + 1 where they were not counted."""
        if self.verified_tokens is not None:
            return self.verified_tokens
        return None if self.draft_tokens is None else self.draft_tokens + 1

    @property
    def is_chain(self) -> bool:
        """Whether verify carries k + 1 tokens of each request."""
        return self.draft_tokens is not None and self.forward_tokens == self.draft_tokens + 1

    @property
    def drafting_ms(self) -> float:
        """Draft and re-extend."""
        return self.draft_ms + self.draft_extend_ms

    @property
    def growth_ms(self) -> float | None:
        """What verify costs more than a decode step; None without a baseline."""
        return None if self.baseline_ms is None else self.verify_ms - self.baseline_ms.value

    @property
    def verify_is_dear(self) -> bool:
        """Whether verify costs more than 1.3 decode steps, so that its growth is worth a look."""
        return self.baseline_ms is not None and self.verify_ms > 1.3 * self.baseline_ms.value

    def without(self, saved_ms: float) -> tuple[float, float]:
        """Tokens a second, and their gain as a share, if the period lost so much time.

        A thousandth of the period stays, whatever is saved.
        """
        period_ms = self.period_ms.value
        left_ms = max(period_ms - max(saved_ms, 0.0), 1e-3 * period_ms)
        return self.tokens_per_s * period_ms / left_ms, period_ms / left_ms - 1

    def without_drafting(self, saved_ms: float) -> tuple[float, float]:
        """The same for time of draft and re-extend: verify stays whole."""
        most_ms = min(self.drafting_ms, self.period_ms.value - self.verify_ms)
        return self.without(min(saved_ms, most_ms))


def bounded(action: str, outcome: tuple[float, float], evidence: str, refuted_by: str) -> Action:
    """An action with the tokens a second and the gain that it leads to at most."""
    return Action(
        action=action,
        tokens_per_s_at_most=outcome[0],
        gain_share_at_most=outcome[1],
        evidence=evidence,
        refuted_by=refuted_by,
    )


def cycle_costs(situation: Situation, per_token_ms: float) -> CycleCosts:
    """Costs by draft length that pass through the cycle as measured.

    Draft steps are taken as equal. Where there is a re-extend it proposes the first draft token
    (SGLang `EAGLEWorker.draft_forward`), so k tokens need k - 1 steps; where k is 1 nothing tells
    what a step costs, and it counts as free.

    Args:
        situation: Its draft_tokens are known.
        per_token_ms: What verify costs for each token more.
    """
    k, n = situation.draft_tokens or 0, situation.forward_tokens or 1
    first = 1 if situation.draft_extend_ms > 0 else 0
    step_ms = situation.draft_ms / (k - first) if k > first else 0.0
    verify = LinearCost(situation.verify_ms - per_token_ms * n, per_token_ms)
    draft = LinearCost(situation.draft_ms - step_ms * k, step_ms)
    spoken_for_ms = situation.draft_ms + situation.verify_ms + situation.draft_extend_ms
    other_ms = situation.period_ms.value - spoken_for_ms
    return CycleCosts(draft, verify, situation.draft_extend_ms, other_ms, situation.requests)


def token_ms(situation: Situation) -> float | None:
    """What a verified token more costs by the sweep, ms; None without one.

    Held between nothing and all of verify's growth over decode (all of verify, where decode is
    unknown), so that no chain, however short, is predicted to verify faster than a decode step.
    """
    if situation.verify_fit is None:
        return None
    found_ms = max(situation.verify_fit.per_token_ms.value, 0.0)
    n, most_ms = situation.forward_tokens, situation.growth_ms
    if n is None or n < 2:
        return found_ms
    most_ms = situation.verify_ms if most_ms is None else max(most_ms, 0.0)
    return min(found_ms, most_ms / (n - 1))


def survival_of(situation: Situation) -> tuple[float, ...]:
    """Survival that adds up to accept_len, for predictions; empty where k is unknown.

    As counted, and scaled by what overshoot took from accept_len; geometric where no positions
    were counted.
    """
    accept_len, k = max(situation.accept_len.value, 1.0), situation.draft_tokens
    if not situation.survival:
        return geometric_survival(alpha_of(min(accept_len, k + 1), k), k) if k else ()
    counted = sum(situation.survival)
    scale = (accept_len - 1) / counted if counted > 0 else 1.0
    return tuple(min(1.0, s * scale) for s in situation.survival)


def interval(estimate: Estimate, digits: int = 2) -> str:
    """A value with its interval, as it is written in a sentence."""
    value, low, high = (
        f"{each:.{digits}f}" for each in (estimate.value, estimate.low, estimate.high)
    )
    return value if low == high else f"{value} [{low}, {high}]"


def percent(share: float) -> str:
    """A share of 0..1, as it is written in a sentence."""
    return f"{100 * share:.1f} %"


def share_text(share: Estimate) -> str:
    """A share with its interval, as it is written in a sentence."""
    value, low, high = map(percent, (share.value, share.low, share.high))
    return value if low == high else f"{value} [{low}, {high}]"


def still_loses(situation: Situation, rate: float) -> str:
    """A clause that says so when a rate stays below plain decoding, else nothing."""
    plain = situation.baseline_tokens_per_s
    if plain is None or rate >= plain:
        return ""
    return f"; still below the {plain:.1f} tok/s without speculation"
