"""Kineto's JSON as decoded events with exact times, a bounded piece of text at a time.

A piece that starts at an event and decodes as a complete list ends at an event: that is the proof
of every cut, and where a quick guess fails the brackets are followed. Odd text costs its own
event only, and `notes` says so.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import msgspec

from traceanalyzer.errors import InputError
from traceanalyzer.importers.kineto_events import (
    CLOCKS,
    LABEL,
    SPAN,
    Decoded,
    decoded_one,
    lenient,
    phase_of,
)
from traceanalyzer.importers.kineto_text import TraceText, find_opening, repaired, scan_array
from traceanalyzer.importers.kineto_times import FINE_DURATION, FINE_START, Written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from traceanalyzer.importers.kineto_events import Clock, Event
    from traceanalyzer.importers.kineto_times import Nanoseconds

# What a piece decodes to stays in the processor's cache: of a 100 MB trace, pieces of 4 MB took
# 1.6 times the CPU time.
PIECE_BYTES = 1 << 18
EXPORT_AGAIN: Final = (
    "Expected what torch.profiler's export_chrome_trace wrote (.json or .json.gz): "
    "export the trace again, and copy it only when it is complete."
)
HEAD_BYTES = 1 << 16
_LARGEST_OPENING: Final = 16 << 20
_LARGEST_EVENT_BYTES: Final = 64 << 20
_LARGEST_METADATA: Final = 64 << 20
_BETWEEN_EVENTS: Final = re.compile(rb"\s*(?:,\s*)?")
_FIRST_KEY: Final = re.compile(rb'\{\s*"[^"\\]*"')
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of a file's events, in its order.

    Args:
        spans: Complete events (`ph` "X") of the wanted categories.
        labels: Metadata events (`ph` "M"): names of processes and threads.
        start_ns: Start of each span, or NO_TIME.
        duration_ns: Duration of each span, or NO_TIME.
        events: Number of events of any kind.
    """

    spans: list[Event]
    labels: list[Event]
    start_ns: Nanoseconds
    duration_ns: Nanoseconds
    events: int


class KinetoReader:
    """Reads a trace once, from front to end.

    `metadata` (the top-level keys except the events) and `notes` (what was left out or repaired,
    with counts) are complete when `pieces` is.

    Args:
        text: The trace's text.
        wanted: Categories of the spans to hand out.
    """

    def __init__(self, text: TraceText, wanted: Collection[str]) -> None:
        self.metadata: dict[str, Any] = {}
        self.notes: Counter[str] = Counter()
        self._text = text
        self._wanted = frozenset(wanted)
        self._clock = 0
        self._border: bytes | None = None
        self._is_object = False

    def pieces(self) -> Iterator[Piece]:
        """Decode the event list.

        Raises:
            InputError: There is no event list.
        """
        buffer, target = self._opened(), PIECE_BYTES
        self._border = _first_border(buffer)
        while True:
            buffer, more, at_end = self._filled(buffer, target)
            quick = self._quick_piece(buffer, more)
            if quick is not None:
                piece, buffer = quick
                yield piece
                target = PIECE_BYTES
                continue
            buffer += more
            scan = scan_array(buffer)
            if scan.events:
                yield from self._careful_pieces(buffer, scan.events)
            if scan.closing is not None:
                self._read_rest(buffer[scan.closing + 1 :])
                return
            cut = scan.events[-1][1] if scan.events else 0
            if at_end or (not cut and len(buffer) > _LARGEST_EVENT_BYTES):
                self._note_end(buffer[cut:])
                return
            self._border = _last_border(buffer, scan.events) or self._border
            buffer, target = buffer[cut:], PIECE_BYTES if cut else 2 * target

    def _filled(self, buffer: bytes, target: int) -> tuple[bytes, bytes, bool]:
        """The buffer from its first event on, more up to a length, and whether the text ends there.

        They stay apart where they can: a piece is put together once.
        """
        missing = max(target - len(buffer), 0)
        more = self._text.read(missing)
        at_end = len(more) < missing
        if not buffer.startswith(b"{"):
            buffer, more = _from_event(buffer + more), b""
        return buffer, more, at_end

    def _opened(self) -> bytes:
        """Read the metadata before the event list.

        Returns:
            The text behind the list's opening bracket, as far as it was read.
        """
        head = self._text.read(HEAD_BYTES)
        while (opening := find_opening(head)) is None:
            more = self._text.read(len(head)) if len(head) <= _LARGEST_OPENING else b""
            if not more:
                raise InputError(
                    self._why_not_opened(head), where=self._text.path, next_step=EXPORT_AGAIN
                )
            head += more
        self._is_object = opening.metadata is not None
        if opening.metadata is not None:
            self._read_metadata(opening.metadata + b'"traceEvents":[]}')
        return head[opening.first :]

    def _why_not_opened(self, head: bytes) -> str:
        if self._text.damage is not None:
            return f"{self._text.damage} before the event list"
        text = head.lstrip()
        if not text:
            return "the file is empty"
        if text[:1] not in (b"{", b"["):
            return "the file is not JSON"
        if len(head) > _LARGEST_OPENING:
            return "the JSON is no trace: there is no list of traceEvents near its beginning"
        try:
            msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except _UNREADABLE:
            return "the text is not valid JSON, or breaks off, before the event list"
        return "the JSON is no trace: it has no list of traceEvents"

    def _quick_piece(self, buffer: bytes, more: bytes) -> tuple[Piece, bytes] | None:
        """Cut where the text looks like the last border; decoding proves that it is one.

        Returns:
            The events before, and the text from there on.
        """
        if self._border is None:
            return None
        head, last = (buffer, more) if more else (b"", buffer)
        cut = last.rfind(self._border) + 1
        if not cut or 2 * cut < len(last):  # small cuts would copy the rest over and over
            return None
        piece = self._decoded(head, memoryview(last)[:cut])
        return None if piece is None else (piece, _from_event(last[cut:]))

    def _decoded(self, *parts: bytes | memoryview) -> Piece | None:
        text = b"".join((b"[", *parts, b"]"))
        for index in range(self._clock, len(CLOCKS)):
            clock = CLOCKS[index]
            try:
                decoded = clock.decoded(text, self._wanted)
            except msgspec.ValidationError:
                continue
            except _UNREADABLE:
                return None
            piece = _piece(decoded, clock, text)
            if piece is not None:
                self._clock = index
                return piece
        return None

    def _careful_pieces(self, buffer: bytes, events: Sequence[tuple[int, int]]) -> Iterator[Piece]:
        """Decode known events together, else mended, else one by one."""
        text = buffer[: events[-1][1]]
        piece = self._decoded(text)
        if piece is None:
            text, mended = repaired(text)
            if mended:
                self.notes["places in the text that are not valid JSON were mended"] += mended
                piece = self._decoded(text)
        if piece is None:
            found = [self._one(text[start:end]) for start, end in scan_array(text).events]
            piece = _piece(self._chosen(found), CLOCKS[-1], text)
        if piece is not None:
            yield piece

    def _chosen(self, found: Sequence[Any]) -> Decoded:
        """Of events decoded one by one, where None stands for one that cannot be."""
        events = [event for event in found if event is not None]
        spans = [event for event in events if phase_of(event) == SPAN]
        return Decoded(
            [span for span in spans if span.cat in self._wanted],
            [event for event in events if phase_of(event) == LABEL],
            len(events),
        )

    def _one(self, text: bytes) -> Any:
        try:
            return decoded_one(text)
        except _UNREADABLE:
            pass
        try:
            event = lenient(_plain_json(text), self.notes)
        except (*_UNREADABLE, InvalidOperation):
            self.notes["events that cannot be decoded were left out"] += 1
            return None
        self.notes["events that are not as Kineto writes them were read as far as possible"] += 1
        return event

    def _read_rest(self, rest: bytes) -> None:
        """Read what follows the event list: more metadata, or nothing."""
        parts, size = [rest], len(rest)
        while more := self._text.read(PIECE_BYTES):
            size += len(more)
            if size <= _LARGEST_METADATA:
                parts.append(more)
        rest = b"".join(parts)
        if size > _LARGEST_METADATA:
            self.notes["metadata after the event list is too long and was left out"] += 1
        elif self._is_object:
            self._read_metadata(b'{"traceEvents":[]' + rest)
        elif rest.strip():
            self.notes["text after the event list was not read"] += 1
        if self._text.damage is not None:
            self.notes[self._text.damage] += 1

    def _read_metadata(self, text: bytes) -> None:
        try:
            found = msgspec.json.decode(text, type=dict[str, Any])
        except _UNREADABLE:
            try:
                found = dict(_plain_json(repaired(text)[0]))
            except (*_UNREADABLE, TypeError):
                self.notes["a part of the file's metadata cannot be decoded and was left out"] += 1
                return
        found.pop("traceEvents", None)
        self.metadata.update(found)

    def _note_end(self, rest: bytes) -> None:
        reason = self._text.damage or "the text breaks off or is damaged"
        self.notes[
            f"{reason}: events up to there were read"
            + (", the one that is not whole was left out" if rest.strip(b" \t\r\n,") else "")
        ] += 1


def _piece(decoded: Decoded, clock: Clock, text: bytes) -> Piece | None:
    """None when a time does not fit the clock."""
    spans = decoded.spans
    start_ns = clock.starts_ns([span.ts for span in spans], Written(text, FINE_START))
    if start_ns is None:
        return None
    duration_ns = clock.durations_ns([span.dur for span in spans], Written(text, FINE_DURATION))
    if duration_ns is None:
        return None
    return Piece(spans, decoded.labels, start_ns, duration_ns, decoded.events)


def _from_event(text: bytes) -> bytes:
    """The text without what stands between two events at its beginning."""
    between = _BETWEEN_EVENTS.match(text)
    return text[between.end() :] if between else text


def _first_border(buffer: bytes) -> bytes | None:
    events = scan_array(buffer[:HEAD_BYTES]).events
    return _last_border(buffer, events)


def _last_border(buffer: bytes, events: Sequence[tuple[int, int]]) -> bytes | None:
    """The text from an event's closing brace to the next one's first key."""
    if len(events) < 2:
        return None
    (_, end), (start, _) = events[-2:]
    key = _FIRST_KEY.match(buffer, start)
    return None if key is None else buffer[end - 1 : key.end()]


def _plain_json(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal, strict=False)
