"""A timeline's lanes as the bytes that its page decodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.kernels.classification import CLASSES
from traceanalyzer.phases.cycles import STATES
from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.html.pack import Column, pack
from traceanalyzer.renderers.palette import BLUE, phase_colour

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.analyses.timeline_lanes.model import CycleFacts, TimelineLanes

_LONGEST_NAME: Final = 20_000
_SHORT: Final = 60
_API_VERSION: Final = re.compile(r"_v\d{4,5}$")  # as in cudaGraphLaunch_v10000


def packed_lanes(lanes: TimelineLanes) -> bytes:
    """Pack a timeline; times are counted from its origin.

    Raises:
        InputError: A time or id is too large for a page to show exactly.
    """
    names, shorts = _shown_names(lanes)
    facts = dict(_cycle_columns(lanes.cycles, lanes.origin_ns))
    header = {
        "phases": lanes.phases,
        "colours": phase_colours(lanes.phases),
        "classes": CLASSES,
        "states": STATES,
        "groups": [safe(title) for title in lanes.groups],
        "processes": lanes.processes,
        "lanes": [
            {
                "kind": lane.kind,
                "group": lane.group,
                "track": lane.track,
                "title": safe(lane.title),
            }
            for lane in lanes.lanes
        ],
        "names": names,
        "shorts": shorts,
        "cycle_columns": list(facts),
        "end": lanes.end_ns - lanes.origin_ns,
        "shown": lanes.shown_ns
        and [(a - lanes.origin_ns, b - lanes.origin_ns) for a, b in lanes.shown_ns],
    }
    columns = {f"cycles.{name}": Column(values) for name, values in facts.items()}
    columns["name_class"] = Column(np.array(lanes.name_class, np.int64))
    for index, lane in enumerate(lanes.lanes):
        own = _span_columns(lanes, lane.first, lane.end)
        columns |= {f"{index}.{name}": column for name, column in own}
    return pack(header, columns)


def _shown_names(lanes: TimelineLanes) -> tuple[Sequence[str], Sequence[str]]:
    """The names, whole and short; of millions nearly all are fit to be shown as they are."""
    names: Sequence[str] = lanes.names
    if not "".join(names).isprintable() or max(map(len, names), default=0) > _LONGEST_NAME:
        names = [shown_name(text) for text in names]
    shorts = [
        short_name(name) if of >= 0 else _API_VERSION.sub("", name) if "_v" in name else name
        for name, of in zip(names, lanes.name_class, strict=True)
    ]
    return names, shorts


def phase_colours(phases: tuple[str, ...]) -> list[str]:
    """The colour of each phase; the last stands for several at once."""
    return [*map(phase_colour, phases[:-1]), BLUE]


def _span_columns(lanes: TimelineLanes, first: int, end: int) -> Iterator[tuple[str, Column]]:
    spans = lanes.spans
    start, stop = spans.start_ns[first:end], spans.end_ns[first:end]
    before = np.append(lanes.origin_ns, stop[:-1])
    # Spans of a lane do not overlap, so the way from one to the next is never negative.
    yield "gap", Column(start - before)
    yield "duration", Column(stop - start)
    yield "name", Column(spans.name[first:end])
    yield "phase", Column(spans.phase[first:end] + 1)
    yield "cycle", Column(spans.cycle[first:end], differences=True)
    yield "correlation", Column(spans.correlation[first:end], differences=True)


def _cycle_columns(facts: CycleFacts, origin_ns: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    yield "group", facts.group
    yield "ordinal", facts.ordinal
    yield "number", facts.number
    yield "state", facts.state
    yield "start", facts.start_ns - origin_ns
    yield "end", facts.end_ns - origin_ns
    yield "drafted", facts.drafted
    yield "accepted", facts.accepted
    yield "usual", facts.usual_ns


def shown_name(text: str) -> str:
    """A whole name, with what cannot be printed replaced; the middle of monsters is left out."""
    name = safe(text)
    if len(name) <= _LONGEST_NAME:
        return name
    half = _LONGEST_NAME // 2
    return f"{name[:half]} … {name[-half:]} [{len(name):,} characters]"


def short_name(name: str) -> str:
    """What fits on a span: a C++ function without return type, scopes and template arguments."""
    if "<" not in name and "::" not in name and not name.startswith("void "):
        return name[:_SHORT]
    text = name.replace("(anonymous namespace)", "").replace("{anonymous}", "")
    bare = re.split(r"\(", _without_angles(text), maxsplit=1)[0]
    last = bare.rsplit("::", 1)[-1].split()
    return last[-1][:_SHORT] if last else name[:_SHORT]


def _without_angles(text: str) -> str:
    """The text outside angle brackets; those that close nothing (`->`) stay."""
    kept, depth = [], 0
    for char in text:
        if char == "<":
            depth += 1
        elif char == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(char)
    return "".join(kept)
