"""Ratios of the report's figures; an interval is given only where every part has one.

A missing interval means that nothing is known of the doubt, which a ratio must not hide.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traceanalyzer.report import Estimated
from traceanalyzer.report.comparison import Figure
from traceanalyzer.speculation.confidence import Estimate, product

if TYPE_CHECKING:
    from collections.abc import Sequence


def exact(value: float) -> Estimated:
    """A number without doubt."""
    return Estimated(value, value, value)


def product_of_known(*factors: tuple[Estimated, float]) -> Estimated:
    """The product of independent figures above 0, each to its exponent.

    Returns:
        With an interval where all have one; without where one reaches 0 below a fraction bar.
    """
    intervals = [_interval(found) for found, _ in factors]
    value = math.prod(found.value**exponent for found, exponent in factors)
    known = [each for each in intervals if each is not None]
    if len(known) < len(factors):
        return Estimated(value)
    found = product(*zip(known, (exponent for _, exponent in factors), strict=True))
    if not math.isfinite(found.high):
        return Estimated(value)
    return Estimated(found.value, found.low, found.high)


def figure(a: Estimated | None, b: Estimated | None) -> Figure:
    """Both figures, and their ratio where both are above 0."""
    if a is None or b is None or a.value <= 0 or b.value <= 0:
        return Figure(a, b)
    return Figure(a, b, product_of_known((b, 1.0), (a, -1.0)))


def over(found: Estimated | None, divisor: Estimated | None) -> Estimated | None:
    """One figure over another that is above 0; None where either is missing."""
    if found is None or divisor is None:
        return None
    if found.value <= 0:
        return Estimated(found.value / divisor.value)
    return product_of_known((found, 1.0), (divisor, -1.0))


def inverse(found: Estimated) -> Estimated:
    """1 over a figure above 0."""
    return product_of_known((found, -1.0))


def weighted_mean(parts: Sequence[tuple[float, Estimated]], *, independent: bool) -> Estimated:
    """Mean of figures by their weights.

    Distances to the ends of the intervals add up in squares when the figures are independent
    (MOVER: Zou and Donner 2008, Stat. Med. 27), else plainly, which is never too narrow.
    """
    whole = math.fsum(weight for weight, _ in parts)
    value = math.fsum(weight * found.value for weight, found in parts) / whole
    add = math.hypot if independent else lambda *each: math.fsum(each)
    known = [(weight / whole, each) for weight, found in parts if (each := _interval(found))]
    if len(known) < len(parts):
        return Estimated(value)
    below = add(*(weight * (each.value - each.low) for weight, each in known))
    above = add(*(weight * (each.high - each.value) for weight, each in known))
    return Estimated(value, value - below, value + above)


def _interval(found: Estimated) -> Estimate | None:
    if found.low is None or found.high is None:
        return None
    return Estimate(found.value, found.low, found.high)
