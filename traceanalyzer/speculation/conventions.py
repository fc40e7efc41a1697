"""Who means what by an acceptance number, and how does it become our accept_len?

The same words mean different things in different engines, and in different versions of one.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import InputError
from traceanalyzer.speculation.acceptance import (
    AcceptanceCounts,
    conditional_from_survival,
    survival_from_conditional,
)
from traceanalyzer.speculation.known_conventions import CONVENTIONS, Convention, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Kind",
    "conversion_of",
    "find_convention",
    "from_accept_len",
    "from_survival",
    "impossible",
    "to_accept_len",
    "to_counts",
    "to_survival",
]

_FLOAT_NOISE: Final = 1e-9
_BONUS_COUNTED: Final = {
    Kind.LENGTH: 1,
    Kind.DRAFTS: 0,
    Kind.BONUS_TWICE: 2,
    Kind.SHARE_OF_SLOTS: 1,
    Kind.SHARE_OF_STEPS_AND_BONUS: 1,
    Kind.SHARE_OF_DRAFTS: 0,
    Kind.SHARE_OF_STEPS: 0,
}
_CONVERSIONS: Final = {
    Kind.LENGTH: "none",
    Kind.DRAFTS: "+ 1: the bonus token was left out",
    Kind.BONUS_TWICE: "- 1: the bonus token was counted twice",
    Kind.SHARE_OF_SLOTS: "x verified tokens: it was a share of them, bonus included",
    Kind.SHARE_OF_STEPS_AND_BONUS: "x (draft steps + 1): it was a share of them, bonus included",
    Kind.SHARE_OF_DRAFTS: "x drafts verified, + 1: it was a share of them, bonus left out",
    Kind.SHARE_OF_STEPS: "x draft tokens, + 1: it was a share of them, bonus left out",
    Kind.SURVIVAL: "1 + their sum: shares that reached each position",
    Kind.CONDITIONAL: "multiplied up: each was conditional on the positions before",
    Kind.HISTOGRAM: "+ 1: the counts leave the bonus token out",
}


def find_convention(
    engine: str, name: str, version: str | None = None, *, overlap: bool | None = None
) -> Convention:
    """What `engine` means by `name` in `version`.

    Args:
        engine: As in `Convention.engine`; case, spaces and dashes do not matter.
        name: As in `Convention.name` or `other_names`, alike.
        version: "0.5.9", "v0.10.2", "0.5.3.post3"; None when unknown.
        overlap: Whether the overlap scheduler ran; None when unknown.

    Returns:
        The convention of that version; notes are added where a version was not read or more than
        one reading is possible. An unknown version is read as the newest.

    Raises:
        InputError: The engine, the name or the version's form is unknown.
    """
    rows = _rows_of(engine, name)
    plain = [row for row in rows if not row.overlap]
    wanted = None if version is None else _numbers(version)
    special = [row for row in rows if row.overlap and wanted is not None and _read_in(row, wanted)]
    if overlap and special:
        return special[0]
    found = plain[-1] if wanted is None else _nearest(plain, wanted)
    notes = list(found.notes)
    if wanted is None and len(rows) > 1:
        others = "; ".join(f"{row.versions}: {row.read_as}" for row in rows if row is not found)
        notes.append(f"version unknown, read as in {found.versions} ({others})")
    elif wanted is not None and not _read_in(found, wanted):
        notes.append(f"not read in {version}: taken as in {found.versions}")
    if overlap is None:
        notes += [f"under the overlap scheduler it would be {row.read_as}" for row in special]
    return replace(found, notes=tuple(notes))


def conversion_of(convention: Convention) -> str:
    """What is done to the number to make it accept_len, in words."""
    return _CONVERSIONS[convention.kind]


def to_accept_len(
    convention: Convention,
    value: float,
    *,
    draft_tokens: int | None = None,
    verified_tokens: int | None = None,
) -> float:
    """Our accept_len, bonus included, from a single number.

    Args:
        convention: What the number means.
        value: The number; shares are 0 to 1.
        draft_tokens: Draft steps k; without it a chain's, verified tokens - 1.
        verified_tokens: Verified tokens n; without it a chain's, draft tokens + 1.

    Raises:
        InputError: The convention is one by position, a needed length is missing, or the value is
            no number or no share.
    """
    bonus, divisor = _terms(convention, draft_tokens, verified_tokens)
    if not math.isfinite(value) or (divisor is not None and not 0 <= value <= 1):
        raise InputError(
            f"{value:g} cannot be {_called(convention)}",
            next_step="A share is 0 to 1: divide per cent by 100." if divisor else None,
        )
    return value * (divisor or 1) + (1 - bonus)


def from_accept_len(
    convention: Convention,
    accept_len: float,
    *,
    draft_tokens: int | None = None,
    verified_tokens: int | None = None,
) -> float:
    """What the engine would print for our accept_len: the inverse of `to_accept_len`."""
    bonus, divisor = _terms(convention, draft_tokens, verified_tokens)
    return (accept_len - (1 - bonus)) / (divisor or 1)


def to_survival(convention: Convention, values: Sequence[float]) -> tuple[float, ...]:
    """P(accepted >= i) from numbers by position.

    Raises:
        InputError: The convention is not one by position, or a number is no share.
    """
    if not all(0 <= each <= 1 for each in values):
        raise InputError(
            f"{_called(convention)} must be shares from 0 to 1",
            next_step="Divide per cent by 100.",
        )
    if convention.kind is Kind.SURVIVAL:
        return tuple(values)
    if convention.kind is Kind.CONDITIONAL:
        return survival_from_conditional(values)
    raise InputError(f"{_called(convention)} is not one share a position")


def from_survival(convention: Convention, survival: Sequence[float]) -> tuple[float, ...]:
    """What the engine would print by position: the inverse of `to_survival`.

    Raises:
        InputError: The convention is not one by position.
    """
    if convention.kind is Kind.SURVIVAL:
        return tuple(survival)
    if convention.kind is Kind.CONDITIONAL:
        return tuple(each or 0.0 for each in conditional_from_survival(survival))
    raise InputError(f"{_called(convention)} is not one share a position")


def to_counts(
    convention: Convention, histogram: Sequence[int], draft_tokens: int
) -> AcceptanceCounts:
    """The counts behind a histogram of accepted drafts; its inverse is their `histogram`.

    Raises:
        InputError: The convention is not a histogram, or the counts cannot be.
    """
    if convention.kind is not Kind.HISTOGRAM:
        raise InputError(f"{_called(convention)} is not a histogram")
    return AcceptanceCounts.from_histogram(draft_tokens, histogram)


def impossible(accept_len: float, draft_tokens: int | None) -> str | None:
    """Why an accept_len cannot be, or None when it can.

    Every verify commits the bonus token and at most k drafts more.
    """
    if not 0 <= accept_len < math.inf:
        return f"{accept_len} is not a number of tokens"
    if accept_len < 1 - _FLOAT_NOISE:
        return (
            f"{accept_len:.4g} tokens a cycle is below 1: it leaves the bonus token out "
            f"({accept_len + 1:.4g} with it), or cycles were counted more than once"
        )
    if draft_tokens is not None and accept_len > draft_tokens + 1 + _FLOAT_NOISE:
        return (
            f"{accept_len:.4g} tokens a cycle is above {draft_tokens + 1}, what {draft_tokens} "
            f"drafts and the bonus token give: the bonus was counted twice "
            f"({accept_len - 1:.4g} without), or more tokens were drafted"
        )
    return None


def _terms(
    convention: Convention, draft_tokens: int | None, verified_tokens: int | None
) -> tuple[int, int | None]:
    """(how often the bonus is counted, what the tokens are divided by)."""
    kind = convention.kind
    if kind not in _BONUS_COUNTED:
        raise InputError(
            f"{_called(convention)} is one number a position",
            next_step="Convert all positions at once.",
        )
    if kind in {Kind.LENGTH, Kind.DRAFTS, Kind.BONUS_TWICE}:
        return _BONUS_COUNTED[kind], None
    steps = draft_tokens if draft_tokens is not None else _shift(verified_tokens, -1)
    slots = verified_tokens if verified_tokens is not None else _shift(draft_tokens, 1)
    by_slots = kind in {Kind.SHARE_OF_SLOTS, Kind.SHARE_OF_DRAFTS}
    drafts = _shift(slots, -1) if by_slots else steps
    if drafts is None or drafts < 1:
        raise InputError(
            f"{_called(convention)} is a share of drafts: how many were there?",
            next_step="Say how many tokens were drafted, or verified, in a cycle.",
        )
    return _BONUS_COUNTED[kind], drafts + _BONUS_COUNTED[kind]


def _shift(number: int | None, by: int) -> int | None:
    return None if number is None else number + by


def _rows_of(engine: str, name: str) -> list[Convention]:
    rows = [row for row in CONVENTIONS if _plain(row.engine) == _plain(engine)]
    if not rows:
        known = ", ".join(dict.fromkeys(row.engine for row in CONVENTIONS))
        raise InputError(
            f"no acceptance numbers of {engine} are known", next_step=f"Known: {known}"
        )
    named = [row for row in rows if _plain(name) in map(_plain, (row.name, *row.other_names))]
    if not named:
        known = ", ".join(dict.fromkeys(row.name for row in rows))
        raise InputError(
            f"{engine} has no acceptance number called {name} that is known",
            next_step=f"Known: {known}",
        )
    return named


def _nearest(rows: Sequence[Convention], version: tuple[int, ...]) -> Convention:
    """The row that was read in a version; between two the later one, outside all the end one."""
    later = [row for row in rows if not row.newest or _numbers(row.newest) >= version]
    return later[0] if later else rows[-1]


def _read_in(row: Convention, version: tuple[int, ...]) -> bool:
    since = not row.oldest or _numbers(row.oldest) <= version
    return since and (not row.newest or version <= _numbers(row.newest))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)(?!\d)", version.strip())
    if found is None:
        raise InputError(f"{version!r} is no version", next_step="Write it like 0.5.9.")
    numbers = [int(each) for each in found[1].split(".")]
    return (*numbers, 0, 0)[:3]


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text.strip().lower())


def _called(convention: Convention) -> str:
    """Whose number it is, where an engine calls it so."""
    if not convention.engine:
        return f"a number that is {convention.name!r}"
    return f"{convention.engine}'s {convention.name}"
