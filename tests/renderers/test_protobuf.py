"""What numpy writes as protocol buffers is what was meant, by a reader of the wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.renderers.protobuf import (
    bytes_field,
    fixed64_column,
    fixed_part,
    message_column,
    number_column,
    number_field,
    numbered_texts,
    row_by_row,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

numbers = st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1))
fields = st.integers(1, 2_000)
rows = st.lists(st.tuples(numbers, st.booleans(), numbers), min_size=1, max_size=5)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and the place after it."""
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def read(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of a message."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        value: int | bytes
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 1:
            value, at = int.from_bytes(data[at : at + 8], "little"), at + 8
        else:
            assert key & 7 == 2
            length, at = read_varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length
        yield key >> 3, value


@examples(0.3)
@given(st.lists(st.tuples(fields, st.one_of(numbers, st.binary(max_size=300), st.text()))))
def test_single_fields(content: list[tuple[int, int | bytes | str]]) -> None:
    data = b"".join(
        number_field(field, value) if isinstance(value, int) else bytes_field(field, value)
        for field, value in content
    )
    wanted = [
        (field, value.encode() if isinstance(value, str) else value) for field, value in content
    ]
    assert list(read(data)) == wanted


def test_text_that_is_no_unicode_is_written_all_the_same() -> None:
    assert list(read(bytes_field(1, "a\ud800b"))) == [(1, b"a?b")]


@examples(0.3)
@given(fields, fields, fields, st.lists(st.text(max_size=20)), st.integers(0, 20_000))
def test_numbered_texts(field: int, number: int, text: int, texts: list[str], long: int) -> None:
    written = [*texts, "x" * long, "a\ud800b"]
    data = numbered_texts(field, (number, text), written)
    wanted = [
        [(number, place), (text, each.encode("utf-8", "replace"))]
        for place, each in enumerate(written, 1)
    ]
    entries = list(read(data))
    assert [place for place, _ in entries] == [field] * len(written)
    assert [list(read(each)) for _, each in entries if isinstance(each, bytes)] == wanted
    assert numbered_texts(field, (number, text), []) == b""


@examples(0.3)
@given(rows, fields, fields, st.binary(max_size=8))
def test_columns(table: list[tuple[int, bool, int]], outer: int, field: int, part: bytes) -> None:
    values = np.array([row[0] for row in table], np.int64)
    present = np.array([row[1] for row in table], bool)
    wide = np.array([row[2] for row in table], np.int64)
    inner = [
        fixed_part(bytes_field(field, part), values.size),
        number_column(field, values),
        fixed64_column(field, wide, present),
    ]
    optional = message_column(field, [number_column(1, values, present)], present)
    found = list(read(bytes(message_column(outer, [*inner, optional]))))
    assert [number for number, _ in found] == [outer] * len(table)
    for (value, there, fixed), (_, message) in zip(table, found, strict=True):
        assert isinstance(message, bytes)
        wanted: list[tuple[int, int | bytes]] = [(field, part), (field, value)]
        told = list(read(message))
        if there:
            assert list(read(told.pop()[1])) == [(1, value)]  # type: ignore[arg-type]
            wanted.append((field, fixed))
        assert told == wanted


def test_rows_stand_one_after_another() -> None:
    two = row_by_row([number_column(1, np.array([5, 6])), number_column(2, np.array([7, 300]))])
    assert list(read(bytes(two))) == [(1, 5), (2, 7), (1, 6), (2, 300)]


def test_an_empty_column_is_empty() -> None:
    nothing = np.zeros(0, np.int64)
    assert bytes(message_column(1, [number_column(1, nothing)])) == b""


@pytest.mark.parametrize("number", [0, 127, 128, (1 << 63) - 1])
def test_varints_are_as_short_as_can_be(number: int) -> None:
    assert read_varint(varint(number), 0) == (number, max(1, -(-number.bit_length() // 7)))
