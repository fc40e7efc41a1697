"""How figures are written where a person reads them."""

from __future__ import annotations

from typing import Final

NS_PER_MS: Final = 1_000_000


def milliseconds(ns: float, *, decimals: int = 3) -> str:
    """Nanoseconds as milliseconds, with thousands apart."""
    return f"{ns / NS_PER_MS:,.{decimals}f}"


def duration(ns: float) -> str:
    """A time in three digits and the unit that suits it: ns, us, ms or s."""
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6)):
        if abs(ns) < 999.5 * size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e9:,.3g} s" if abs(ns) < 999.5e9 else f"{ns / 1e9:,.0f} s"


def decimals_for(ns: float) -> int:
    """Decimals of a millisecond with which a time shows four digits."""
    return 2 if ns >= 10 * NS_PER_MS else 3 if ns >= NS_PER_MS else 4


def percent(share: float) -> str:
    """A share of 0..1 in per cent."""
    return f"{100 * share:.1f} %"


def count(number: int) -> str:
    """A whole number, with thousands apart."""
    return f"{number:,}"


def safe(text: str) -> str:
    """A name from a trace without control characters, which could steer a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
