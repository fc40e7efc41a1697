"""Tokens per second at draft lengths that were measured and at those between and beyond."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from traceanalyzer.report import Estimated
from traceanalyzer.report.sweep import SweepPoint, SweepPrediction
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.speculation.cost import fit_linear
from traceanalyzer.speculation.draft_length import expected_accept_len, extended_survival
from traceanalyzer.verdict.estimates import NS_PER_MS, as_ms, estimated, plain, product_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.sweep import SweepBatch
    from traceanalyzer.speculation.acceptance import AcceptanceCounts

_BEYOND: Final = 3  # draft lengths past the longest measured one
_NS_PER_S: Final = 1e9
_ALMOST_BEST: Final = 0.95  # a choice among such lengths hardly matters


def predictions_of(
    points: Sequence[SweepPoint], counts: AcceptanceCounts, baseline: Estimated | None
) -> list[SweepPrediction]:
    """One prediction a draft length of a chain.

    Args:
        points: The captures of one batch, by draft length.
        counts: Their acceptance together.
        baseline: A plain decode step, None when unknown.

    Returns:
        Empty where acceptance is unknown, drafts are no chain, or all captures have one length.
    """
    known = [each for each in points if each.draft_tokens and each.accept_len is not None]
    chain = all(each.verified_tokens == (each.draft_tokens or 0) + 1 for each in known)
    lengths = {each.draft_tokens for each in known}
    if not known or not chain or len(lengths) < 2 or not counts.request_cycles:
        return []
    longest = max(each.draft_tokens or 0 for each in known)
    predictor = _Predictor(known, counts, baseline)
    found = [predictor.at(length) for length in range(1, longest + _BEYOND + 1)]
    return [each for each in found if each is not None]


class _Predictor:
    """Measured captures of one batch, and lines through their costs."""

    def __init__(
        self, points: Sequence[SweepPoint], counts: AcceptanceCounts, baseline: Estimated | None
    ) -> None:
        self.points = points
        self.survival = counts.survival()
        self.baseline = baseline
        self.longest = max(each.draft_tokens or 0 for each in points)
        self.batch = points[0].batch or 1

    def at(self, length: int) -> SweepPrediction | None:
        """The capture of this length where there is one, else costs from the lines.

        None where a line far from all captures runs below nothing.
        """
        measured = next((each for each in self.points if each.draft_tokens == length), None)
        if measured is not None and measured.accept_len is not None:
            accept_len, period = measured.accept_len, measured.period_ns
        else:
            accept_len, period = self._accept_len(length), self._period(length)
            if period.value <= 0:
                return None
        factors = ((accept_len, 1.0), (period, -1.0))
        return SweepPrediction(
            length,
            accept_len,
            period,
            product_of((*factors, (Estimated(_NS_PER_S * self.batch), 1.0))),
            product_of((*factors, (self.baseline, 1.0))) if self.baseline else None,
            measured=measured is not None,
            extrapolated=length > self.longest,
        )

    def _accept_len(self, length: int) -> Estimated:
        """From the survival of all captures, as unsure as the least sure of them."""
        known = extended_survival(self.survival, max(length, len(self.survival)))
        value = expected_accept_len(known, length)
        doubts = [_relative_doubt(each.accept_len) for each in self.points if each.accept_len]
        doubt = max(doubts, default=0.0)
        return Estimated(value, max(1.0, value * (1 - doubt)), min(length + 1, value * (1 + doubt)))

    def _period(self, length: int) -> Estimated:
        targets = [(each.verified_tokens or 0, as_ms(each.target_ns)) for each in self.points]
        rests = [(each.draft_tokens or 0, _rest_ms(each)) for each in self.points]
        verify, rest = self._line(targets, length + 1), self._line(rests, length)
        value = verify.value + rest.value
        below = math.hypot(verify.value - verify.low, rest.value - rest.low)
        above = math.hypot(verify.high - verify.value, rest.high - rest.value)
        return estimated(
            Estimate(value, max(value - below, min(value, 0.0)), value + above), NS_PER_MS
        )

    @staticmethod
    def _line(costs: Sequence[tuple[int, Estimate]], at: int) -> Estimate:
        """The line's value there: its intercept when tokens are counted from there."""
        fit = fit_linear([(tokens - at, cost) for tokens, cost in costs])
        assert fit is not None, "captures have two lengths or more"
        return fit.fixed


def _rest_ms(point: SweepPoint) -> Estimate:
    """The period without the target's windows, with the period's doubt."""
    period = as_ms(point.period_ns)
    target = point.target_ns.value / NS_PER_MS
    return Estimate(period.value - target, period.low - target, period.high - target)


def _relative_doubt(found: Estimated) -> float:
    exact = plain(found)
    return max(exact.high - exact.value, exact.value - exact.low) / exact.value


def advice_for(found: SweepBatch) -> str | None:
    """What the sweep says to do at this batch, in one sentence."""
    best = next(
        (each for each in found.predictions if each.draft_tokens == found.best_draft_tokens), None
    )
    if best is None:
        return None
    rate = f"{best.tokens_per_s.value:.1f} tok/s"
    near = _near_best(found.predictions, best)
    if best.speedup is None:
        text = f"k = {best.draft_tokens} is best with {rate}{near}"
        return f"{text}; whether that beats plain decoding needs a baseline."
    speed = f"{rate}, {best.speedup.value:.2f}× plain decoding"
    known = plain(best.speedup)
    if known.high < 1:
        text = f"even k = {best.draft_tokens}, the best, gives {speed}{near}"
        return f"Switch speculation off: {text}.{_way_out(found)}"
    sure = "" if known.low > 1 else ", not for sure"
    text = f"k = {best.draft_tokens} is best with {speed}{sure}{near}"
    return f"Draft {best.draft_tokens}: {text}.{_way_out(found)}"


def _near_best(predictions: Sequence[SweepPrediction], best: SweepPrediction) -> str:
    """The lengths that give almost as much; which of them is best may be chance."""
    least = best.tokens_per_s.value * _ALMOST_BEST
    near = [each.draft_tokens for each in predictions if each.tokens_per_s.value >= least]
    if len(near) < 2:
        return ""
    run = near[-1] - near[0] == len(near) - 1
    which = f"{near[0]} to {near[-1]}" if run and len(near) > 2 else ", ".join(map(str, near))
    return f" (k = {which} within {100 * (1 - _ALMOST_BEST):.0f} % of it)"


def _way_out(found: SweepBatch) -> str:
    if found.world == "fixed step":
        return " Most of verify's growth is a fixed step: fewer drafts do not remove it."
    if found.world == "per token":
        return " Verify grows with its tokens: fewer drafts make it cheaper."
    return ""
