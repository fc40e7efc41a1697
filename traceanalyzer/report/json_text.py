"""A report as JSON that people read too: indented, but long tables with one row a line."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def json_text(report: Any, *, rows: Sequence[str]) -> bytes:
    """A dataclass as a JSON object.

    Args:
        report: The dataclass.
        rows: Fields that hold lists to be written with one element a line; indented, thousands of
            rows would take ten times as many lines and twice the bytes.
    """
    members = []
    for each in fields(report):
        value = getattr(report, each.name)
        text = _lines(value) if each.name in rows else _indented(value)
        members.append(msgspec.json.encode(each.name) + b": " + text)
    return b"{\n  " + b",\n  ".join(members) + b"\n}"


def _indented(value: Any) -> bytes:
    # No text in JSON holds a line end of its own.
    formatted: bytes = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return formatted.replace(b"\n", b"\n  ")


def _lines(values: Iterable[Any]) -> bytes:
    lines = [msgspec.json.encode(value) for value in values]
    return b"[\n    " + b",\n    ".join(lines) + b"\n  ]" if lines else b"[]"
