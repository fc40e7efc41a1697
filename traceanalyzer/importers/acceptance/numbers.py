"""One acceptance number, in whatever definition it came, brought to our accept_len."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import number_in
from traceanalyzer.speculation.acceptance import AcceptanceReading
from traceanalyzer.speculation.conventions import (
    CONVENTIONS,
    Convention,
    Kind,
    conversion_of,
    find_convention,
    impossible,
    to_accept_len,
)

_OURS: Final = "traceanalyzer's definitions"
_PLAIN_DEFINITIONS: Final = {
    name: Convention(engine="", name=name, kind=kind, read_as=read_as, source=_OURS)
    for names, kind, read_as in (
        (
            ("bonus included", "accept len", "with bonus"),
            Kind.LENGTH,
            "tokens a request-cycle, bonus included",
        ),
        (
            ("bonus left out", "bonus excluded", "accepted drafts", "without bonus"),
            Kind.DRAFTS,
            "accepted drafts a request-cycle, bonus left out",
        ),
        (
            ("accepted over drafted", "acceptance rate"),
            Kind.SHARE_OF_STEPS,
            "accepted drafts over drafted tokens",
        ),
    )
    for name in names
}
_VERSION: Final = re.compile(r"v?(\d+\.\d+[\w.]*)\s+(.*)")
_OVERLAP: Final = "overlap"
SHARES: Final = frozenset(
    {
        Kind.SHARE_OF_SLOTS,
        Kind.SHARE_OF_STEPS_AND_BONUS,
        Kind.SHARE_OF_DRAFTS,
        Kind.SHARE_OF_STEPS,
    }
)


@dataclass(frozen=True, slots=True)
class Converted:
    """A number brought to our definition, with what `AcceptanceReading` says of it."""

    accept_len: float
    read_as: str
    conversion: str
    notes: tuple[str, ...]


def convert(
    convention: Convention,
    value: float,
    *,
    draft_tokens: int | None = None,
    verified_tokens: int | None = None,
) -> Converted:
    """Bring a number to accept_len; an impossible one is noted, not refused.

    Args:
        convention: What the number means.
        value: The number; a share is 0 to 1.
        draft_tokens: k, where known.
        verified_tokens: n, where known.

    Raises:
        InputError: The convention needs a length that is not known, or the value cannot be its.
    """
    accept_len = to_accept_len(
        convention, value, draft_tokens=draft_tokens, verified_tokens=verified_tokens
    )
    wrong = impossible(accept_len, draft_tokens)
    return Converted(
        accept_len,
        convention.read_as,
        conversion_of(convention),
        (*convention.notes, *([wrong] if wrong else [])),
    )


def is_overlap(version: str | None) -> bool | None:
    """True when a version text says that the overlap scheduler ran ("0.5.3 overlap")."""
    return True if version and _OVERLAP in version.lower().split() else None


def convention_of(definition: str) -> Convention:
    """The convention that a definition names.

    Args:
        definition: "bonus included", "bonus left out", "acceptance rate" (accepted over drafted),
            or an engine's own name for it, with its version where that matters:
            "SGLang accept len", "vLLM 0.8.5 mean acceptance length", "SGLang 0.5.3 overlap
            accept len".

    Raises:
        InputError: The definition is not known.
    """
    plain = _plain(definition)
    if plain in _PLAIN_DEFINITIONS:
        return _PLAIN_DEFINITIONS[plain]
    engines = sorted({row.engine for row in CONVENTIONS}, key=len, reverse=True)
    for engine in engines:
        if plain.startswith(_plain(engine) + " "):
            return _of_engine(engine, plain[len(engine) :].strip())
    raise InputError(
        f"the definition {definition!r} is not known",
        next_step="Say 'bonus included', 'bonus left out', 'acceptance rate' (accepted over "
        "drafted), or the engine with its name for the number ('vLLM mean acceptance length').",
    )


def _of_engine(engine: str, rest: str) -> Convention:
    version = None
    if (found := _VERSION.fullmatch(rest)) is not None:
        version, rest = found.groups()
    overlap = True if rest.startswith(_OVERLAP + " ") else None
    return find_convention(engine, rest.removeprefix(_OVERLAP + " "), version, overlap=overlap)


def reading_of_number(
    value: float,
    *,
    definition: str,
    draft_tokens: int | None = None,
    verified_tokens: int | None = None,
) -> AcceptanceReading:
    """Read a number that somebody reported.

    Args:
        value: The number; a share is 0 to 1.
        definition: What it means, as `convention_of` takes it.
        draft_tokens: k; a share needs it.
        verified_tokens: n; without it a chain's, k + 1.

    Returns:
        A reading whose notes say so when the number cannot be what the definition says.

    Raises:
        InputError: The definition is not known, is one by position, or needs `draft_tokens`; the
            value is no number, or no share.
    """
    convention = convention_of(definition)
    converted = convert(
        convention, value, draft_tokens=draft_tokens, verified_tokens=verified_tokens
    )
    return AcceptanceReading(
        source=f"the number {value:g} ({definition.strip()})",
        read_as=converted.read_as,
        conversion=converted.conversion,
        accept_len=converted.accept_len,
        draft_tokens=draft_tokens,
        notes=converted.notes,
    )


def parse_number(
    text: str, *, definition: str, draft_tokens: int | None = None
) -> AcceptanceReading:
    """Read a number from text ("2.25", "44.84 %") as `reading_of_number` does.

    Raises:
        InputError: The text is not one finite number, or as there.
    """
    value = number_in(text)
    if value is None:
        raise InputError(
            f"{text!r} is not a number", next_step="Write it like 2.25, with a decimal point."
        )
    is_per_cent = text.rstrip().endswith("%")
    if is_per_cent and convention_of(definition).kind not in SHARES:
        raise InputError(
            f"{text!r} is a share, and '{definition}' is a number of tokens",
            next_step="Say 'acceptance rate' if it is accepted drafts over drafted tokens.",
        )
    return reading_of_number(
        value / 100 if is_per_cent else value, definition=definition, draft_tokens=draft_tokens
    )


def _plain(text: str) -> str:
    return re.sub(r"[\s_]+", " ", text.strip().lower())
