"""Nanoseconds of the microseconds that Kineto writes, as exact as their text.

How a trace writes its times decides what holds them: whole numbers, float64 up to some days, and
text since 1970. Each function here says so where a time does not fit, or is in doubt.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

NO_TIME: Final = int(np.iinfo(np.int64).min)
"""Stands for a time or duration that the event does not state."""
_LATEST_NS: Final = 1 << 62  # a start and a duration below it add up inside int64
_FLOAT_SLACK_NS: Final = 1e-9  # above the rounding of a product below 1,000
_FEW_US: Final = float(1 << 41)

Nanoseconds = npt.NDArray[np.int64]


def _finer_than_ns(key: bytes) -> re.Pattern[bytes]:
    """Finds a number of that key with more than three decimals, or with an exponent."""
    return re.compile(rb'"' + key + rb'"\s*+:\s*+-?\d++(?:\.\d{0,3}+)?+[\deE]')


@dataclass(frozen=True, slots=True)
class Written:
    """Where a column of numbers was read: the text of its piece, and what finds fine ones in it."""

    text: bytes
    finer_than_ns: re.Pattern[bytes]


_MICROSECONDS: Final = re.compile(rb"\d{1,16}+(?:\.\d{1,3}+)?+(?:,\d{1,16}+(?:\.\d{1,3}+)?+)*+")
_THREE_DECIMALS: Final = re.compile(rb"\d{1,15}+\.\d{3}(?:,\d{1,15}+\.\d{3})*+")
FINE_START: Final = _finer_than_ns(b"ts")
FINE_DURATION: Final = _finer_than_ns(b"dur")


def integer_ns(microseconds: Sequence[int], _: Written) -> Nanoseconds | None:
    """Nanoseconds of whole microseconds."""
    try:
        values = np.frombuffer(array("q", microseconds), dtype=np.int64)
    except OverflowError:
        return None
    stated = values != NO_TIME
    if np.any(np.abs(values[stated]) >= _LATEST_NS // 1000):
        return None
    return np.where(stated, values * 1000, NO_TIME)


def float_ns(microseconds: Sequence[float], written: Written) -> Nanoseconds | None:
    """Nanoseconds of decimal texts that were read as float64.

    A value stands for any text up to half a float64 step away. It is used when all of those round
    to one nanosecond, as texts of whole nanoseconds do below 2**41 us (25 days). Up to 2**43 us
    steps are under 1 ns: no two texts of whole nanoseconds share a value, so it is also used when
    it is the float64 nearest to a whole nanosecond and no text in the piece is finer.

    Returns:
        None when the nanoseconds of one text are in doubt.
    """
    values = np.frombuffer(array("d", microseconds), dtype=np.float64)
    quick = _all_far_from_halves(values)
    return _float_ns(values, written) if quick is None else quick


def _all_far_from_halves(values: npt.NDArray[np.float64]) -> Nanoseconds | None:
    """The same for values of which each is stated and rounds to one nanosecond at first sight."""
    if not len(values):
        return np.empty(0, dtype=np.int64)
    largest = max(float(values.max()), -float(values.min()))
    if not largest < _FEW_US:  # or one of them is not a number
        return None
    scaled = values * 1000.0
    rounded = np.rint(scaled)
    # The text may be half a step away from the value, and the product is rounded to such a step.
    reach_ns = float(np.spacing(largest)) * 1024.0 + _FLOAT_SLACK_NS
    scaled -= rounded
    if max(float(scaled.max()), -float(scaled.min())) + reach_ns >= 0.5:
        return None
    return rounded.astype(np.int64)


def _float_ns(values: npt.NDArray[np.float64], written: Written) -> Nanoseconds | None:
    stated = ~np.isnan(values)
    known = values[stated]
    if np.any(np.abs(known) >= float(1 << 43)):
        return None
    whole = np.floor(known)
    fraction_ns = (known - whole) * 1000.0
    rounded_ns = np.rint(fraction_ns)
    nanoseconds = (whole * 1000.0 + rounded_ns).astype(np.int64)
    reach_ns = np.spacing(np.abs(known)) * 500.0 + _FLOAT_SLACK_NS
    one_rounding = np.abs(fraction_ns - rounded_ns) + reach_ns < 0.5
    if not one_rounding.all():
        nearest = one_rounding | (nanoseconds / 1000.0 == known)
        if not nearest.all() or written.finer_than_ns.search(written.text):
            return None
    result = np.full(values.shape, NO_TIME, dtype=np.int64)
    result[stated] = nanoseconds
    return result


def text_ns(microseconds: Sequence[msgspec.Raw], _: Written) -> Nanoseconds | None:
    """Nanoseconds of texts with up to three decimals: since 1970 they are beyond float64."""
    text = b",".join(microseconds)
    if not text:
        return None if microseconds else np.empty(0, dtype=np.int64)
    if _THREE_DECIMALS.fullmatch(text) is not None:  # as Kineto writes all of them
        whole_ns = np.fromstring(text.replace(b".", b""), dtype=np.int64, sep=",")
        return whole_ns if whole_ns.max() < _LATEST_NS else None
    if _MICROSECONDS.fullmatch(text) is None:
        return None
    parts = [each.partition(b".") for each in text.split(b",")]
    nanoseconds = [int(whole + part.ljust(3, b"0")) for whole, _, part in parts]
    return np.array(nanoseconds, dtype=np.int64) if max(nanoseconds) < _LATEST_NS else None


def decimal_ns(microseconds: Sequence[Decimal], _: Written) -> Nanoseconds | None:
    """Nanoseconds of any decimal number; NO_TIME for what int64 cannot hold."""
    return np.array([_rounded_ns(value) for value in microseconds], dtype=np.int64)


def _rounded_ns(microseconds: Decimal) -> int:
    """The nearest nanosecond, ties to even; NO_TIME for what int64 cannot hold."""
    if not microseconds.is_finite() or microseconds.adjusted() > 15:
        return NO_TIME
    nanoseconds = int((microseconds * 1000).to_integral_value(ROUND_HALF_EVEN))
    return nanoseconds if abs(nanoseconds) < _LATEST_NS else NO_TIME
