"""Lines of a log, however they were packed, and the figures that stand in them.

A file is streamed: only one line, and never more than `LONGEST_LINE` characters of it, is in
memory at a time.
"""

from __future__ import annotations

import codecs
import gzip
import io
import math
import re
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from traceanalyzer.errors import InputError
from traceanalyzer.importers.endless import refuse_endless
from traceanalyzer.importers.expansion import UNPACKS_TO_TOO_MUCH, is_too_much

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONGEST_LINE: Final = 8 << 20
MOST_DRAFT_TOKENS: Final = 4096
"""More than anybody drafts in a cycle: a larger number is damage."""

LARGEST_COUNT: Final = 1 << 53
"""Above it floats skip whole numbers."""

CUT: Final = "cut or damaged"
"""Why a line is of no use, where it does not hold what such a line holds."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN: Final = 120

# Colours, cursor moves and titles that a terminal's output carries; a lone escape goes too.
_TERMINAL: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])?")
_NUMBER: Final = re.compile(
    r"[+-]?(?:\d{1,3}(?:[,_]\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
)
_PIECE: Final = re.compile(r",\s+|,\Z")
_NAME: Final = re.compile(r"[^:]*[^:\s\d][^:]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the caller says about a file, over what the file says itself.

    Attributes:
        version: The engine's version ("0.5.9"); "0.5.3 overlap" also says which scheduler ran.
        draft_tokens: Tokens drafted a request and cycle.

    Raises:
        InputError: Nobody drafts so many tokens.
    """

    version: str | None = None
    draft_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.draft_tokens is not None and not 0 <= self.draft_tokens <= MOST_DRAFT_TOKENS:
            raise InputError(f"{self.draft_tokens} draft tokens a cycle cannot be")


class _TooMuchError(gzip.BadGzipFile):
    """A stream unpacks to more than any log."""


class _Inflated(gzip.GzipFile):
    """A gzip stream that stops where it gives too much for its size."""

    def __init__(self, packed: IO[bytes]) -> None:
        super().__init__(fileobj=packed)
        self._packed = packed

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes.

        Raises:
            BadGzipFile: There were too many.
        """
        data = super().read(size)
        if is_too_much(self._packed.tell(), self.tell(), LONGEST_LINE):
            raise _TooMuchError
        return data


class LogText:
    """The lines of a text file: plain or gzip, UTF-8 or UTF-16, any line ends.

    Bytes that are no text read as U+FFFD, terminal codes are dropped. A gzip stream that breaks
    off, or unpacks to far more than a log does, ends there, and `damage` says so.

    Args:
        path: The file; gzip and UTF-16 are recognised by its content.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        self.lines = 0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield line numbers, from 1, and lines without their ends.

        Raises:
            InputError: The file cannot be opened or read.
        """
        try:
            refuse_endless(self.path)
            with self.path.open("rb") as file:
                yield from self._lines(file)
        except _TooMuchError:
            self.damage = f"{UNPACKS_TO_TOO_MUCH}: it is read up to line {self.lines}"
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.damage = (
                f"the gzip stream is damaged after line {self.lines}; the rest is not read"
            )
        except OSError as error:
            raise InputError(
                f"the file cannot be read: {error.strerror or error}", where=self.path
            ) from None

    def _lines(self, file: IO[bytes]) -> Iterator[tuple[int, str]]:
        is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        content = io.BufferedReader(_Inflated(file)) if is_gzip else file
        head = content.peek(2)[:2] if isinstance(content, io.BufferedReader) else b""
        encoding = "utf-16" if head in _UTF16_MARKS else "utf-8-sig"
        for self.lines, line in lines_of(io.TextIOWrapper(content, encoding, errors="replace")):
            yield self.lines, line


def lines_of(text: IO[str]) -> Iterator[tuple[int, str]]:
    """Number the lines of an open text and rid them of terminal codes.

    Args:
        text: Opened with universal line ends. What of a line is beyond `LONGEST_LINE` is left out.
    """
    number = 0
    at_start = True
    while piece := text.readline(LONGEST_LINE):
        if at_start:
            number += 1
            line = piece.rstrip("\r\n")
            yield number, _TERMINAL.sub("", line) if "\x1b" in line else line
        at_start = piece.endswith("\n")


def number_in(text: str | None) -> float | None:
    """The finite number that a text consists of; thousands may be grouped ("1,234.5").

    Anything else is None: "nan", "inf", "2,25", a number followed by more than `%`, and None.
    """
    stripped = (text or "").strip().removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(stripped):
        return None
    value = float(re.sub("[,_]", "", stripped))
    return value if math.isfinite(value) else None


def whole_number(text: str | None) -> int | None:
    """A text's number when it is whole, from 0 to `LARGEST_COUNT`, else None."""
    value = number_in(text)
    if value is None or not 0 <= value <= LARGEST_COUNT or not value.is_integer():
        return None
    return int(value)


def fields_of(text: str) -> dict[str, list[str]]:
    """The `name: value, ` fields of a log line; a value may be a list ("0.8, 0.6, ").

    The last field is left out unless something follows it: nobody can tell whether it is whole.
    Of a name that comes twice the first holds.

    Args:
        text: The fields, without what stands before the first name. End it with a comma to keep
            the last field.
    """
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for piece in _PIECE.split(text)[:-1]:
        name, colon, value = piece.partition(": ")
        if colon and _NAME.match(name):
            values = [value]
            fields.setdefault(name.strip(), values)
        else:
            values.append(piece)
    return fields


class LeftOut:
    """Lines that are of no use, by what is wrong with them."""

    def __init__(self) -> None:
        self.first: tuple[int, str] | None = None
        """The first of all and its text, as an error message quotes it."""
        self._by_reason: dict[str, tuple[int, int]] = {}

    def add(self, wrong: str, number: int, line: str) -> None:
        """Count a line.

        Args:
            wrong: What is wrong, as it follows "2 lines".
            number: The line's.
            line: Its text.
        """
        count, first = self._by_reason.get(wrong, (0, number))
        self._by_reason[wrong] = count + 1, first
        self.first = self.first or (number, shown(line))

    def notes(self, noun: str = "line") -> list[str]:
        """What is said of them."""
        return [
            f"{plural(count, noun)} {wrong}: left out (the first is line {first})"
            for wrong, (count, first) in self._by_reason.items()
        ]


def shown(line: str) -> str:
    """A line as an error message quotes it: one short printable text."""
    text = "".join(each if each.isprintable() else "?" for each in line.strip())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def plural(count: int, noun: str) -> str:
    """A count with its noun: "1 line", "2 lines"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
