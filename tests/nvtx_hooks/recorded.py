"""A backend that keeps what hooks emit, and the checks that tests make of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nvtx_hooks import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Event(NamedTuple):
    """One call of a backend."""

    kind: str
    name: str
    payload: int
    thread: int


class Range(NamedTuple):
    """A closed range: `inside` names the ranges around it, outermost first."""

    name: str
    payload: int
    inside: tuple[str, ...]
    thread: int


class Mark(NamedTuple):
    """A mark, and the ranges it fell into."""

    name: str
    fields: dict[str, int]
    inside: tuple[str, ...]


@dataclass
class RecordingBackend:
    """Keeps every event of this process in order."""

    events: list[Event] = field(default_factory=list)
    name: str = "recording"
    records: bool = True

    def _keep(self, kind: str, name: str, payload: int) -> None:
        self.events.append(Event(kind, name, payload, threading.get_ident()))

    def push(self, name: str, payload: int) -> None:
        self._keep("push", name, payload)

    def pop(self) -> None:
        self._keep("pop", "", 0)

    def start(self, name: str, payload: int) -> str:
        self._keep("start", name, payload)
        return name

    def end(self, started: str) -> None:
        self._keep("end", started, 0)

    def mark(self, name: str, payload: int) -> None:
        self._keep("mark", name, payload)


@dataclass
class Recording:
    """What one process emitted, with every range closed where it should be."""

    ranges: list[Range] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def count(self, name: str) -> int:
        """Ranges of one name."""
        return sum(found.name == name for found in self.ranges)

    def of(self, name: str) -> list[Range]:
        """Ranges of one name, in the order they closed."""
        return [found for found in self.ranges if found.name == name]

    def marked(self, name: str) -> list[dict[str, int]]:
        """Fields of the marks of one name."""
        return [mark.fields for mark in self.marks if mark.name == name]


def read(events: Iterable[Event]) -> Recording:
    """Replay events, and fail on any range that does not nest or is left open."""
    recording = Recording()
    open_ranges: dict[int, list[tuple[str, int]]] = {}
    spans: dict[int, dict[str, int]] = {}
    for event in events:
        stack = open_ranges.setdefault(event.thread, [])
        started = spans.setdefault(event.thread, {})
        inside = (*started, *(name for name, _ in stack))
        if event.kind == "push":
            stack.append((event.name, event.payload))
        elif event.kind == "pop":
            assert stack, "a pop without a range"
            name, payload = stack.pop()
            recording.ranges.append(Range(name, payload, inside[:-1], event.thread))
        elif event.kind == "start":
            assert event.name not in started
            started[event.name] = event.payload
        elif event.kind == "end":
            payload = started.pop(event.name)
            recording.ranges.append(Range(event.name, payload, (), event.thread))
        else:
            fields = vocabulary.unpack(event.name, event.payload)
            recording.marks.append(Mark(event.name, fields, inside))
    assert not any(open_ranges.values()), f"ranges left open: {open_ranges}"
    assert not any(spans.values()), f"ranges left open: {spans}"
    return recording


def names(events: Sequence[Event]) -> str:
    """Events as one line: `(draft draft)` is a range that was opened and closed."""
    signs = {"push": "(", "start": "[", "mark": "."}
    return " ".join(
        ")"
        if event.kind == "pop"
        else f"{event.name}]"
        if event.kind == "end"
        else signs[event.kind] + event.name
        for event in events
    )
