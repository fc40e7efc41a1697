"""The events of a torch.profiler trace, sorted into columns of the Trace's tables.

Rows keep the order of the file, and names and threads are numbered in it, so where the text was
cut into pieces leaves no mark on the result.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceanalyzer.importers.interning import Names
from traceanalyzer.importers.kineto_events import whole_number
from traceanalyzer.importers.kineto_roles import (
    ANNOTATIONS,
    CALLED,
    LAUNCHES,
    NAMED,
    ON_CPU,
    OPERATOR,
    OPS,
    OVERHEADS,
    ROLES,
    SYNCS,
    chosen,
    devices_of,
    ordinal,
    streams_of,
)
from traceanalyzer.importers.kineto_times import NO_TIME
from traceanalyzer.schema import SYNC_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from traceanalyzer.importers.kineto_events import Event
    from traceanalyzer.importers.kineto_json import Piece
    from traceanalyzer.importers.kineto_times import Nanoseconds

_SYNC_KINDS: Final = {
    "Stream Wait Event": "stream_wait_event",
    "Event Sync": "event",
    "Stream Sync": "stream",
    "Context Sync": "context",
}
_OLD_DIALECT: Final = (
    "this torch version writes record_function ranges as plain operators: the trace has no ranges"
)
INT64_MAX: Final = (1 << 63) - 1
_SPANS_AT_ONCE: Final = 1 << 16


class _ThreadRows(dict[int | str | None, int]):
    """Row of each thread by its id as written; "4093687616" and 4093687616 are one thread."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[int | str | None] = []

    def __missing__(self, thread_id: int | str | None) -> int:
        number = whole_number(thread_id) if isinstance(thread_id, str) else None
        if number is None:
            self[thread_id] = len(self.ids)
            self.ids.append(thread_id)
        else:
            self[thread_id] = self[number]
        return self[thread_id]


class _NameRows(dict[str, int]):
    """Row of each text in `names`, a dictionary look-up where it is known."""

    def __init__(self) -> None:
        super().__init__()
        self._names = Names()

    def __missing__(self, text: str) -> int:
        self[text] = self._names.id(text)
        return self[text]

    def table(self) -> pl.DataFrame:
        """The `names` table so far."""
        return self._names.table()


class KinetoColumns:
    """The columns of the tables so far, and what was seen on the way.

    Rows are gathered as plain arrays and sorted into the tables some ten thousand at a time: a
    piece has a few hundred spans, of which numpy's calls would cost as much as all else. What is
    odd is noted piece by piece all the same: reports tell notes in the order of the file.
    """

    def __init__(self) -> None:
        self.names = _NameRows()
        self.threads = _ThreadRows()
        self.tables: dict[str, defaultdict[str, list[npt.NDArray[Any]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.process_ids: Counter[int | str | None] = Counter()
        self.process_names: dict[int | None, str] = {}
        self.thread_names: dict[tuple[int | None, int | None], str] = {}
        self.notes: Counter[tuple[str, str]] = Counter()
        self.events = 0
        self.spans = 0
        self.first_ns = INT64_MAX
        self.last_ns = NO_TIME
        self._rows = _Rows()

    def add(self, piece: Piece) -> None:
        """Take the events of one piece, in their order."""
        self.events += piece.events
        self.spans += len(piece.spans)
        self._add_labels(piece.labels)
        if piece.spans:
            piece = self._timed(piece)
            self._note_negative_durations(piece)
            self._rows.add(piece, self)
            if len(self._rows.roles) >= _SPANS_AT_ONCE:
                self.finish()

    def finish(self) -> None:
        """Sort what was added into the tables."""
        rows, self._rows = self._rows, _Rows()
        _Sorting(rows, self).sort()

    def append(self, table: str, **columns: npt.NDArray[Any]) -> None:
        """Add rows to a table, by columns of one length."""
        for name, values in columns.items():
            self.tables[table][name].append(values)

    def frame(self, table: str) -> pl.DataFrame:
        """A table's columns end to end; they are handed out once, lest they be held twice."""
        columns = self.tables.pop(table)
        return pl.DataFrame({name: np.concatenate(columns.pop(name)) for name in [*columns]})

    def add_ids(self, column: array[int], values: list[int]) -> None:
        """Add ids to a column; one that does not fit into 64 bits becomes 0, which is none."""
        try:
            column.fromlist(values)
        except OverflowError:
            column.fromlist([value if abs(value) <= INT64_MAX else 0 for value in values])
            self.notes["warning", "ids of more than 64 bits were taken as missing"] += 1

    def _timed(self, piece: Piece) -> Piece:
        """The piece without events that have no start."""
        if piece.start_ns.min() != NO_TIME:
            return piece
        stated = piece.start_ns != NO_TIME
        text = "events without a usable time were left out"
        self.notes["warning", text] += int(np.count_nonzero(~stated))
        return replace(
            piece,
            spans=list(compress(piece.spans, stated.tolist())),
            start_ns=piece.start_ns[stated],
            duration_ns=piece.duration_ns[stated],
        )

    def _note_negative_durations(self, piece: Piece) -> None:
        if piece.duration_ns.min(initial=0) >= 0:
            return
        negative = int(np.count_nonzero((piece.duration_ns < 0) & (piece.duration_ns != NO_TIME)))
        if negative:
            text = "events with a negative duration were taken as 0 ns long"
            self.notes["warning", text] += negative

    def note_missing_durations(self, missing: int) -> None:
        """Say so where some of a table's rows have none."""
        if missing:
            text = "events without a duration were taken as 0 ns long"
            self.notes["warning", text] += missing

    def widen(self, start_ns: Nanoseconds, length_ns: Nanoseconds) -> None:
        """Take these spans into the recording's time."""
        known = (start_ns != 0) | (length_ns != 0)  # 0/0 is an op that was not collected
        if known.any():
            self.first_ns = min(self.first_ns, int(start_ns[known].min()))
            self.last_ns = max(self.last_ns, int((start_ns + length_ns)[known].max()))

    def _add_labels(self, labels: Iterable[Event]) -> None:
        for label in labels:
            text = label.args.name
            if not isinstance(text, str):
                continue
            process_id = whole_number(label.pid)
            if label.name == "process_name":
                self.process_names[process_id] = text
            elif label.name == "thread_name":
                self.thread_names[process_id, whole_number(label.tid)] = text


class _Rows:
    """The spans of some pieces, by columns; those of a table's own have a value for each of it."""

    def __init__(self) -> None:
        self.roles = bytearray()
        self.start_ns: list[Nanoseconds] = [np.zeros(0, np.int64)]
        self.duration_ns: list[Nanoseconds] = [np.zeros(0, np.int64)]
        self.name = array("i")
        self.thread = array("i")
        self.op_device, self.op_stream, self.op_correlation, self.graph_node, self.graph = (
            array("q") for _ in range(5)
        )
        self.call_correlation = array("q")
        self.closed = array("b")
        self.sync_kind = array("b")
        self.sync_device, self.sync_stream, self.sync_correlation = (array("q") for _ in range(3))

    def add(self, piece: Piece, columns: KinetoColumns) -> None:
        """Take the spans of one piece, all of which have a start."""
        spans = piece.spans
        roles = bytes([ROLES[span.cat] for span in spans])
        self.roles += roles
        self.start_ns.append(piece.start_ns)
        self.duration_ns.append(piece.duration_ns)
        if OPERATOR in roles:
            columns.notes["info", _OLD_DIALECT] = 1
        columns.process_ids.update([span.pid for span in chosen(spans, roles, ON_CPU)])
        # Names and threads are numbered in the order of the file, wherever pieces were cut.
        names, threads = columns.names, columns.threads
        self.name.fromlist([names[span.name] for span in chosen(spans, roles, NAMED)])
        self.thread.fromlist([threads[span.tid] for span in chosen(spans, roles, CALLED)])
        lacking = _without_duration(roles, piece.duration_ns)
        columns.note_missing_durations(_count(lacking, OPS))
        self._add_ops(chosen(spans, roles, OPS), columns)
        columns.note_missing_durations(_count(lacking, LAUNCHES))
        calls = [call.args.correlation for call in chosen(spans, roles, LAUNCHES)]
        columns.add_ids(self.call_correlation, calls)
        self._add_annotations(piece, roles, columns)
        columns.note_missing_durations(_count(lacking, SYNCS))
        self._add_syncs(chosen(spans, roles, SYNCS), columns)

    def _add_ops(self, ops: Sequence[Event], columns: KinetoColumns) -> None:
        arguments = [op.args for op in ops]
        columns.add_ids(self.op_device, devices_of(ops, arguments, columns.notes))
        columns.add_ids(self.op_stream, streams_of(ops, arguments, columns.notes))
        columns.add_ids(self.op_correlation, [each.correlation for each in arguments])
        columns.add_ids(self.graph_node, [each.graph_node_id for each in arguments])
        columns.add_ids(self.graph, [each.graph_id for each in arguments])

    def _add_annotations(self, piece: Piece, roles: bytes, columns: KinetoColumns) -> None:
        annotated = roles.translate(ANNOTATIONS)
        if 1 not in annotated:
            return
        durations = compress(piece.duration_ns.tolist(), annotated)
        closed = [
            duration != NO_TIME and str(annotation.args.finished).lower() != "false"
            for annotation, duration in zip(
                compress(piece.spans, annotated), durations, strict=True
            )
        ]
        self.closed.fromlist(closed)
        if not all(closed):
            text = "annotations that the recording's end cut off"
            columns.notes["info", text] += closed.count(False)

    def _add_syncs(self, syncs: Sequence[Event], columns: KinetoColumns) -> None:
        if not syncs:
            return
        kinds = [_SYNC_KINDS.get(str(sync.args.cuda_sync_kind), "unknown") for sync in syncs]
        devices = [ordinal(sync.args.device) for sync in syncs]
        streams = [sync.args.stream for sync in syncs]
        self.sync_kind.fromlist([SYNC_KINDS.index(kind) for kind in kinds])
        columns.add_ids(self.sync_device, [-1 if device is None else device for device in devices])
        columns.add_ids(self.sync_stream, [-1 if stream is None else stream for stream in streams])
        columns.add_ids(self.sync_correlation, [sync.args.correlation for sync in syncs])


class _Sorting:
    """Some rows on their way into the tables."""

    def __init__(self, rows: _Rows, columns: KinetoColumns) -> None:
        self._rows, self._columns = rows, columns
        self._roles = np.frombuffer(rows.roles, dtype=np.int8)
        self._start_ns = np.concatenate(rows.start_ns)
        self._duration_ns = np.concatenate(rows.duration_ns)
        length_ns = np.maximum(self._duration_ns, 0)
        columns.widen(self._start_ns, length_ns)
        self._end_ns = self._start_ns + length_ns
        self._name = self._spread(rows.name, NAMED)
        self._thread = self._spread(rows.thread, CALLED)

    def _spread(self, values: array[int], table: bytes) -> npt.NDArray[np.int32]:
        """Values of the spans of some roles, where those spans are."""
        spread = np.zeros(len(self._roles), dtype=np.int32)
        spread[self._of(table)] = values
        return spread

    def _of(self, table: bytes) -> npt.NDArray[np.intp]:
        return np.flatnonzero(np.frombuffer(table, dtype=np.int8)[self._roles])

    def sort(self) -> None:
        self._ops()
        self._launches()
        self._ranges()
        self._syncs()
        self._overheads()

    def _ops(self) -> None:
        rows, taken = self._of(OPS), self._rows
        self._columns.append(
            "ops",
            start_ns=self._start_ns[rows],
            end_ns=self._end_ns[rows],
            kind=self._roles[rows],
            device_id=np.array(taken.op_device),
            stream_id=np.array(taken.op_stream),
            correlation_id=np.array(taken.op_correlation),
            name=self._name[rows],
            graph_node_id=np.array(taken.graph_node),
            graph_id=np.array(taken.graph),
        )

    def _launches(self) -> None:
        rows = self._of(LAUNCHES)
        self._columns.append(
            "launches",
            start_ns=self._start_ns[rows],
            end_ns=self._end_ns[rows],
            thread=self._thread[rows],
            correlation_id=np.array(self._rows.call_correlation),
            name=self._name[rows],
        )

    def _ranges(self) -> None:
        rows = self._of(ANNOTATIONS)
        has_end = self._duration_ns[rows] != NO_TIME
        self._columns.append(
            "ranges",
            start_ns=self._start_ns[rows],
            end_ns=np.where(has_end, self._end_ns[rows], NO_TIME),
            thread=self._thread[rows],
            name=self._name[rows],
            closed=np.array(self._rows.closed, dtype=np.bool_),
        )

    def _syncs(self) -> None:
        rows, taken = self._of(SYNCS), self._rows
        self._columns.append(
            "syncs",
            start_ns=self._start_ns[rows],
            end_ns=self._end_ns[rows],
            kind=np.array(taken.sync_kind),
            device_id=np.array(taken.sync_device),
            stream_id=np.array(taken.sync_stream),
            correlation_id=np.array(taken.sync_correlation),
        )

    def _overheads(self) -> None:
        rows = self._of(OVERHEADS)
        self._columns.append(
            "overheads",
            start_ns=self._start_ns[rows],
            end_ns=self._end_ns[rows],
            name=self._name[rows],
        )


def _without_duration(roles: bytes, duration_ns: Nanoseconds) -> bytes:
    """The roles of the spans that state none."""
    if duration_ns.min(initial=0) >= 0:
        return b""
    return bytes(compress(roles, (duration_ns == NO_TIME).tolist()))


def _count(roles: bytes, table: bytes) -> int:
    """How many of the roles have a 1 in a table of all roles."""
    return roles.translate(table).count(1)
