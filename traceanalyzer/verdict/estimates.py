"""Between the report's figures (ns, interval perhaps unknown) and the theory's (ms, known)."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from traceanalyzer.report import Estimated
from traceanalyzer.speculation.confidence import Estimate, product

if TYPE_CHECKING:
    from collections.abc import Sequence

NS_PER_MS = 1e6
BOUNDLESS = 1e6


def as_ms(found: Estimated) -> Estimate:
    """A time of the report in ms; without an interval it counts as exact."""
    return _estimate(found, 1 / NS_PER_MS)


def plain(found: Estimated) -> Estimate:
    """A number of the report; without an interval it counts as exact."""
    return _estimate(found, 1.0)


def _estimate(found: Estimated, factor: float) -> Estimate:
    low = found.value if found.low is None else found.low
    high = found.value if found.high is None else found.high
    return Estimate(found.value * factor, low * factor, high * factor)


def estimated(found: Estimate, factor: float = 1.0) -> Estimated:
    """A number of the theory for the report, without an interval of no width.

    JSON knows no infinity, and a missing end would read as certainty: an interval without an end
    ends at `BOUNDLESS` times the value.
    """
    if found.low == found.high:
        return Estimated(found.value * factor)
    high = found.high if isfinite(found.high) else BOUNDLESS * abs(found.value)
    return Estimated(found.value * factor, found.low * factor, high * factor)


def product_of(factors: Sequence[tuple[Estimated, float]]) -> Estimated:
    """The product of independent figures to their exponents."""
    return estimated(product(*((plain(found), exponent) for found, exponent in factors)))
