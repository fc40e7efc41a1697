"""Traces of torch.profiler, repeated in time in their own layout until they are large enough.

Only numbers are replaced in the text, so that white space, key order and number formats stay those
of the file, whoever wrote it.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from peers.nsys_growth import mark_units

from nvtx_hooks.vocabulary import NO_CYCLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAYOUTS: Final[dict[str, dict[str, Any]]] = {
    "minified": {"separators": (",", ":")},
    "one line": {},
    "indented by 1": {"indent": 1},
    "indented by 4": {"indent": 4},
}
"""How json.dump may have written a trace again; Kineto's own layout is that of the simulation."""

_ID_STEP: Final = 10**7
_EVENTS: Final = re.compile(r'"traceEvents"\s*:\s*\[\s*')
_GAP: Final = re.compile(r"[\s,]*")
_NUMBER: Final = re.compile(
    r'"(ts|correlation|External id|Ev Idx|id)"\s*:\s*(-?\d+)'
    r'|"eagle:([a-z_.]+):(\d+)"'
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A trace's text in pieces: head, event texts, what stands between two, tail."""

    head: str
    events: list[tuple[str, dict[str, Any]]]
    between: str
    tail: str


def read_text(path: Path) -> str:
    """A trace's text, unpacked."""
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode(errors="replace")


def relaid(text: str, layout: str) -> str:
    """The same trace as another program would write it."""
    return json.dumps(json.loads(text), **LAYOUTS[layout])


def copies_for(text: str, megabytes: float) -> int:
    """Repetitions of a trace that reach a size."""
    return max(1, -(-int(megabytes * 1e6) // len(text.encode())))


def grow(text: str, target: Path, copies: int, cycles: int = 0) -> None:
    """Write a trace `copies` times in a row into one document; its cycle numbers go on."""
    parts = _split(text)
    moving = [(own, event) for own, event in parts.events if _moves(event)]
    span_us = _span(event for _own, event in moving)
    pieces = _pieces(parts.between.join(own for own, _event in moving))
    with target.open("w", encoding="utf-8") as out:
        out.write(parts.head + parts.between.join(own for own, _event in parts.events))
        for copy in range(1, copies):
            out.write(parts.between)
            out.write("".join(_moved(pieces, copy, span_us, cycles)))
        out.write(parts.tail)


def _split(text: str) -> _Parts:
    opening = _EVENTS.search(text)
    if opening is None:
        raise ValueError("no traceEvents")
    decoder, place, events = json.JSONDecoder(strict=False), opening.end(), []
    between = ""
    while text[place] != "]":
        event, end = decoder.raw_decode(text, place)
        events.append((text[place:end], event))
        gap = _GAP.match(text, end)
        assert gap is not None
        between, place = between or gap[0], gap.end()
    last = text.rindex(events[-1][0], 0, place) + len(events[-1][0])
    return _Parts(text[: opening.end()], events, between, text[last:])


def _moves(event: dict[str, Any]) -> bool:
    """Whether an event is repeated: names of threads and notes on the whole recording are not."""
    timed = isinstance(event.get("ts"), int | float) and isinstance(event.get("pid"), int)
    return timed and event.get("ph") in ("X", "s", "t", "f", "i")


def _span(events: Iterator[dict[str, Any]]) -> int:
    times = [(event["ts"], event["ts"] + event.get("dur", 0)) for event in events]
    longest = max(end for _start, end in times) - min(start for start, _end in times)
    return int(longest) + 1000


def _pieces(body: str) -> list[str | tuple[str, int]]:
    """Literal text, and between it numbers with what they are: a key, or `eagle:` and a name."""
    pieces: list[str | tuple[str, int]] = []
    reached = 0
    for match in _NUMBER.finditer(body):
        group = 2 if match[1] else 4
        pieces += (
            body[reached : match.start(group)],
            (match[1] or f"eagle:{match[3]}", int(match[group])),
        )
        reached = match.end(group)
    return [*pieces, body[reached:]]


def _moved(
    pieces: list[str | tuple[str, int]], copy: int, span_us: int, cycles: int
) -> Iterator[str]:
    shifts = dict.fromkeys(("correlation", "External id", "Ev Idx", "id"), copy * _ID_STEP)
    shifts["ts"] = copy * span_us
    shifts |= {f"eagle:{name}": copy * cycles * unit for name, unit in mark_units().items()}
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            what, number = piece
            in_range = 0 if number == NO_CYCLE else copy * cycles
            yield str(number + shifts.get(what, in_range))
