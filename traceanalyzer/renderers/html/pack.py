"""Columns of integers as few bytes, in a form that a page decodes in one pass.

Each column is stored at the narrowest width that holds it, as differences where that helps, and
its bytes are shuffled (all lowest bytes first), which deflate packs a quarter smaller. A number
that JavaScript could not hold exactly is an error, never a wrong number.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

EXACT: Final = 1 << 53
"""Integers up to here are exact in JavaScript."""

_LENGTH: Final = struct.Struct("<I")
_WIDTHS: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Column:
    """Integers to pack; `differences` suits columns that change little from row to row."""

    values: Int64s
    differences: bool = False


def pack(header: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    """Pack columns behind a header.

    Args:
        header: Anything that JSON can say; the key "columns" is taken.
        columns: By name.

    Returns:
        Length of the header (4 bytes, little endian), the header as JSON, the columns. In the
        header `columns` tells of each: width, length, whether it holds differences, whether signs
        are folded in (0, -1, 1, -2 as 0, 1, 2, 3), and where its bytes begin.

    Raises:
        InputError: A number or a difference exceeds `EXACT`.
    """
    told, body, offset = {}, [], 0
    for name, column in columns.items():
        width, folded, data = _packed(name, column)
        told[name] = [width, column.values.size, int(column.differences), int(folded), offset]
        body.append(data)
        offset += len(data)
    text = json.dumps({**header, "columns": told}, ensure_ascii=True, separators=(",", ":"))
    head = text.encode("ascii")
    return b"".join((_LENGTH.pack(len(head)), head, *body))


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Int64s]]:
    """The header and the columns of packed bytes."""
    (length,) = _LENGTH.unpack_from(data)
    begin = _LENGTH.size + length
    header = json.loads(data[_LENGTH.size : begin])
    columns = {}
    for name, (width, size, differences, folded, offset) in header.pop("columns").items():
        raw = np.frombuffer(data, np.uint8, width * size, begin + offset)
        values = np.zeros(size, np.int64)
        for place, plane in enumerate(raw.reshape(width, size)):
            values |= plane.astype(np.int64) << (8 * place)
        if folded:
            values = (values >> 1) ^ -(values & 1)
        columns[name] = np.cumsum(values) if differences else values
    return header, columns


def _packed(name: str, column: Column) -> tuple[int, bool, bytes]:
    values = column.values
    _check(name, values)
    if column.differences:
        values = np.diff(values, prepend=0)
    folded = bool(values.size) and bool(values.min() < 0)
    if folded:
        values = (values << 1) ^ (values >> 63)
    _check(name, values)
    highest = int(values.max(initial=0))
    width = next(width for width in _WIDTHS if highest < 1 << (8 * width))
    narrow = values.astype(f"<u{width}")
    return width, folded, narrow.view(np.uint8).reshape(-1, width).T.tobytes()


def _check(name: str, values: Int64s) -> None:
    if values.size and (values.max() > EXACT or values.min() < -EXACT):
        raise InputError(
            f"{name} holds a number beyond 2^53, which a page cannot show exactly",
            next_step="Look for a broken timestamp or id in the trace.",
        )
