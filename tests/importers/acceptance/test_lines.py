"""Lines of a log, however packed, and the figures in them."""

from __future__ import annotations

import gzip
import io
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance import lines as acceptance_lines
from traceanalyzer.importers.acceptance.lines import (
    LogText,
    fields_of,
    lines_of,
    number_in,
    shown,
    whole_number,
)

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = ["[10:00] Decode batch, #running-req: 3", "", "naïve: 2.25", "last"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_packing_does_not_matter(tmp_path: Path, end: str, encoding: str, packed: bool) -> None:
    content = end.join(PLAIN).encode(encoding)
    path = tmp_path / "server.log"
    path.write_bytes(gzip.compress(content) if packed else content)
    text = LogText(path)
    assert list(text) == list(enumerate(PLAIN, start=1))
    assert text.damage is None


def test_bytes_that_are_no_text_and_terminal_codes_are_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"\x1b[32maccept len: \x1b[1m2.25\x1b[0m,\xff \x1b]0;title\x07end\x1b\n")
    assert list(LogText(path)) == [(1, "accept len: 2.25,\ufffd end")]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n\x1b", exclude_categories=["Cs"]))))
@examples(0.2)
def test_lines_without_terminal_codes_come_back_as_they_are(lines: list[str]) -> None:
    text = io.StringIO("".join(f"{line}\r\n" for line in lines), newline=None)
    assert list(lines_of(text)) == list(enumerate(lines, start=1))


@pytest.mark.parametrize("kept", [0.3, 0.7, 0.99])
def test_a_gzip_stream_that_breaks_off_ends_there(tmp_path: Path, kept: float) -> None:
    lines = [f"line {number} {number * 7919 % 10007}" for number in range(20_000)]
    content = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "server.log.gz"
    path.write_bytes(content[: int(len(content) * kept)])
    text = LogText(path)
    found = [line for _, line in text]
    assert 0 < len(found) < len(lines)
    assert found[:-1] == lines[: len(found) - 1]
    assert text.damage is not None
    assert "gzip" in text.damage


def test_a_line_without_end_is_held_only_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance_lines, "LONGEST_LINE", 10)
    text = io.StringIO("short\n" + "x" * 35 + "\nafter\n")
    assert list(lines_of(text)) == [(1, "short"), (2, "x" * 10), (3, "after")]


def test_a_file_that_is_not_there_or_a_folder_is_an_input_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.log"):
        with pytest.raises(InputError, match="cannot be read"):
            list(LogText(path))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2.25", 2.25),
        (" 12,345.5 ", 12345.5),
        ("1_000", 1000.0),
        ("93.3%", 93.3),
        ("1.0e+06", 1e6),
        ("-0.5", -0.5),
        ("2,25", None),
        ("1,23,456", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("2.25.1", None),
        ("", None),
        (None, None),
        ("2.25 tokens", None),
    ],
)
def test_numbers(text: str | None, value: float | None) -> None:
    assert number_in(text) == value


@given(st.floats(0, 1e15), st.booleans())
@examples(0.3)
def test_numbers_read_back_with_and_without_grouping(value: float, grouped: bool) -> None:
    text = f"{value:,.3f}" if grouped else f"{value:.3f}"
    found = number_in(text)
    assert found is not None
    assert math.isclose(found, value, abs_tol=0.0006, rel_tol=1e-12)


def test_whole_numbers() -> None:
    assert whole_number("1,234") == 1234
    assert whole_number("3.5") is None
    assert whole_number("-3") is None


def test_fields_keep_lists_and_leave_out_an_unfinished_end() -> None:
    text = "accept len: 2.25, rates: 0.8, 0.6, block accept len: 1.50, gen (token/s): 3.1, cut: 1"
    assert fields_of(text) == {
        "accept len": ["2.25"],
        "rates": ["0.8", "0.6"],
        "block accept len": ["1.50"],
        "gen (token/s)": ["3.1"],
    }
    assert fields_of("a: 1, a: 2, ") == {"a": ["1"]}


def test_a_quoted_line_is_short_and_printable() -> None:
    assert shown("  a\x00b  ") == "a?b"
    assert len(shown("y" * 1000)) == 120
