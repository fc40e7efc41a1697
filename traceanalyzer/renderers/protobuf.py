"""Protocol buffers written with numpy: one message, or a column of many at once.

Wire format: https://protobuf.dev/programming-guides/encoding. Columns write varints at a fixed
width, filled up with zero groups; every reader takes those.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_LENGTH_WIDTH: Final = 2
"""Bytes that hold the length of a message in a column: up to 16,383."""


def varint(number: int) -> bytes:
    """A number >= 0 in groups of seven bits, the lowest first."""
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def number_field(field: int, number: int) -> bytes:
    """An integer, boolean or enum field; the number is >= 0."""
    return _number_key(field) + varint(number)


def bytes_field(field: int, content: bytes | str) -> bytes:
    """A text or message field."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return _bytes_key(field) + varint(len(data)) + data


def _number_key(field: int) -> bytes:
    return varint(field << 3 | _VARINT)


def _bytes_key(field: int) -> bytes:
    return varint(field << 3 | _BYTES)


@dataclass(frozen=True, slots=True)
class Messages:
    """The same part of many messages, one a row.

    Attributes:
        content: Bytes, shape (messages, width).
        kept: Which of them are written, of the same shape.
    """

    content: NDArray[np.uint8]
    kept: NDArray[np.bool_]

    def __bytes__(self) -> bytes:
        """All messages one after another."""
        return self.content[self.kept].tobytes()


def fixed_part(part: bytes, size: int) -> Messages:
    """The same bytes in each of `size` messages."""
    content = np.broadcast_to(np.frombuffer(part, np.uint8), (size, len(part)))
    return Messages(content, np.ones((size, len(part)), bool))


def number_column(
    field: int, numbers: Int64s, present: NDArray[np.bool_] | None = None
) -> Messages:
    """An integer field.

    Args:
        field: Its number.
        numbers: Values >= 0.
        present: Which messages have it; all when None. Values of the others don't matter.
    """
    if present is not None:
        numbers = np.where(present, numbers, 0)
    return _field(_number_key(field), _padded(numbers), present)


def fixed64_column(
    field: int, numbers: Int64s, present: NDArray[np.bool_] | None = None
) -> Messages:
    """A field of type fixed64; arguments as for `number_column`."""
    groups = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)
    return _field(varint(field << 3 | _FIXED64), groups, present)


def message_column(
    field: int, parts: Sequence[Messages], present: NDArray[np.bool_] | None = None
) -> Messages:
    """A field that holds a message made of parts, shorter than 16,384 bytes.

    Args:
        field: Its number.
        parts: What the inner messages consist of, in order.
        present: Which messages have it; all when None.
    """
    inner = row_by_row(parts)
    if present is not None:
        inner = Messages(inner.content, inner.kept & present[:, None])
    length = _padded(inner.kept.sum(axis=1), _LENGTH_WIDTH)
    return row_by_row([_field(_bytes_key(field), length, present), inner])


def numbered_texts(field: int, of_entry: tuple[int, int], texts: Sequence[str]) -> bytes:
    """Messages that number texts from 1; there may be millions.

    Args:
        field: The field that holds each message.
        of_entry: The message's own fields, for the number and for the text.
        texts: What is numbered.
    """
    data = [text.encode("utf-8", "replace") for text in texts]
    size = np.fromiter(map(len, data), np.int64, len(data))
    number, text = of_entry
    inner = row_by_row(
        [
            number_column(number, np.arange(1, size.size + 1)),
            _field(_bytes_key(text), _padded(size), None),
        ]
    )
    outer = _field(_bytes_key(field), _padded(inner.content.shape[1] + size), None)
    width = outer.content.shape[1] + inner.content.shape[1]
    heads = bytes(row_by_row([outer, inner]))
    each_head = (heads[at : at + width] for at in range(0, len(heads), width))
    return b"".join(chain.from_iterable(zip(each_head, data, strict=True)))


def row_by_row(parts: Sequence[Messages]) -> Messages:
    """Each row's parts one after another."""
    return Messages(
        np.concatenate([part.content for part in parts], axis=1),
        np.concatenate([part.kept for part in parts], axis=1),
    )


def _field(key: bytes, value: NDArray[np.uint8], present: NDArray[np.bool_] | None) -> Messages:
    head = np.broadcast_to(np.frombuffer(key, np.uint8), (value.shape[0], len(key)))
    content = np.concatenate((head, value), axis=1)
    kept = np.ones(content.shape, bool)
    return Messages(content, kept if present is None else kept & present[:, None])


def _padded(numbers: Int64s, width: int | None = None) -> NDArray[np.uint8]:
    """Varints of one width, that of the largest number when None: shape (numbers, width)."""
    lowest, highest = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    if width is None:
        width = len(varint(highest))
    assert 0 <= lowest <= highest < 1 << (7 * width)
    groups = numbers[:, None] >> np.arange(0, 7 * width, 7)
    content = (groups & 127).astype(np.uint8)
    content[:, :-1] |= 128
    return content
