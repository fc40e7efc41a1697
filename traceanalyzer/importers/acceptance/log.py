"""What did an engine itself count as accepted? Its log, metrics, answers, or anybody's records.

A file is recognised by its content and streamed line by line. A kind of content is a class with
`offer` (for lines) or `offer_object` (for JSON objects and CSV rows), and one line in `_KINDS`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import (
    Known,
    LeftOut,
    LogText,
    lines_of,
    plural,
    shown,
)
from traceanalyzer.importers.acceptance.numbers import parse_number, reading_of_number
from traceanalyzer.importers.acceptance.prometheus import SglangGauges, VllmCounters
from traceanalyzer.importers.acceptance.records import CsvRows, Records
from traceanalyzer.importers.acceptance.responses import SglangAnswers
from traceanalyzer.importers.acceptance.sglang import SglangLog
from traceanalyzer.importers.acceptance.vllm import VllmLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from traceanalyzer.speculation.acceptance import AcceptanceReading

__all__ = ["parse_acceptance", "parse_number", "read_acceptance", "reading_of_number"]

_LARGEST_DOCUMENT: Final = 64 << 20
_MESSAGE_KEYS: Final = ("log", "message", "msg")  # what log collectors wrap a line in
_DOCUMENT: Final = re.compile(r'\s*[\[{]\s*(?:["{\[]|\Z)')
_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"\s*")
_ONE_KIND: Final = "Name the engine, or give each kind of content a file of its own."


class _Kind(Protocol):
    engine: ClassVar[str]  # "" for what no engine writes
    kind: ClassVar[str]
    looked_for: ClassVar[str]
    used: int | None  # the first line it used
    unusable: tuple[int, str] | None  # the first line that looked like its own and was not usable

    def __init__(self, known: Known) -> None: ...

    def reading(self) -> AcceptanceReading: ...


_KINDS: Final[tuple[type[_Kind], ...]] = (
    SglangLog,
    SglangAnswers,
    SglangGauges,
    VllmLog,
    VllmCounters,
    Records,
)


def read_acceptance(
    path: Path,
    *,
    engine: str | None = None,
    version: str | None = None,
    draft_tokens: int | None = None,
    since: Path | None = None,
) -> AcceptanceReading:
    """Read what a file says of acceptance.

    Args:
        path: A log of SGLang or vLLM, a Prometheus dump of either, SGLang's JSON answers or
            server info, or records as JSON lines or CSV; plain or gzip.
        engine: "sglang" or "vllm"; needed only where a file holds both.
        version: The engine's version, where the file does not say it ("0.5.3 overlap" also says
            which scheduler ran).
        draft_tokens: k, where the file does not say it.
        since: An earlier Prometheus dump of the same server: only what came after it counts.

    Returns:
        Acceptance in our definition, with what the number meant there and what was done to it.

    Raises:
        InputError: The file cannot be read, holds nothing of the kind, holds several kinds or
            several servers, or a figure in it cannot be.
    """
    reader = _Reader(engine, Known(version=version, draft_tokens=draft_tokens))
    damages: list[str] = []
    at = path
    try:
        if since is not None:
            at = since
            damages += reader.read_file(since)
            reader.expect_counters()
            at = path
        damages += reader.read_file(path)
        return reader.reading(damages)
    except InputError as error:
        if error.where is not None:
            raise
        raise InputError(error.what, where=at, next_step=error.next_step) from None


def parse_acceptance(
    text: str,
    *,
    engine: str | None = None,
    version: str | None = None,
    draft_tokens: int | None = None,
) -> AcceptanceReading:
    """Read what a text says of acceptance, as `read_acceptance` does with a file."""
    reader = _Reader(engine, Known(version=version, draft_tokens=draft_tokens))
    reader.read(lines_of(io.StringIO(text, newline=None)))
    return reader.reading([])


class _Reader:
    """Hands the lines of a file to all kinds of content, and asks the one that used them.

    Args:
        engine: Whose content counts; None: anybody's.
        known: What the caller knows.
    """

    def __init__(self, engine: str | None, known: Known) -> None:
        wanted = None if engine is None else engine.strip().lower()
        engines = {kind.engine for kind in _KINDS} - {""}
        if wanted is not None and wanted not in engines:
            names = " or ".join(sorted(engines))
            raise InputError(f"the engine {engine!r} is not known", next_step=f"Say {names}.")
        kinds = [kind(known) for kind in _KINDS if wanted is None or kind.engine in (wanted, "")]
        self._kinds: list[_Kind] = kinds
        self._of_lines = [kind.offer for kind in kinds if hasattr(kind, "offer")]
        self._of_objects = [kind.offer_object for kind in kinds if hasattr(kind, "offer_object")]
        self._first: tuple[int, str] | None = None
        self._lines = 0
        self._left_out = LeftOut()

    def read_file(self, path: Path) -> list[str]:
        """Take all lines of a file, and say what of it could not be read."""
        text = LogText(path)
        self.read(text)
        return [text.damage] if text.damage else []

    def read(self, text: Iterable[tuple[int, str]]) -> None:
        """Take all lines of a text.

        Raises:
            InputError: A figure cannot be, or the text holds several servers.
        """
        rows: CsvRows | None = None
        lines = ((number, line) for number, line in text if line.strip())
        for at, (number, line) in enumerate(lines):
            self._first = self._first or (number, shown(line))
            self._lines += 1
            if at == 0:
                header = CsvRows(line)
                if header.is_header:
                    rows = header
                    continue
                if _opens_document(line):
                    self._document(number, line, lines)
                    return
            if rows is not None:
                self._row(number, line, rows)
            else:
                self._line(number, line)

    def _line(self, number: int, line: str) -> None:
        if _DOCUMENT.match(line) is None:
            for offer in self._of_lines:
                offer(number, line)
            return
        value = _json_in(line)
        if value is None:
            self._left_out.add("of JSON that does not end in the line", number, line)
        else:
            self._value(number, value)

    def _row(self, number: int, line: str, rows: CsvRows) -> None:
        record = rows.record(line)
        if record is None:
            self._left_out.add("without as many values as the header names", number, line)
        else:
            self._value(number, record)

    def _document(self, number: int, line: str, lines: Iterator[tuple[int, str]]) -> None:
        """Read JSON that is laid out over several lines; it alone is held in memory whole."""
        parts, size = [line], len(line)
        for _, part in lines:
            parts.append(part)
            size += len(part)
            if size > _LARGEST_DOCUMENT:
                raise InputError(
                    f"the JSON that opens in line {number} is longer than "
                    f"{_LARGEST_DOCUMENT >> 20} MiB",
                    next_step="Write one object a line.",
                )
        self._lines += len(parts) - 1
        text, at = "\n".join(parts).strip(), 0
        try:
            while at < len(text):
                value, at = _DECODER.raw_decode(text, at)
                self._value(number, value)
                blank = _BLANK.match(text, at)
                at = blank.end() if blank else len(text)
        except (ValueError, RecursionError):
            self._left_out.add("from which on the JSON is cut or damaged", number, line)

    def _value(self, number: int, value: object) -> None:
        """Hand on a JSON object, or each object of a list."""
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Mapping):
                self._object(number, each)

    def _object(self, number: int, value: Mapping[str, Any]) -> None:
        """Hand on an object, and the line that a log collector may have wrapped in it."""
        wrapped = next((value[key] for key in _MESSAGE_KEYS if key in value), None)
        if isinstance(wrapped, str):
            for offer in self._of_lines:
                offer(number, wrapped)
        try:
            for offer_object in self._of_objects:
                offer_object(number, value)
        except InputError as error:
            what = f"line {number}: {error.what}"
            raise InputError(what, next_step=error.next_step) from None

    def expect_counters(self) -> None:
        """Hold that what was read so far is a dump of counters.

        Raises:
            InputError: It is not: nothing else can be taken from what follows.
        """
        used = self._used()
        if not used:
            raise self._nothing_found()
        if not all(isinstance(kind, VllmCounters) for kind in used):
            raise InputError(
                f"it holds {used[0].kind}, not counters that a later file goes on counting",
                next_step="Give an earlier file only with vLLM's Prometheus dumps.",
            )

    def reading(self, damages: list[str]) -> AcceptanceReading:
        """The reading of the one kind of content that was found.

        Args:
            damages: What could not be read of the files.

        Raises:
            InputError: There is none, there are several, or it cannot be read.
        """
        used = self._used()
        if not used:
            raise self._nothing_found()
        if len(used) > 1:
            found = " and ".join(f"{kind.kind} (line {kind.used})" for kind in used)
            raise InputError(f"it holds {found}: which of them?", next_step=_ONE_KIND)
        reading = used[0].reading()
        return replace(reading, notes=(*reading.notes, *self._left_out.notes(), *damages))

    def _used(self) -> list[_Kind]:
        return [kind for kind in self._kinds if kind.used is not None]

    def _nothing_found(self) -> InputError:
        if self._first is None:
            return InputError("it is empty", next_step="Give a log in which requests were decoded.")
        candidates = [kind.unusable for kind in self._kinds if kind.unusable is not None]
        candidates += [self._left_out.first] if self._left_out.first else []
        number, line = min(candidates, default=self._first)
        looked_for = "; ".join(kind.looked_for for kind in self._kinds)
        return InputError(
            f"no acceptance figure in {plural(self._lines, 'line')}; of no use is line {number}: "
            f"{line}",
            next_step=f"Looked for {looked_for}. Was speculation on, and the log level INFO?",
        )


def _opens_document(line: str) -> bool:
    """Whether a first line begins JSON that goes on below it."""
    return _DOCUMENT.match(line) is not None and _json_in(line) is None


def _json_in(text: str) -> Any:
    """A JSON object or list, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping | list) else None
