"""One event of a Kineto trace, and the decoders of a list of them, from quick to lenient.

A quick decoder looks at the phase (`ph`) first: of an event that is neither a span nor a label it
makes nothing, and half of a trace of graph replays are arrows between the two. A patient one takes
events of any phase, and such without one; a lenient one takes values of any type.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import msgspec

from traceanalyzer.importers.kineto_times import (
    NO_TIME,
    decimal_ns,
    float_ns,
    integer_ns,
    text_ns,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Mapping, Sequence

    from traceanalyzer.importers.kineto_times import Nanoseconds, Written


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

    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    args: Arguments = Arguments()


SPAN, LABEL = "X", "M"
"""The phases that a Trace needs: a complete event, and the name of a process or thread."""
# Those of Google's Trace Event Format; an event of another phase takes the patient decoder.
_OTHER_PHASES: Final = "BEIiCbneSTpFstfPNODVvRc(),"


class _Label(Event, tag_field="ph", tag=LABEL, gc=False):
    pass


_OTHERS: Final = [
    msgspec.defstruct(f"_Phase{place}", [], tag_field="ph", tag=phase, gc=False)
    for place, phase in enumerate(_OTHER_PHASES)
]


class PatientEvent(Event, gc=False):
    """An event of any phase."""

    ph: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The events of a list that a Trace may need, and how many it holds of any phase."""

    spans: list[Any]
    labels: list[Any]
    events: int


@dataclass(frozen=True, slots=True)
class Clock:
    """A way to write times: how events are decoded, and their microseconds made nanoseconds.

    Attributes:
        span: What the quick decoder makes of a span.
        quick: Decodes lists of events of the usual phases.
        patient: Decodes lists of events of any phase.
        starts_ns: None when a time does not fit this clock, or is in doubt.
        durations_ns: The same for durations.
    """

    span: type
    quick: Callable[[bytes], list[Any]]
    patient: Callable[[bytes], list[Any]]
    starts_ns: Callable[[Sequence[Any], Written], Nanoseconds | None]
    durations_ns: Callable[[Sequence[Any], Written], Nanoseconds | None]

    def decoded(self, text: bytes, wanted: Collection[str | None]) -> Decoded:
        """The events of a list; of the spans those of wanted categories.

        Raises:
            msgspec.ValidationError: An event does not fit this clock.
            msgspec.DecodeError: The text is not valid.
        """
        try:
            events = self.quick(text)
        except msgspec.ValidationError:
            of_any = self.patient(text)
            spans = [event for event in of_any if event.ph == SPAN and event.cat in wanted]
            return Decoded(spans, [event for event in of_any if event.ph == LABEL], len(of_any))
        span: Any = self.span  # its look-up by `isinstance` would take twice as long
        spans = [event for event in events if event.__class__ is span and event.cat in wanted]
        labels = [event for event in events if event.__class__ is _Label]
        return Decoded(spans, labels, len(events))


def _kinds(start: tuple[Any, Any], duration: tuple[Any, Any]) -> tuple[type, type]:
    """A span with times of some types and values for missing ones, and an event of any phase."""
    times = [("ts", *start), ("dur", *duration)]
    span = msgspec.defstruct("_Span", times, bases=(Event,), tag_field="ph", tag=SPAN, gc=False)
    return span, msgspec.defstruct("_Event", times, bases=(PatientEvent,), gc=False)


def _usual(span: type) -> Any:
    """An event of any of the usual phases."""
    return reduce(or_, [span, _Label, *_OTHERS])


def _clock(
    times: tuple[tuple[Any, Any], tuple[Any, Any]],
    starts_ns: Callable[[Sequence[Any], Written], Nanoseconds | None],
    durations_ns: Callable[[Sequence[Any], Written], Nanoseconds | None],
) -> Clock:
    span, event = _kinds(*times)
    quick = msgspec.json.Decoder(list[_usual(span)])  # type: ignore[misc]
    patient = msgspec.json.Decoder(list[event])  # type: ignore[valid-type]
    return Clock(span, quick.decode, patient.decode, starts_ns, durations_ns)


_WHOLE: Final = (int, NO_TIME)
_FLOAT: Final = (float, float("nan"))
_TEXT: Final = (msgspec.Raw, msgspec.Raw(b""))
_DECIMAL: Final = (Decimal, Decimal("nan"))
CLOCKS: Final = (
    _clock((_WHOLE, _WHOLE), integer_ns, integer_ns),
    _clock((_FLOAT, _FLOAT), float_ns, float_ns),
    _clock((_TEXT, _FLOAT), text_ns, float_ns),
    _clock((_DECIMAL, _DECIMAL), decimal_ns, decimal_ns),
)
"""From quick to slow; a file keeps the first that holds all its times exactly."""


class DecimalEvent(PatientEvent, gc=False):
    """An event of any phase, with times of any length."""

    ts: Decimal = Decimal("nan")
    dur: Decimal = Decimal("nan")


_ONE_USUAL: Final = msgspec.json.Decoder(_usual(CLOCKS[-1].span))
_ONE_EVENT: Final = msgspec.json.Decoder(DecimalEvent)
_MOST_DIGITS: Final = 20  # of an id; int64 holds fewer


def decoded_one(text: bytes) -> Any:
    """One event as the last clock decodes it in a list.

    Raises:
        msgspec.MsgspecError: It is not valid, or not as Kineto writes events.
    """
    try:
        return _ONE_USUAL.decode(text)
    except msgspec.ValidationError:
        return _ONE_EVENT.decode(text)


def phase_of(event: Any) -> str:
    """The phase of an event of any decoder."""
    return str(event.ph if isinstance(event, PatientEvent) else event.__struct_config__.tag)


def lenient(raw: Mapping[str, Any], notes: Counter[str]) -> DecimalEvent:
    """An event whose values may have any type: those of a wrong one are taken as missing."""
    arguments = raw.get("args")
    arguments = arguments if isinstance(arguments, dict) else {}
    correlation = whole_number(arguments.get("correlation"))
    if correlation is None and arguments.get("correlation") is not None:
        notes["correlation ids that are not whole numbers were taken as missing"] += 1
    return DecimalEvent(
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
