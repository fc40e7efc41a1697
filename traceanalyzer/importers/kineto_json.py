"""Kineto's JSON as decoded events with exact times, a bounded piece of text at a time.

A piece that starts at an event and decodes as a complete list ends at an event: that is the proof
of every cut, and where a quick guess fails the brackets are followed. Odd text costs its own
event only, and `notes` says so.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from traceanalyzer.errors import InputError
from traceanalyzer.importers.kineto_text import TraceText, find_opening, repaired, scan_array

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

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
NO_TIME: Final = int(np.iinfo(np.int64).min)
"""Stands for a time or duration that the event does not state."""
_MOST_DIGITS: Final = 20  # of an id; int64 holds fewer
_LATEST_NS: Final = 1 << 62  # a start and a duration below it add up inside int64
_FLOAT_SLACK_NS: Final = 1e-9  # above the rounding of a product below 1,000

Nanoseconds = npt.NDArray[np.int64]


class Arguments(msgspec.Struct, gc=False, frozen=True):
    """The arguments of an event that the Trace needs; 0 is Kineto's "none" for the ids."""

    correlation: int = 0
    device: int | None = None
    stream: int | None = None
    graph_id: int = msgspec.field(default=0, name="graph id")
    graph_node_id: int = msgspec.field(default=0, name="graph node id")
    cuda_sync_kind: Any = None
    finished: Any = None
    name: Any = None


class Event(msgspec.Struct, gc=False):
    """One trace event, without its times."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    args: Arguments = Arguments()


class _IntegerEvent(Event, gc=False):
    ts: int = NO_TIME
    dur: int = NO_TIME


class _FloatEvent(Event, gc=False):
    ts: float = float("nan")
    dur: float = float("nan")


class _TextEvent(Event, gc=False):
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: float = float("nan")


class _DecimalEvent(Event, gc=False):
    ts: Decimal = Decimal("nan")
    dur: Decimal = Decimal("nan")


def _finer_than_ns(key: bytes) -> re.Pattern[bytes]:
    """Finds a number of that key with more than three decimals, or with an exponent."""
    return re.compile(rb'"' + key + rb'"\s*+:\s*+-?\d++(?:\.\d{0,3}+)?+[\deE]')


@dataclass(frozen=True, slots=True)
class _Written:
    """Where a column of numbers was read: the text of its piece, and what finds fine ones in it."""

    text: bytes
    finer_than_ns: re.Pattern[bytes]


_MICROSECONDS: Final = re.compile(rb"\d{1,16}+(?:\.\d{1,3}+)?+(?:,\d{1,16}+(?:\.\d{1,3}+)?+)*+")
_FINE_START: Final = _finer_than_ns(b"ts")
_FINE_DURATION: Final = _finer_than_ns(b"dur")


def _integer_ns(microseconds: Sequence[int], _: _Written) -> Nanoseconds | None:
    try:
        values = np.frombuffer(array("q", microseconds), dtype=np.int64)
    except OverflowError:
        return None
    stated = values != NO_TIME
    if np.any(np.abs(values[stated]) >= _LATEST_NS // 1000):
        return None
    return np.where(stated, values * 1000, NO_TIME)


def _float_ns(microseconds: Sequence[float], written: _Written) -> Nanoseconds | None:
    """Nanoseconds of decimal texts that were read as float64.

    A value stands for any text up to half a float64 step away. It is used when all of those round
    to one nanosecond, as texts of whole nanoseconds do below 2**41 us (25 days). Up to 2**43 us
    steps are under 1 ns: no two texts of whole nanoseconds share a value, so it is also used when
    it is the float64 nearest to a whole nanosecond and no text in the piece is finer.

    Returns:
        None when the nanoseconds of one text are in doubt.
    """
    values = np.frombuffer(array("d", microseconds), dtype=np.float64)
    stated = ~np.isnan(values)
    known = values[stated]
    if np.any(np.abs(known) >= float(1 << 43)):
        return None
    whole = np.floor(known)
    fraction_ns = (known - whole) * 1000.0
    rounded_ns = np.rint(fraction_ns)
    nanoseconds = (whole * 1000.0 + rounded_ns).astype(np.int64)
    reach_ns = np.spacing(np.abs(known)) * 500.0 + _FLOAT_SLACK_NS
    one_rounding = np.abs(fraction_ns - rounded_ns) + reach_ns < 0.5
    if not one_rounding.all():
        nearest = one_rounding | (nanoseconds / 1000.0 == known)
        if not nearest.all() or written.finer_than_ns.search(written.text):
            return None
    result = np.full(values.shape, NO_TIME, dtype=np.int64)
    result[stated] = nanoseconds
    return result


def _text_ns(microseconds: Sequence[msgspec.Raw], _: _Written) -> Nanoseconds | None:
    """Nanoseconds of texts with up to three decimals: since 1970 they are beyond float64."""
    text = b",".join(microseconds)
    if not text:
        return None if microseconds else np.empty(0, dtype=np.int64)
    if _MICROSECONDS.fullmatch(text) is None:
        return None
    parts = [each.partition(b".") for each in text.split(b",")]
    nanoseconds = [int(whole + part.ljust(3, b"0")) for whole, _, part in parts]
    return np.array(nanoseconds, dtype=np.int64) if max(nanoseconds) < _LATEST_NS else None


def _decimal_ns(microseconds: Sequence[Decimal], _: _Written) -> Nanoseconds | None:
    return np.array([_rounded_ns(value) for value in microseconds], dtype=np.int64)


def _rounded_ns(microseconds: Decimal) -> int:
    """The nearest nanosecond, ties to even; NO_TIME for what int64 cannot hold."""
    if not microseconds.is_finite() or microseconds.adjusted() > 15:
        return NO_TIME
    nanoseconds = int((microseconds * 1000).to_integral_value(ROUND_HALF_EVEN))
    return nanoseconds if abs(nanoseconds) < _LATEST_NS else NO_TIME


class _Clock(NamedTuple):
    """A way to write times: how events are decoded, and their microseconds made nanoseconds.

    Each of the two gives None when a time does not fit it, or is in doubt.
    """

    decoder: msgspec.json.Decoder[Any]
    starts_ns: Callable[[Sequence[Any], _Written], Nanoseconds | None]
    durations_ns: Callable[[Sequence[Any], _Written], Nanoseconds | None]


# From quick to slow; a file keeps the first that holds all its times exactly.
_CLOCKS: Final = (
    _Clock(msgspec.json.Decoder(list[_IntegerEvent]), _integer_ns, _integer_ns),
    _Clock(msgspec.json.Decoder(list[_FloatEvent]), _float_ns, _float_ns),
    _Clock(msgspec.json.Decoder(list[_TextEvent]), _text_ns, _float_ns),
    _Clock(msgspec.json.Decoder(list[_DecimalEvent]), _decimal_ns, _decimal_ns),
)
_ONE_EVENT: Final = msgspec.json.Decoder(_DecimalEvent)


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
            buffer, at_end = self._filled(buffer, target)
            quick = self._quick_piece(buffer)
            if quick is not None:
                piece, cut = quick
                yield piece
                buffer, target = buffer[cut:], PIECE_BYTES
                continue
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

    def _filled(self, buffer: bytes, target: int) -> tuple[bytes, bool]:
        """The buffer up to a length, from its first event on, and whether the text ends in it."""
        missing = max(target - len(buffer), 0)
        more = self._text.read(missing)
        buffer += more
        between = _BETWEEN_EVENTS.match(buffer)
        return buffer[between.end() if between else 0 :], len(more) < missing

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

    def _quick_piece(self, buffer: bytes) -> tuple[Piece, int] | None:
        """Cut where the text looks like the last border; decoding proves that it is one."""
        cut = buffer.rfind(self._border) + 1 if self._border else 0
        if not cut or 2 * cut < len(buffer):  # small cuts would copy the rest over and over
            return None
        piece = self._decoded(memoryview(buffer)[:cut])
        return None if piece is None else (piece, cut)

    def _decoded(self, events: bytes | memoryview) -> Piece | None:
        text = b"".join((b"[", events, b"]"))
        for index in range(self._clock, len(_CLOCKS)):
            clock = _CLOCKS[index]
            try:
                decoded = clock.decoder.decode(text)
            except msgspec.ValidationError:
                continue
            except _UNREADABLE:
                return None
            piece = self._piece(decoded, clock, text)
            if piece is not None:
                self._clock = index
                return piece
        return None

    def _piece(self, events: Sequence[Any], clock: _Clock, text: bytes) -> Piece | None:
        spans = [event for event in events if event.cat in self._wanted and event.ph == "X"]
        labels = [event for event in events if event.ph == "M"]
        start_ns = clock.starts_ns([span.ts for span in spans], _Written(text, _FINE_START))
        duration_ns = clock.durations_ns(
            [span.dur for span in spans], _Written(text, _FINE_DURATION)
        )
        if start_ns is None or duration_ns is None:
            return None
        return Piece(spans, labels, start_ns, duration_ns, len(events))

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
            found = (self._one(text[start:end]) for start, end in scan_array(text).events)
            piece = self._piece([event for event in found if event is not None], _CLOCKS[-1], text)
        if piece is not None:
            yield piece

    def _one(self, text: bytes) -> _DecimalEvent | None:
        try:
            return _ONE_EVENT.decode(text)
        except _UNREADABLE:
            pass
        try:
            event = _lenient(_plain_json(text), self.notes)
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


def _lenient(raw: Mapping[str, Any], notes: Counter[str]) -> _DecimalEvent:
    """An event whose values may have any type: those of a wrong one are taken as missing."""
    arguments = raw.get("args")
    arguments = arguments if isinstance(arguments, dict) else {}
    correlation = whole_number(arguments.get("correlation"))
    if correlation is None and arguments.get("correlation") is not None:
        notes["correlation ids that are not whole numbers were taken as missing"] += 1
    return _DecimalEvent(
        ph=_string(raw.get("ph")),
        cat=_string(raw.get("cat")),
        name=_string(raw.get("name")),
        pid=_identity(raw.get("pid")),
        tid=_identity(raw.get("tid")),
        ts=_decimal(raw.get("ts")),
        dur=_decimal(raw.get("dur")),
        args=Arguments(
            correlation=correlation or 0,
            device=whole_number(arguments.get("device")),
            stream=whole_number(arguments.get("stream")),
            graph_id=whole_number(arguments.get("graph id")) or 0,
            graph_node_id=whole_number(arguments.get("graph node id")) or 0,
            cuda_sync_kind=arguments.get("cuda_sync_kind"),
            finished=arguments.get("finished"),
            name=arguments.get("name"),
        ),
    )


def whole_number(value: object) -> int | None:
    """An integer, also when it was written as text or with a fraction of zero."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if not isinstance(value, str | float | Decimal):
        return None
    try:
        number = Decimal(str(value))
        whole = number.is_finite() and number.adjusted() < _MOST_DIGITS and number == round(number)
    except InvalidOperation:
        return None
    return int(number) if whole else None


def _identity(value: object) -> int | str | None:
    number = whole_number(value)
    return number if number is not None else value if isinstance(value, str) else None


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _decimal(value: object) -> Decimal:
    try:
        return Decimal(str(value)) if isinstance(value, int | str | Decimal) else Decimal("nan")
    except InvalidOperation:
        return Decimal("nan")
