"""What does a forward cost by the tokens it carries: curves, their fit, and the fixed step.

A verify forward of n tokens costs a decode step, plus a fixed step for not being one, plus so much
a token. Which of the two dominates decides whether to fix the path or to draft less.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, Protocol

from traceanalyzer.speculation.confidence import Estimate, t_quantile_95

if TYPE_CHECKING:
    from collections.abc import Sequence

    Point = tuple[float, Estimate | float]

_Z_95: Final = NormalDist().inv_cdf(0.975)


class CostCurve(Protocol):
    """Milliseconds by tokens (or by draft tokens, for the draft)."""

    def ms(self, tokens: float) -> float:
        """Cost of a forward that carries so many tokens."""
        ...


@dataclass(frozen=True, slots=True)
class LinearCost:
    """fixed_ms + per_token_ms x tokens.

    The form in which TurboSpec predicts a step from its batched tokens (arXiv 2406.14066).
    """

    fixed_ms: float
    per_token_ms: float

    def ms(self, tokens: float) -> float:
        """Cost, ms."""
        return self.fixed_ms + self.per_token_ms * tokens


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """Measured costs, interpolated; outside them the nearest segment goes on.

    Raises:
        ValueError: No point, or one number of tokens twice.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.points))
        if not ordered or any(a[0] == b[0] for a, b in pairwise(ordered)):
            raise ValueError("a measured cost needs points, one for each number of tokens")
        object.__setattr__(self, "points", ordered)

    def covers(self, tokens: float) -> bool:
        """Whether the cost lies between measured points rather than beyond them."""
        return self.points[0][0] <= tokens <= self.points[-1][0]

    def ms(self, tokens: float) -> float:
        """Cost, ms; a single point is the cost of any number of tokens."""
        if len(self.points) == 1:
            return self.points[0][1]
        right = bisect_left(self.points, (tokens, -math.inf))
        right = min(max(right, 1), len(self.points) - 1)
        (n0, ms0), (n1, ms1) = self.points[right - 1], self.points[right]
        share = (tokens - n0) / (n1 - n0)
        return ms0 * (1 - share) + ms1 * share


@dataclass(frozen=True, slots=True)
class StairCost:
    """A forward replayed from CUDA graphs: it pads up to the next captured size.

    Beyond the largest size it runs eagerly, at the curve's own cost.
    """

    curve: CostCurve
    sizes: tuple[int, ...]

    def padded(self, tokens: float) -> float:
        """Tokens that are computed."""
        return min((size for size in self.sizes if size >= tokens), default=tokens)

    def ms(self, tokens: float) -> float:
        """Cost of the padded forward, ms."""
        return self.curve.ms(self.padded(tokens))


def experts_touched(experts: int, active: int, tokens: float) -> float:
    """Distinct experts of a layer that some token is routed to: E (1 - (1 - K/E)^n).

    Uniform, independent routing; real routing is correlated and touches fewer (MoESD,
    arXiv 2505.19645).

    Args:
        experts: Routed experts of a layer, E.
        active: Experts of a token, K.
        tokens: Tokens of the forward, n.

    Raises:
        ValueError: Not 0 < active <= experts, or negative tokens.
    """
    if not 0 < active <= experts or tokens < 0:
        raise ValueError(f"{active} active of {experts} experts for {tokens} tokens cannot be")
    missed = math.pow(1 - active / experts, tokens)
    return experts * (1 - missed)


@dataclass(frozen=True, slots=True)
class ExpertCost:
    """A mixture-of-experts forward: routed experts cost N(n)/N(1) times what one token needs.

    Args:
        rest: Cost of everything but the routed experts.
        expert_ms: Cost of the routed experts for one token, ms.
        experts: Routed experts of a layer, E.
        active: Experts of a token, K.
    """

    rest: CostCurve
    expert_ms: float
    experts: int
    active: int

    @classmethod
    def through(
        cls, experts: int, active: int, one_token_ms: float, point: tuple[float, float]
    ) -> ExpertCost:
        """The curve on which only expert traffic explains the growth from 1 token to a point.

        Args:
            experts: Routed experts of a layer.
            active: Experts of a token.
            one_token_ms: Cost of one token, ms.
            point: Tokens (more than 1), and their cost in ms.
        """
        tokens, ms = point
        growth = experts_touched(experts, active, tokens) / active
        expert_ms = (ms - one_token_ms) / (growth - 1)
        return cls(LinearCost(one_token_ms - expert_ms, 0.0), expert_ms, experts, active)

    def ms(self, tokens: float) -> float:
        """Cost, ms."""
        growth = experts_touched(self.experts, self.active, tokens) / self.active
        return self.rest.ms(tokens) + self.expert_ms * growth


@dataclass(frozen=True, slots=True)
class LinearFit:
    """A straight line through measured costs.

    Args:
        curve: The line.
        fixed: Its value at 0 tokens, ms.
        per_token: Its slope, ms a token.
        residual_ms: Root mean square of what it leaves unexplained; 0 through two points.
    """

    curve: LinearCost
    fixed: Estimate
    per_token: Estimate
    residual_ms: float


def fit_linear(points: Sequence[Point]) -> LinearFit | None:
    """Fit fixed + per_token x n by least squares.

    Points that all carry an interval are weighted by it, and the line's intervals follow from
    theirs, widened by the Birge ratio where the line misses them by more than they allow (Birge
    1932, Phys. Rev. 40). Otherwise residuals tell the error (Student's t); two points without
    intervals tell none, and the line is given as exact.

    Args:
        points: Tokens and cost (ms), at least two different numbers of tokens.

    Returns:
        None where all points have the same number of tokens.
    """
    if len({tokens for tokens, _ in points}) < 2:
        return None
    errors = [_standard_error(cost) for _, cost in points]
    weighted = all(errors)
    line = _least_squares(points, [1 / error**2 if weighted else 1.0 for error in errors])
    residuals = [_value(cost) - line.curve.ms(tokens) for tokens, cost in points]
    free = len(points) - 2
    if weighted:
        chi_square = math.fsum((r / e) ** 2 for r, e in zip(residuals, errors, strict=True))
        birge = math.sqrt(max(1.0, chi_square / free)) if free else 1.0
        halves = [_Z_95 * birge * line.error(part, errors) for part in line.parts]
    else:
        spread = math.sqrt(math.fsum(r * r for r in residuals) / free) if free else 0.0
        unexplained = t_quantile_95(free) * spread if free else 0.0
        same = [1.0] * len(points)
        halves = [
            max(_Z_95 * line.error(part, errors), unexplained * line.error(part, same))
            for part in line.parts
        ]
    return LinearFit(
        line.curve,
        _around(line.curve.fixed_ms, halves[0]),
        _around(line.curve.per_token_ms, halves[1]),
        math.sqrt(math.fsum(r * r for r in residuals) / len(points)),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """A least-squares line; `parts` holds what each point contributes to intercept and slope."""

    curve: LinearCost
    parts: tuple[tuple[float, ...], tuple[float, ...]]

    @staticmethod
    def error(part: Sequence[float], errors: Sequence[float]) -> float:
        """Standard error of intercept or slope when the points have these."""
        return math.hypot(*(c * e for c, e in zip(part, errors, strict=True)))


def _least_squares(points: Sequence[Point], weights: Sequence[float]) -> _Line:
    tokens = [float(number) for number, _ in points]
    total = math.fsum(weights)
    middle = _dot(weights, tokens) / total
    width = math.fsum(w * (n - middle) ** 2 for w, n in zip(weights, tokens, strict=True))
    slope = tuple(w * (n - middle) / width for w, n in zip(weights, tokens, strict=True))
    intercept = tuple(w / total - middle * s for w, s in zip(weights, slope, strict=True))
    costs = [_value(cost) for _, cost in points]
    curve = LinearCost(_dot(intercept, costs), _dot(slope, costs))
    return _Line(curve, (intercept, slope))


def _dot(weights: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(w * v for w, v in zip(weights, values, strict=True))


def _value(cost: Estimate | float) -> float:
    return cost.value if isinstance(cost, Estimate) else cost


def _standard_error(cost: Estimate | float) -> float:
    return (cost.high - cost.low) / (2 * _Z_95) if isinstance(cost, Estimate) else 0.0


def _around(value: float, half_width: float) -> Estimate:
    return Estimate(value, value - half_width, value + half_width)


@dataclass(frozen=True, slots=True)
class FixedStep:
    """verify(n) = decode + step_ms + per_token_ms x (n - 1), one request.

    Args:
        step_ms: What verify costs more than a decode step whatever it carries.
        per_token_ms: What each token after the first adds.
        fixed_share: Share of step_ms in verify's growth over decode at the largest n measured.
    """

    step_ms: Estimate
    per_token_ms: Estimate
    fixed_share: Estimate

    def growth_ms(self, tokens: float) -> float:
        """verify(tokens) - decode, ms."""
        return self.step_ms.value + self.per_token_ms.value * (tokens - 1)

    def share_at(self, tokens: float) -> Estimate:
        """Share of the growth at so many tokens that is fixed.

        The interval takes both parts at their opposite ends, so it is on the safe side.
        """
        step, token = self.step_ms, self.per_token_ms
        share = _fixed_share(step.value, token.value * (tokens - 1))
        low = _fixed_share(step.low, token.high * (tokens - 1))
        high = _fixed_share(step.high, token.low * (tokens - 1))
        return Estimate(share, min(low, share), max(high, share))  # which rounding may swap


def fixed_step(decode_ms: Estimate | float, points: Sequence[Point]) -> FixedStep | None:
    """Split verify's growth over a decode step into a fixed step and a cost per token.

    Args:
        decode_ms: A plain decode step at the same batch and context, ms.
        points: Verified tokens of one request, and the verify forward's cost in ms.

    Returns:
        None below two different numbers of tokens.
    """
    # Counted from the first token on, the intercept is verify(1) with its own interval.
    fit = fit_linear([(tokens - 1, cost) for tokens, cost in points])
    if fit is None:
        return None
    step = _difference(fit.fixed, decode_ms)
    undivided = FixedStep(step, fit.per_token, Estimate.exact(0.0))
    share = undivided.share_at(max(tokens for tokens, _ in points))
    return FixedStep(step, fit.per_token, share)


def _difference(minuend: Estimate, subtrahend: Estimate | float) -> Estimate:
    """Of independent estimates, each side's errors added in quadrature."""
    if not isinstance(subtrahend, Estimate):
        subtrahend = Estimate.exact(subtrahend)
    value = minuend.value - subtrahend.value
    below = math.hypot(minuend.value - minuend.low, subtrahend.high - subtrahend.value)
    above = math.hypot(minuend.high - minuend.value, subtrahend.value - subtrahend.low)
    return Estimate(value, value - below, value + above)


def _fixed_share(step: float, by_token: float) -> float:
    """The fixed part of a growth, both parts counted from 0 up."""
    step, by_token = max(step, 0.0), max(by_token, 0.0)
    return step / (step + by_token) if step + by_token > 0 else 0.0
