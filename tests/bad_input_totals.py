"""GPU time of a trace, summed event by event with the standard library alone."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.fuzzing.sqlite_recount import recount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MOST_TEXT_BYTES: Final = 64 << 20
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = '"\\/bfnrtu'
_EVENTS: Final = '"traceEvents": ['


class Totals(NamedTuple):
    """Time of all kernels, and the union of GPU work on each process's GPU, ns."""

    kernel_ns: int
    busy_ns: int


def totals_in(path: Path) -> Totals | None:
    """Sum what a trace holds.

    Returns:
        None for folders, damaged databases, texts above 64 MiB, and what is no trace.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(16)
    try:
        if head == b"SQLite format 3\0":
            found = recount(path)
            return Totals(found.totals["kernel"][1], found.busy_ns)
        return _of_events(_text(path))
    except (sqlite3.Error, zlib.error, ValueError, RecursionError):
        return None


def totals_told(report: dict[str, Any]) -> Totals:
    """What a report, as JSON, tells of the same; of none without GPU work."""
    phases = [phase for rank in report["ranks"] for phase in rank["phases"]]
    coverage = report["coverage"]
    if coverage is None:
        return Totals(0, 0)
    return Totals(sum(phase["kernel_ns"] for phase in phases), coverage["busy_ns"])


def _text(path: Path) -> str:
    """A text, unpacked as far as it goes.

    Raises:
        ValueError: It is too long.
        zlib.error: It is damaged.
    """
    data = path.read_bytes() if path.stat().st_size <= _MOST_TEXT_BYTES else b""
    parts = []
    while data.startswith(b"\x1f\x8b"):
        member = zlib.decompressobj(wbits=31)
        parts.append(member.decompress(data, _MOST_TEXT_BYTES))
        if member.unconsumed_tail or sum(map(len, parts)) >= _MOST_TEXT_BYTES:
            raise ValueError("too long")
        data = member.unused_data
    return (b"".join(parts) or data).decode(errors="replace")


def _of_events(text: str) -> Totals | None:
    if _EVENTS not in text:
        return None
    kernels = [
        (event["pid"], _ns(event["ts"]), _ns(event["ts"]) + _ns(event["dur"]))
        for event in _whole_events(text)
        if event.get("cat") == "kernel" and {"pid", "ts", "dur"} <= event.keys()
    ]
    return Totals(sum(end - start for _, start, end in kernels), _busy(kernels))


def _whole_events(text: str) -> Iterator[dict[str, Any]]:
    """Events up to the end of the text or to one that breaks off; odd escapes stand for a sign."""
    decoder = json.JSONDecoder(strict=False, parse_float=Decimal)
    text = _ESCAPE.sub(lambda found: found[0] if found[1] in _ESCAPES else "?", text)
    at = text.index(_EVENTS) + len(_EVENTS)
    while True:
        while text[at : at + 1] in (" ", "\n", ","):
            at += 1
        if text[at : at + 1] != "{":
            return
        try:
            event, at = decoder.raw_decode(text, at)
        except ValueError:
            return
        yield event


def _ns(us: int | Decimal) -> int:
    return int(us * 1000)


def _busy(spans: Iterable[tuple[Any, int, int]]) -> int:
    lanes: defaultdict[Any, list[tuple[int, int]]] = defaultdict(list)
    for lane, start, end in spans:
        lanes[lane].append((start, end))
    busy = 0
    for lane in lanes.values():
        reached = min(lane)[0]
        for start, end in sorted(lane):
            busy += max(0, end - max(start, reached))
            reached = max(reached, end)
    return busy
