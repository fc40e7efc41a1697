"""How sure is a number? 95 % intervals for shares, ratios and means of dependent cycles.

The cycles of one request depend on one another, so ratios are judged by request and series by
their slow movements. Neither needs random draws: the same data give the same interval.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from operator import mul
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Z_95: Final = NormalDist().inv_cdf(0.975)
"""A normal variable stays within this many standard deviations, up or down, in 95 % of cases."""

_Z_POWER_80: Final = NormalDist().inv_cdf(0.8)
_EXACT_SUMS_UP_TO: Final = 200  # degrees of freedom; above, the expansion is good to 1e-9
_TOO_SHORT_TO_TELL_DEPENDENCE: Final = 16
_STRONGEST_DEPENDENCE: Final = 0.97
_MOST_WAVES: Final = 32  # a t quantile of 2.04: more waves cost time and narrow nothing


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval; `low <= value <= high`.

    Raises:
        ValueError: The interval does not hold the value.
    """

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} is not within [{self.low}, {self.high}]")

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A value without doubt."""
        return cls(value, value, value)


def wilson(successes: float, trials: float) -> Estimate:
    """The share of successes with Wilson's score interval.

    For trials that do not depend on one another. Source: Wilson 1927, "Probable inference, the
    law of succession, and statistical inference", J. Am. Stat. Assoc. 22; it holds its level at
    small counts (Brown, Cai and DasGupta 2001, Statist. Sci. 16).

    Raises:
        InputError: No trials, or more successes than trials.
    """
    if not 0 <= successes <= trials or trials <= 0:
        raise InputError(f"{successes} successes in {trials} trials have no share")
    share = successes / trials
    spread = Z_95**2 / trials
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    # At 0 and 1 one end is the share itself, which rounding may miss.
    return Estimate(share, max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share)))


def clustered_ratio(clusters: Sequence[tuple[float, float]]) -> Estimate | None:
    """Sum of numerators over sum of denominators, with requests as the unit of chance.

    The jackknife leaves out one cluster at a time (Efron and Stein 1981, Ann. Statist. 9; for
    regressions it is CR3 in MacKinnon, Nielsen and Webb 2023, J. Econometrics 232) and is taken
    with a t quantile, on a logarithmic scale when no numerator is negative, since such ratios lean
    to the right. Its degrees of freedom follow the effective number of clusters, (sum x)^2 / sum
    x^2 (Kish 1965), so that one long request among short ones widens the interval. In simulations
    of 20 requests the intervals held the truth in 93 % of cases or more, also where lengths spread
    over two orders of magnitude and acceptance differed much between requests.

    Args:
        clusters: (numerator, denominator) of each cluster; denominators are not negative.

    Returns:
        The ratio; None below two clusters that have a denominator.

    Raises:
        InputError: A denominator is negative, or 0 under a numerator that is not.
    """
    if any(below < 0 or (below == 0 and above != 0) for above, below in clusters):
        raise InputError("a cluster's denominator must be positive")
    filled = [pair for pair in clusters if pair[1] > 0]
    if len(filled) < 2:
        return None
    total = math.fsum(below for _, below in filled)
    found = math.fsum(above for above, _ in filled) / total
    without = [(above - found * below) / (total - below) for above, below in filled]
    variance = math.fsum(each * each for each in without) * (1 - 1 / len(filled))
    effective = total**2 / math.fsum(below**2 for _, below in filled)
    degrees = max(1, math.floor(effective + 1e-9) - 1)  # equal clusters may round to just below
    half = t_quantile_95(degrees) * math.sqrt(variance)
    if found <= 0 or any(above < 0 for above, _ in filled):
        return _around(found, half)
    return Estimate(found, found * _exp(-half / found), found * _exp(half / found))


def block_mean(values: Sequence[float]) -> Estimate | None:
    """The mean of a series in time order whose neighbours may depend on one another.

    The long-run variance comes from the series' slowest cosine waves (Lazarus, Lewis, Stock and
    Watson 2018, "HAR inference: recommendations for practice", J. Bus. Econ. Stat. 36, with half
    their number of waves, since cycles drift beneath their noise), after first-order dependence
    was taken out (Andrews and Monahan 1992, Econometrica 60; its estimate corrected for its bias
    by Kendall 1954, Biometrika 41), and is taken with a t quantile. On first-order autoregressive
    series of 200 values the intervals held the truth in 93 % of cases or more up to a correlation
    of 0.9 between neighbours; in 92 % with as slow a drift beneath twice its noise. Requests that
    follow one another and differ need `clustered_ratio` instead. Below 16 values dependence cannot
    be told, and the interval is Student's.

    Returns:
        The mean; None below two values.
    """
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return _around(mean, _half_width_of_mean([each - mean for each in values]))


def block_ratio(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
    """Sum of first members over sum of second ones, over cycles in time order.

    As `block_mean`, on the ratio's residuals (linearised: Cochran 1977, "Sampling techniques",
    on ratio estimators), so that what moves both members together cancels.

    Returns:
        The ratio; None below two pairs or when the second members do not add up to more than 0.
    """
    total = math.fsum(below for _, below in pairs)
    if len(pairs) < 2 or total <= 0:
        return None
    found = math.fsum(above for above, _ in pairs) / total
    residuals = [above - found * below for above, below in pairs]
    return _around(found, _half_width_of_mean(residuals) / (total / len(pairs)))


def product(*factors: tuple[Estimate, float]) -> Estimate:
    """The product of independent estimates, each raised to its exponent.

    Each side of each interval is carried on a logarithmic scale and the sides that push the same
    way are added in squares (MOVER: Zou and Donner 2008, Stat. Med. 27), so intervals may be
    lopsided. A factor whose interval reaches 0 bounds nothing on that side.

    Raises:
        InputError: A value is not positive.
    """
    value, up, down = 1.0, 0.0, 0.0
    for factor, exponent in factors:
        if factor.value <= 0:
            raise InputError(f"a product of estimates needs positive values, not {factor.value}")
        if exponent == 0:
            continue
        value *= factor.value**exponent
        above = abs(exponent) * math.log(factor.high / factor.value)
        below = abs(exponent) * _log_distance_below(factor)
        raising, lowering = (above, below) if exponent > 0 else (below, above)
        up, down = math.hypot(up, raising), math.hypot(down, lowering)
    return Estimate(value, value * _exp(-down), value * _exp(up))


def ratio(above: Estimate, below: Estimate) -> Estimate:
    """One independent estimate over another; both positive."""
    return product((above, 1.0), (below, -1.0))


def differs(one: Estimate, other: Estimate) -> bool:
    """Whether two independent estimates differ: the interval of their difference excludes 0.

    Source: MOVER (Zou and Donner 2008). Intervals that overlap a little may still differ.
    """
    low, high = sorted((one, other), key=lambda each: each.value)
    return high.value - low.value > math.hypot(high.value - high.low, low.high - low.value)


def cycles_needed(sd: float, half_width: float) -> int:
    """Cycles that bring the 95 % interval of a mean to plus or minus `half_width`.

    (1.96 sd / half_width)^2, for cycles that do not depend on one another.

    Raises:
        InputError: `half_width` is not positive.
    """
    return math.ceil((Z_95 * sd / _positive(half_width)) ** 2)


def cycles_to_tell_apart(sd: float, difference: float) -> int:
    """Cycles of each of two runs that show this difference of their means in 8 of 10 tries.

    2 (2.80 sd / difference)^2: a two-sided test at 5 % with a power of 80 %.

    Raises:
        InputError: `difference` is not positive.
    """
    return math.ceil(2 * ((Z_95 + _Z_POWER_80) * sd / _positive(difference)) ** 2)


@lru_cache(maxsize=512)
def t_quantile_95(degrees: int) -> float:
    """The value that Student's t stays within, up or down, in 95 % of cases.

    Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4 (finite sums, solved by bisection), and
    26.7.5 (expansion) for many degrees of freedom.

    Raises:
        ValueError: Fewer than one degree of freedom.
    """
    if degrees < 1:
        raise ValueError(f"{degrees} degrees of freedom")
    if degrees > _EXACT_SUMS_UP_TO:
        return _t_expansion(Z_95, degrees)
    low, high = Z_95, 13.0
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _within_t(middle, degrees) < 0.95 else (low, middle)
    return low


def _within_t(value: float, degrees: int) -> float:
    angle = math.atan(value / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = total = cosine if odd else 1.0
    for step in range(2 + odd, degrees - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if degrees > 1 else 0.0))


def _t_expansion(z: float, degrees: int) -> float:
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))


def _half_width_of_mean(residuals: list[float]) -> float:
    """Of a mean, from its residuals in time order."""
    count = len(residuals)
    squares = math.fsum(map(mul, residuals, residuals))
    if count < _TOO_SHORT_TO_TELL_DEPENDENCE or squares == 0:
        return t_quantile_95(count - 1) * math.sqrt(squares / (count - 1) / count)
    dependence = _dependence(residuals, squares)
    fresh = [after - dependence * before for before, after in pairwise(residuals)]
    waves = min(_MOST_WAVES, max(4, round(0.2 * count ** (2 / 3))))
    variance = _slow_variance(fresh, waves) / (1 - dependence) ** 2
    return t_quantile_95(waves) * math.sqrt(variance / count)


def _dependence(residuals: list[float], squares: float) -> float:
    """Correlation of neighbours, free of its downward bias of (1 + 3 r) / n."""
    count = len(residuals)
    found = math.fsum(map(mul, residuals, islice(residuals, 1, None))) / squares
    found += (1 + 3 * found) / count
    return max(-_STRONGEST_DEPENDENCE, min(_STRONGEST_DEPENDENCE, found))


def _slow_variance(values: list[float], waves: int) -> float:
    """Mean squared weight of the slowest cosine waves; a constant has none."""
    count = len(values)
    total = 0.0
    for wave in range(1, waves + 1):
        weight = sum(map(mul, values, _cosine_wave(count, wave)))
        total += 2 * weight * weight / count
    return total / waves


@lru_cache(maxsize=4 * _MOST_WAVES)
def _cosine_wave(count: int, wave: int) -> array[float]:
    """Kept, because the phases of one bucket are means over the same cycles, or all but a few."""
    turn = math.pi * wave / count
    return array("d", (math.cos(turn * (at + 0.5)) for at in range(count)))


def _around(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half)


def _exp(exponent: float) -> float:
    return math.exp(exponent) if exponent < 700 else math.inf


def _log_distance_below(factor: Estimate) -> float:
    return math.inf if factor.low <= 0 else math.log(factor.value / factor.low)


def _positive(value: float) -> float:
    if not value > 0:
        raise InputError(f"a width must be positive, not {value}")
    return value
