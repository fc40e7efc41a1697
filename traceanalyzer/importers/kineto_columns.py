"""The events of a torch.profiler trace, sorted into columns of the Trace's tables.

Rows keep the order of the file, and names and threads are numbered in it, so where the text was
cut into pieces leaves no mark on the result.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceanalyzer.importers.interning import Names
from traceanalyzer.importers.kineto_json import NO_TIME, Event, Piece, whole_number
from traceanalyzer.schema import OP_KINDS, SYNC_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

# Capitalised categories are those of torch 1.8; HIP calls come as cuda_runtime too.
_OP_CATEGORIES: Final = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
}
_LAUNCH, _ANNOTATION, _SYNC, _CPU_OP, _OPERATOR, _WINDOW, _OVERHEAD = range(
    len(OP_KINDS), len(OP_KINDS) + 7
)
_ROLES: Final[Mapping[str | None, int]] = {
    **{category: OP_KINDS.index(kind) for category, kind in _OP_CATEGORIES.items()},
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), _LAUNCH),
    "user_annotation": _ANNOTATION,
    "cuda_sync": _SYNC,
    "cpu_op": _CPU_OP,
    "Operator": _OPERATOR,
    "Trace": _WINDOW,
    "overhead": _OVERHEAD,
}
_CPU_ROLES: Final = (_LAUNCH, _ANNOTATION, _CPU_OP, _OPERATOR)
WANTED: Final = frozenset(category for category in _ROLES if category is not None)
"""Categories of the spans that `KinetoColumns` takes."""

_SYNC_KINDS: Final = {
    "Stream Wait Event": "stream_wait_event",
    "Event Sync": "event",
    "Stream Sync": "stream",
    "Context Sync": "context",
}
_TRAILING_NUMBER: Final = re.compile(r"(\d{1,18})\s*\Z")  # torch 1.8: "tid": "stream 7"
_OLD_DIALECT: Final = (
    "this torch version writes record_function ranges as plain operators: the trace has no ranges"
)
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1


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
    """The columns of the tables so far, as arrays a piece, and what was seen on the way."""

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

    def add(self, piece: Piece) -> None:
        """Sort the events of one piece into the tables, in their order."""
        self.events += piece.events
        self.spans += len(piece.spans)
        self._add_labels(piece.labels)
        piece = self._timed(piece)
        spans = piece.spans
        roles = np.array([_ROLES[span.cat] for span in spans], dtype=np.int8)
        if np.any(roles == _OPERATOR):
            self.notes["info", _OLD_DIALECT] = 1
        on_cpu = np.isin(roles, _CPU_ROLES).tolist()
        self.process_ids.update(map(attrgetter("pid"), compress(spans, on_cpu)))
        rows = _Rows(piece, roles, self)
        rows.add_ops()
        rows.add_launches()
        rows.add_ranges()
        rows.add_syncs()
        rows.add_overheads()

    def append(self, table: str, **columns: npt.NDArray[Any]) -> None:
        """Add rows to a table, by columns of one length."""
        for name, values in columns.items():
            self.tables[table][name].append(values)

    def frame(self, table: str) -> pl.DataFrame:
        """A table's columns end to end."""
        return pl.DataFrame(
            {name: np.concatenate(parts) for name, parts in self.tables[table].items()}
        )

    def ids(self, values: Sequence[int]) -> npt.NDArray[np.int64]:
        """Ids as int64; one that does not fit becomes 0, which is none."""
        try:
            return np.frombuffer(array("q", values), dtype=np.int64)
        except OverflowError:
            fitting = [value if abs(value) <= INT64_MAX else 0 for value in values]
            self.notes["warning", "ids of more than 64 bits were taken as missing"] += 1
            return np.frombuffer(array("q", fitting), dtype=np.int64)

    def _timed(self, piece: Piece) -> Piece:
        """The piece without events that have no start, with durations of 0 ns or more."""
        stated = piece.start_ns != NO_TIME
        if not stated.all():
            text = "events without a usable time were left out"
            self.notes["warning", text] += int(np.count_nonzero(~stated))
            kept = np.flatnonzero(stated)
            piece = Piece(
                [piece.spans[row] for row in kept.tolist()],
                piece.labels,
                piece.start_ns[kept],
                piece.duration_ns[kept],
                piece.events,
            )
        negative = (piece.duration_ns < 0) & (piece.duration_ns != NO_TIME)
        if negative.any():
            text = "events with a negative duration were taken as 0 ns long"
            self.notes["warning", text] += int(np.count_nonzero(negative))
        self._widen(piece)
        return piece

    def _widen(self, piece: Piece) -> None:
        lengths = np.maximum(piece.duration_ns, 0)
        known = (piece.start_ns != 0) | (lengths != 0)  # 0/0 is an op that was not collected
        if known.any():
            self.first_ns = min(self.first_ns, int(piece.start_ns[known].min()))
            self.last_ns = max(self.last_ns, int((piece.start_ns + lengths)[known].max()))

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
    """The rows of one piece."""

    def __init__(self, piece: Piece, roles: npt.NDArray[np.int8], columns: KinetoColumns) -> None:
        self._spans = piece.spans
        self._roles = roles
        self._columns = columns
        self._start_ns = piece.start_ns
        self._duration_ns = piece.duration_ns
        self._end_ns = piece.start_ns + np.maximum(piece.duration_ns, 0)
        # Names and threads are numbered in the order of the file, wherever pieces were cut.
        rows, named = self._of((roles <= _ANNOTATION) | (roles == _OVERHEAD))
        self._name = np.zeros(len(roles), dtype=np.int32)
        self._name[rows] = [columns.names[span.name] for span in named]
        rows, callers = self._of((roles == _LAUNCH) | (roles == _ANNOTATION))
        self._thread = np.zeros(len(roles), dtype=np.int32)
        self._thread[rows] = [columns.threads[span.tid] for span in callers]

    def _of(self, chosen: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp], list[Event]]:
        return np.flatnonzero(chosen), list(compress(self._spans, chosen.tolist()))

    def add_ops(self) -> None:
        rows, ops = self._of(self._roles < _LAUNCH)
        self._note_missing_durations(rows)
        ids = self._columns.ids
        self._columns.append(
            "ops",
            start_ns=self._start_ns[rows],
            end_ns=self._end_ns[rows],
            kind=self._roles[rows],
            device_id=self._devices(ops),
            stream_id=self._streams(ops),
            correlation_id=ids([op.args.correlation for op in ops]),
            name=self._name[rows],
            graph_node_id=ids([op.args.graph_node_id for op in ops]),
            graph_id=ids([op.args.graph_id for op in ops]),
        )

    def add_launches(self) -> None:
        rows, calls = self._of(self._roles == _LAUNCH)
        self._note_missing_durations(rows)
        self._columns.append(
            "launches",
            start_ns=self._start_ns[rows],
            end_ns=self._end_ns[rows],
            thread=self._thread[rows],
            correlation_id=self._columns.ids([call.args.correlation for call in calls]),
            name=self._name[rows],
        )

    def add_ranges(self) -> None:
        rows, annotations = self._of(self._roles == _ANNOTATION)
        has_end = self._duration_ns[rows] != NO_TIME
        finished = np.array(
            [str(span.args.finished).lower() != "false" for span in annotations], dtype=np.bool_
        )
        closed = has_end & finished
        if not closed.all():
            text = "annotations that the recording's end cut off"
            self._columns.notes["info", text] += int(np.count_nonzero(~closed))
        self._columns.append(
            "ranges",
            start_ns=self._start_ns[rows],
            end_ns=np.where(has_end, self._end_ns[rows], NO_TIME),
            thread=self._thread[rows],
            name=self._name[rows],
            closed=closed,
        )

    def add_syncs(self) -> None:
        rows, syncs = self._of(self._roles == _SYNC)
        self._note_missing_durations(rows)
        ids = self._columns.ids
        kinds = [_SYNC_KINDS.get(str(sync.args.cuda_sync_kind), "unknown") for sync in syncs]
        devices = [_ordinal(sync.args.device) for sync in syncs]
        streams = [sync.args.stream for sync in syncs]
        self._columns.append(
            "syncs",
            start_ns=self._start_ns[rows],
            end_ns=self._end_ns[rows],
            kind=np.array([SYNC_KINDS.index(kind) for kind in kinds], dtype=np.int8),
            device_id=ids([-1 if device is None else device for device in devices]),
            stream_id=ids([-1 if stream is None else stream for stream in streams]),
            correlation_id=ids([sync.args.correlation for sync in syncs]),
        )

    def add_overheads(self) -> None:
        rows, _ = self._of(self._roles == _OVERHEAD)
        self._columns.append(
            "overheads",
            start_ns=self._start_ns[rows],
            end_ns=self._end_ns[rows],
            name=self._name[rows],
        )

    def _note_missing_durations(self, rows: npt.NDArray[np.intp]) -> None:
        missing = int(np.count_nonzero(self._duration_ns[rows] == NO_TIME))
        if missing:
            text = "events without a duration were taken as 0 ns long"
            self._columns.notes["warning", text] += missing

    def _devices(self, ops: Sequence[Event]) -> npt.NDArray[np.int64]:
        devices = [op.args.device for op in ops]
        if None in devices:
            devices = [
                whole_number(op.pid) if device is None else device
                for op, device in zip(ops, devices, strict=True)
            ]
        if any(_ordinal(device) is None for device in set(devices)):
            devices = [_ordinal(device) for device in devices]
        return self._known(devices, "devices")

    def _streams(self, ops: Sequence[Event]) -> npt.NDArray[np.int64]:
        streams = [op.args.stream for op in ops]
        if None in streams:
            streams = [
                _stream_of_row(op.tid) if stream is None else stream
                for op, stream in zip(ops, streams, strict=True)
            ]
        return self._known(streams, "streams")

    def _known(self, values: Sequence[int | None], what: str) -> npt.NDArray[np.int64]:
        unknown = values.count(None)
        if unknown:
            text = f"ops of unknown {what} were put on number 0"
            self._columns.notes["warning", text] += unknown
        return self._columns.ids([value or 0 for value in values])


def _ordinal(device: int | None) -> int | None:
    """A device ordinal that a table can hold."""
    return device if device is not None and abs(device) <= INT32_MAX else None


def _stream_of_row(thread_id: int | str | None) -> int | None:
    """The stream a GPU event's row stands for: 7, "7" or "stream 7"."""
    if isinstance(thread_id, str):
        number = _TRAILING_NUMBER.search(thread_id)
        return None if number is None else int(number[1])
    return thread_id
