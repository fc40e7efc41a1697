"""A timeline as a file for Perfetto (ui.perfetto.dev, trace_processor).

Field numbers are those of protos/perfetto/trace/perfetto_trace.proto in Perfetto 0.59. Tracks hang
below a track of their rank, not below a process: only there does Perfetto keep their order. All
lanes of one stream or thread bear one name, by which Perfetto draws them as one track.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.analyses.timeline_lanes.model import (
    CALLS,
    COLLECTIVES,
    CYCLES,
    GRAPH_LAUNCHES,
    NONE,
    STREAM,
)
from traceanalyzer.renderers.protobuf import (
    Messages,
    bytes_field,
    fixed64_column,
    fixed_part,
    message_column,
    number_column,
    number_field,
    numbered_texts,
    row_by_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes

    Int64s = NDArray[np.int64]

_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _SEQUENCE_FLAGS, _TRACK = 8, 10, 11, 12, 13, 60
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_CATEGORY, _ARGUMENT, _TYPE, _NAME, _TRACK_UUID, _FLOW = 3, 4, 9, 10, 11, 47
_BEGIN, _END = 1, 2
_CATEGORIES, _NAMES, _ARGUMENT_NAMES = 1, 2, 3
_INTERNED_ID, _INTERNED_TEXT = 1, 2
_UUID, _TRACK_NAME, _PARENT, _ORDERING, _ORDER = 1, 2, 5, 11, 12
_EXPLICIT: Final = 3
_ARGUMENT_NAME, _INTEGER = 1, 4

_SAME_SEQUENCE: Final = number_field(_SEQUENCE, 1)
_GZIP_LEVEL: Final = 5
_AT_ONCE: Final = 100_000
"""Slices written together, which bounds the memory."""


def perfetto_file(lanes: TimelineLanes) -> bytes:
    """A gzipped Perfetto trace of a whole timeline.

    A slice's category is its phase. Its arguments, as far as they are known: `cycle`, the number
    of its cycle within the rank, from 1; `correlation`, the id that an op shares with its launch;
    of a cycle also `number`, the engine's own, and the drafts `drafted` and `accepted`. A flow
    leads from each launch to its first op and on to its others.

    Collectives, which a timeline also shows apart, stand on their streams alone: what is in a file
    twice is counted twice. Times are those of the timeline, counted from its beginning where that
    lies below zero.
    """
    shift, columns = max(0, -lanes.origin_ns), _Columns.of(lanes)
    parts = [_texts(lanes, tuple(columns.arguments)), *_rank_tracks(lanes)]
    names = {(lane.kind, lane.group, lane.track): lane.title for lane in reversed(lanes.lanes)}
    for place, lane in enumerate(lanes.lanes):
        if lane.kind == COLLECTIVES:
            continue
        uuid, name = 1 + len(lanes.groups) + place, names[lane.kind, lane.group, lane.track]
        parts.append(_track(uuid, name, number_field(_PARENT, 1 + lane.group), place))
        for first in range(lane.first, lane.end, _AT_ONCE):
            rows = slice(first, min(first + _AT_ONCE, lane.end))
            parts.append(bytes(_slices(lanes, rows, columns, uuid, shift)))
    return gzip.compress(b"".join(parts), _GZIP_LEVEL, mtime=0)


def _texts(lanes: TimelineLanes, arguments: Sequence[str]) -> bytes:
    """The packet that numbers all texts, from 1; the others refer to it."""
    tables = ((_CATEGORIES, lanes.phases), (_NAMES, lanes.names), (_ARGUMENT_NAMES, arguments))
    of_entry = _INTERNED_ID, _INTERNED_TEXT
    interned = b"".join(numbered_texts(table, of_entry, texts) for table, texts in tables)
    return _packet(bytes_field(_INTERNED, interned), number_field(_SEQUENCE_FLAGS, _STATE_CLEARED))


def _rank_tracks(lanes: TimelineLanes) -> Iterator[bytes]:
    ordered = number_field(_ORDERING, _EXPLICIT)
    for place, title in enumerate(lanes.groups):
        yield _track(1 + place, title, ordered, place)


def _track(uuid: int, name: str, more: bytes, order: int) -> bytes:
    told = number_field(_UUID, uuid) + bytes_field(_TRACK_NAME, name)
    return _packet(bytes_field(_TRACK, told + more + number_field(_ORDER, order)))


def _packet(*fields: bytes) -> bytes:
    return bytes_field(_PACKET, b"".join((_SAME_SEQUENCE, *fields)))


@dataclass(frozen=True, slots=True)
class _Columns:
    """What is told of each span beside its name and phase.

    Attributes:
        flow: Number of its flow, from 1; 0 for none.
        arguments: By name, `NONE` where not known.
    """

    flow: Int64s
    arguments: Mapping[str, Int64s]

    @classmethod
    def of(cls, lanes: TimelineLanes) -> _Columns:
        spans, facts = lanes.spans, lanes.cycles
        cycle_rows = np.zeros(spans.size, bool)
        for lane in lanes.lanes:
            cycle_rows[lane.first : lane.end] = lane.kind == CYCLES
        arguments = {
            "cycle": np.append(facts.ordinal, NONE)[spans.cycle],
            "correlation": spans.correlation,
        }
        for name in ("number", "drafted", "accepted"):
            column = np.full(spans.size, NONE)
            column[cycle_rows] = getattr(facts, name)[spans.cycle[cycle_rows]]
            arguments[name] = column
        return cls(_flows(lanes), arguments)


def _flows(lanes: TimelineLanes) -> Int64s:
    """The flow of each span: a launch and its ops share one.

    A call that launched something has the phase of what it launched. Other calls may bear the
    same id and are not the launch.
    """
    spans = lanes.spans
    lengths = [lane.end - lane.first for lane in lanes.lanes]
    kinds = pl.Series([lane.kind for lane in lanes.lanes], dtype=pl.Categorical)
    processes = [lanes.processes[lane.group] for lane in lanes.lanes]
    frame = pl.DataFrame(
        {
            "kind": kinds.gather(np.repeat(np.arange(len(lengths)), lengths)),
            "process": np.repeat(np.array(processes, np.int64), lengths),
            "id": spans.correlation,
            "phase": spans.phase,
        }
    ).with_row_index("row")
    known = frame.filter(pl.col("id") >= 0)
    launches = known.filter(
        pl.col("kind").is_in([CALLS, GRAPH_LAUNCHES]) & (pl.col("phase") != NONE)
    ).select("process", "id", launch="row", flow=pl.int_range(1, pl.len() + 1))
    ops = known.filter(pl.col("kind") == STREAM).join(launches, on=["process", "id"])
    flow = np.zeros(spans.size, np.int64)
    flow[launches["launch"].to_numpy()] = launches["flow"].to_numpy()
    flow[ops["row"].to_numpy()] = ops["flow"].to_numpy()
    return flow


def _slices(
    lanes: TimelineLanes, rows: slice, columns: _Columns, uuid: int, shift: int
) -> Messages:
    """Begin and end of some spans of one track; they do not overlap, so each ends at once."""
    spans = lanes.spans
    start, phase, flow = spans.start_ns[rows], spans.phase[rows], columns.flow[rows]
    track = number_field(_TRACK_UUID, uuid)
    begin = [
        fixed_part(number_field(_TYPE, _BEGIN) + track, start.size),
        number_column(_NAME, spans.name[rows] + 1),
        number_column(_CATEGORY, phase + 1, phase != NONE),
        fixed64_column(_FLOW, flow, flow > 0),
    ]
    for place, values in enumerate(columns.arguments.values(), 1):
        known = values[rows] >= 0
        if known.any():
            name = fixed_part(number_field(_ARGUMENT_NAME, place), start.size)
            value = number_column(_INTEGER, values[rows], known)
            begin.append(message_column(_ARGUMENT, (name, value), known))
    end = [fixed_part(number_field(_TYPE, _END) + track, start.size)]
    return row_by_row([_events(start + shift, begin), _events(spans.end_ns[rows] + shift, end)])


def _events(time: Int64s, event: Sequence[Messages]) -> Messages:
    common = _SAME_SEQUENCE + number_field(_SEQUENCE_FLAGS, _NEEDS_STATE)
    parts = (
        number_column(_TIMESTAMP, time),
        fixed_part(common, time.size),
        message_column(_EVENT, event),
    )
    return message_column(_PACKET, parts)
