"""What SGLang's own log says of acceptance: its decode lines and its flush lines.

A decode line averages the cycles since the line before it (40 by default), so no line stands for
one cycle, and only their weighted mean is a figure of the run.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, ClassVar, Final

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import (
    CUT,
    Known,
    LeftOut,
    fields_of,
    number_in,
    plural,
    whole_number,
)
from traceanalyzer.importers.acceptance.numbers import convert, is_overlap
from traceanalyzer.importers.acceptance.sglang_server import Fitting, Server, draft_tokens_fitting
from traceanalyzer.speculation.acceptance import AcceptanceReading
from traceanalyzer.speculation.conventions import find_convention

if TYPE_CHECKING:
    from collections.abc import Iterator

_DECODE: Final = re.compile(r"Decode batch(?:\s\[\d+\])?([.,])\s((?:(?!Decode batch).)*)")
_PREFILL: Final = re.compile(r"Prefill batch\b.{,40}?#new-seq: \d")
_NOTHING_RAN: Final = re.compile(r"#running-req: 0\b")
_FLUSH: Final = re.compile(r"\bavg_spec_accept_length=([\w.+-]+)")
_TINY: Final = 0.5  # of the usual throughput: below it a line spans a start or a pause
_BONUS_TWICE: Final = 2
SILENT: Final = "without 'accept len'"  # nothing was speculated
NO_LENGTH: Final = "whose 'accept len' is no number from 0 up"
_LAST_FLUSH: Final = ("of several flush lines the last one is taken",)


@dataclass(frozen=True, slots=True)
class DecodeLine:
    """One decode line.

    Attributes:
        stop: What follows "Decode batch": "." before 0.5.6, "," since.
        running: Requests in the batch when the line was written.
        accept_len: As printed: tokens a request and cycle since the line before.
        accept_rate: As printed; None before 0.5.3.
        throughput: Generated tokens a second since the line before, pauses included.
    """

    stop: str
    running: int
    accept_len: float
    accept_rate: float | None
    throughput: float | None


def decode_lines(line: str) -> Iterator[DecodeLine | str]:
    """Read the decode lines in a line, of which processes that share a log may have joined two.

    Yields:
        A decode line, or why it is of no use: `CUT`, `SILENT` or `NO_LENGTH`.
        Source: SGLang 0.4.6 to 0.4.9 `scheduler.py`, 0.5.3 to 0.5.12 `scheduler_metrics_mixin.py`,
        0.5.15 and later `metrics_reporter.py`.
    """
    for stop, text in _DECODE.findall(line):
        fields = fields_of(text)
        figures = {name: values[0] for name, values in fields.items() if len(values) == 1}
        running = whole_number(figures.get("#running-req"))
        accept_len = number_in(figures.get("accept len"))
        throughput = figures.get("gen throughput (token/s)")
        if running is None or ("accept len" not in fields and throughput is None):
            yield CUT
        elif "accept len" not in fields:
            yield SILENT
        elif accept_len is None or accept_len < 0:
            yield NO_LENGTH
        else:
            rate = number_in(figures.get("accept rate"))
            yield DecodeLine(stop, running, accept_len, rate, number_in(throughput))


@dataclass(slots=True)
class _Lines:
    """The figures of all decode lines, 33 bytes a line."""

    running: array[int] = field(default_factory=lambda: array("q"))
    accept_len: array[float] = field(default_factory=lambda: array("d"))
    throughput: array[float] = field(default_factory=lambda: array("d"))
    after_pause: array[int] = field(default_factory=lambda: array("b"))

    def add(self, line: DecodeLine, after_pause: bool) -> None:
        self.running.append(line.running)
        self.accept_len.append(line.accept_len)
        self.throughput.append(line.throughput or 0.0)
        self.after_pause.append(after_pause)

    def mean_accept_len(self) -> float | None:
        """The mean, weighted by running requests; None when none ran."""
        weight = sum(self.running)
        pairs = zip(self.running, self.accept_len, strict=True)
        return sum(running * each for running, each in pairs) / weight if weight else None

    def warm_up(self) -> set[int]:
        """The lines whose throughput spans a start or a pause of the server."""
        usual = median(self.throughput)
        return {
            at
            for at, (after, each) in enumerate(zip(self.after_pause, self.throughput, strict=True))
            if after and each < _TINY * usual
        }

    def tokens_per_s(self, left_out: set[int]) -> float | None:
        """Tokens over time: each line's share of the time is its tokens over its throughput."""
        tokens = time = 0.0
        for at, throughput in enumerate(self.throughput):
            if throughput > 0 and at not in left_out:
                line_tokens = self.running[at] * self.accept_len[at]
                tokens += line_tokens
                time += line_tokens / throughput
        return tokens / time if time else None


class SglangLog:
    """Collects what the lines of one server say; see `log` for how it is driven.

    Args:
        known: What the caller knows.
    """

    engine: ClassVar[str] = "sglang"
    kind: ClassVar[str] = "SGLang decode lines"
    looked_for: ClassVar[str] = "SGLang's 'Decode batch' lines with 'accept len: '"

    def __init__(self, known: Known) -> None:
        self.used: int | None = None
        self.unusable: tuple[int, str] | None = None
        self._known = known
        self._server = Server(known.version)
        self._lines = _Lines()
        self._left_out = LeftOut()
        self._flush: tuple[int, float] | None = None
        self._paused = True
        self._fitting: Fitting | None = None

    def offer(self, number: int, line: str) -> None:
        """Take what one line says.

        Raises:
            InputError: The line shows that the log holds several servers.
        """
        if "batch" in line:
            if _PREFILL.search(line) and _NOTHING_RAN.search(line):
                self._paused = True
            if "Decode batch" in line:
                self._decode(number, line)
        elif "avg_spec_accept_length=" in line:
            found = _FLUSH.search(line)
            value = number_in(found[1]) if found else None
            if value is not None:
                self._flush = (self._flush[0] + 1 if self._flush else 1, value)
                self.used = self.used or number
        else:
            self._server.read(number, line)

    def _decode(self, number: int, line: str) -> None:
        if self._server.is_other_rank(line):
            return
        for found in decode_lines(line):
            if isinstance(found, str):
                self._left_out.add(found, number, line)
                self.unusable = self._left_out.first
                continue
            self._server.same_format(number, line, found.stop, found.accept_rate is not None)
            self.used = self.used or number
            self._lines.add(found, self._paused)
            self._paused = False
            if found.accept_rate is not None:
                self._fitting = draft_tokens_fitting(
                    found.accept_len, found.accept_rate, self._fitting
                )

    def reading(self) -> AcceptanceReading:
        """The weighted mean of the decode lines, or the last flush line where there are none.

        Raises:
            InputError: No request ran in any of the lines.
        """
        version = self._server.version
        if not self._lines.running:
            return self._of_flushes(version)
        printed = self._lines.mean_accept_len()
        if printed is None:
            raise InputError(
                "no request was running in any decode line",
                next_step="Give the log of a time in which requests ran.",
            )
        draft_tokens = self._draft_tokens(version)
        overlap, why = self._overlap(draft_tokens)
        convention = find_convention(
            self.engine, "accept len", version or self._server.version_by_format, overlap=overlap
        )
        converted = convert(convention, printed, draft_tokens=draft_tokens)
        warm_up = self._lines.warm_up()
        return AcceptanceReading(
            source=f"{_named(version)}, {plural(len(self._lines.running), 'decode line')}",
            read_as=converted.read_as,
            conversion=converted.conversion,
            accept_len=converted.accept_len,
            draft_tokens=draft_tokens,
            request_cycles=self._request_cycles(),
            tokens_per_s=self._lines.tokens_per_s(warm_up),
            batch=fmean(self._lines.running),
            notes=(*converted.notes, *why, *self._notes(version, len(warm_up))),
        )

    def _of_flushes(self, version: str | None) -> AcceptanceReading:
        if self._flush is None:
            raise InputError(
                "the log holds no acceptance figure",
                next_step="Start the server with speculation on.",
            )
        times, value = self._flush
        draft_tokens = self._draft_tokens(version)
        convention = find_convention(
            self.engine, "avg_spec_accept_length", version, overlap=self._server.overlap
        )
        converted = convert(convention, value, draft_tokens=draft_tokens)
        return AcceptanceReading(
            source=f"{_named(version)}, {plural(times, 'flush line')}",
            read_as=f"{converted.read_as}, since the counters were last reset",
            conversion=converted.conversion,
            accept_len=converted.accept_len,
            draft_tokens=draft_tokens,
            notes=(*converted.notes, *_LAST_FLUSH[: times > 1]),
        )

    def _draft_tokens(self, version: str | None) -> int | None:
        if self._known.draft_tokens is not None:
            return self._known.draft_tokens
        return self._server.draft_tokens(version, self._fitting)

    def _overlap(self, draft_tokens: int | None) -> tuple[bool | None, list[str]]:
        """Whether the overlap scheduler ran, as far as it changes a line's meaning, and why.

        With the bonus token counted twice no line can be below 2, and one can exceed k + 1.
        """
        if min(self._lines.accept_len) < _BONUS_TWICE:
            return False, []
        if is_overlap(self._known.version):
            return True, []
        if self._server.overlap is not None:
            return self._server.overlap, [f"enable_beta_spec={self._server.overlap} in the log"]
        most = max(self._lines.accept_len)
        if draft_tokens is not None and most > draft_tokens + 1:
            return True, [f"a line says {most:g}, more than {draft_tokens} drafts and the bonus"]
        return None, []

    def _request_cycles(self) -> int | None:
        """About how many: each line's requests times the cycles between lines, if known."""
        interval = self._server.settings.get("decode_log_interval")
        return None if interval is None else interval * sum(self._lines.running)

    def _notes(self, version: str | None, warm_up: int) -> list[str]:
        notes = [
            "each line averages the cycles since the line before it; lines are weighted by the "
            "requests that ran when they were written"
        ]
        if version is None:
            seen = self._server.version_by_format
            notes.append(f"the log does not say its version; read as {seen}, by its lines' format")
        if self._server.may_count_finished:
            notes.append("under the overlap scheduler finished requests are counted once more")
        if warm_up:
            notes.append(
                f"{plural(warm_up, 'line')} behind a start or a pause: counted in accept_len, "
                "left out of the throughput"
            )
        if self._request_cycles() is not None:
            notes.append("request-cycles are about right: requests come and go between lines")
        if self._server.groups > 1:
            notes.append(
                f"{self._server.groups} data-parallel groups are pooled; throughput and requests "
                "are those of one group"
            )
        if (repeated := self._server.other_rank_lines) > 0:
            notes.append(f"{plural(repeated, 'decode line')} repeated by another rank: left out")
        notes += self._left_out.notes("decode line")
        if self._flush is not None:
            notes.append(f"the log's own mean, avg_spec_accept_length, is {self._flush[1]:.3f}")
        return notes


def _named(version: str | None) -> str:
    return f"SGLang {version} log" if version else "SGLang log"
