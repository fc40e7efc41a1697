"""From the tables of an nsys export to a Trace, whichever container they came in.

Columns are looked up, never positional: nsys adds, renames and drops them between versions, and a
missing table is a fact about the capture rather than an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import polars as pl

from traceanalyzer import schema
from traceanalyzer.importers.interning import Ids, Names, NamesById
from traceanalyzer.importers.nsys_metadata import (
    cuda_ordinals,
    export_metadata,
    gpu_names,
    limits_of_export,
)
from traceanalyzer.importers.people import impersonal
from traceanalyzer.importers.ranks import rank_in
from traceanalyzer.importers.stacking import Stack
from traceanalyzer.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from traceanalyzer.progress import Progress

TEXT_COLUMNS: Final = frozenset({"value", "text", "name"})
"""Columns of the tables read here that hold text; every other one holds integers."""

_THREAD_BITS = 24  # globalTid = hardware 8 bits, VM 8, process 24, thread 24 (nsys User Guide)
_THREAD_MASK = (1 << _THREAD_BITS) - 1
_PROCESS_MASK = (1 << 24) - 1

_LATEST_NS: Final = 1 << 62  # the difference of two times below it fits int64
_LONGEST_NS: Final = 1 << 50  # 13 days: the sum of thousands of such rows fits int64

_PUSH_POP, _START_END, _MARK, _DOMAIN_CREATE = (59, 70), (60, 71), 34, 75
_API_EVENT_CLASSES = (0, 1)  # 67 is a second row a call, written with CUDA backtraces
_SEVERITIES = {1: "info", 2: "warning", 3: "error"}
_COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}

_OP_COLUMNS: Final = {
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "kind": pl.Enum(schema.OP_KINDS),
    "launched_by": pl.Int32(),  # row in `op_processes`
    "device_id": pl.Int64(),
    "stream_id": pl.Int64(),
    "correlation_id": pl.Int64(),
    "name": pl.Int32(),
    "graph_node_id": pl.Int64(),
    "graph_id": pl.Int64(),
    "graph_exec_id": pl.Int64(),
}
_GRAPH_IDS: Final = {
    "graphNodeId": "graph_node_id",
    "graphId": "graph_id",
    "graphExecId": "graph_exec_id",
}
_LAUNCH_COLUMNS: Final = {
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "caller": pl.Int32(),  # row in `callers`
    "correlation_id": pl.Int64(),
    "name": pl.Int32(),
}

PROGRAM_FOLDERS: Final = r"^(?:/|[A-Za-z]:\\).*[/\\]"
"""What stands before a program's name where a process is named by its path."""

EMPTY_DOMAINS: Final = "NVTX domains were created, but no range or mark was recorded: "
"""How the note begins that tells of domains whose events all got lost."""

Keep = tuple[str, tuple[int, ...]]
"""A column and the values of it that are wanted."""


class NsysSource(Protocol):
    """An opened nsys export."""

    path: Path
    format: str
    lends_blocks: bool
    """Whether the columns of a block share memory, which is only free when all of them are."""

    def columns(self, table: str) -> frozenset[str]:
        """Column names of a table; empty when the export lacks it."""

    def read(self, table: str, columns: Sequence[str], keep: Keep | None = None) -> pl.DataFrame:
        """The columns as Int64, text as String; one the export lacks comes back as nulls.

        Rows come in the order of the file. `keep` filters by a column, which is then not returned
        unless it is asked for; it is ignored when the table lacks that column.
        """

    def blocks(
        self, table: str, columns: Sequence[str], keep: Keep | None = None
    ) -> Iterator[pl.DataFrame]:
        """The rows of `read`, some at a time."""

    def findings(self) -> list[tuple[str, int]]:
        """What had to be left out or repaired while reading, with the number of rows."""


def read_trace(source: NsysSource, progress: Progress) -> Trace:
    """Read every table the analyses need.

    Args:
        source: An opened export.
        progress: Told before each table.

    Returns:
        The trace of this one file; processes without ops, API calls or ranges are left out.
    """
    assembly = _Assembly(source)
    steps = (
        assembly.read_strings,
        assembly.read_launches,
        assembly.read_ops,
        assembly.read_nvtx,
        assembly.read_syncs,
        assembly.read_overheads,
        assembly.read_graph_nodes,
    )
    for done, step in enumerate(steps):
        progress("reading tables", done / len(steps))
        step()
    progress("reading tables", 1.0)
    return assembly.trace()


class _Assembly:
    """The frames of one export on their way into a Trace, keyed by nsys's own global ids."""

    def __init__(self, source: NsysSource) -> None:
        self.source = source
        self.names = Names()
        self.string_ids = NamesById(pl.Series(dtype=pl.Int64), pl.Series(dtype=pl.Int32))
        self.callers = Ids()
        self.launches = pl.DataFrame()
        self.op_processes = Ids()
        self.op_places: set[tuple[int | None, int]] = set()
        self.lone_key = 0
        self.ops = pl.DataFrame()
        self.ranges = pl.DataFrame()
        self.marks = pl.DataFrame()
        self.syncs = pl.DataFrame()
        self.overheads = pl.DataFrame()
        self.graph_nodes = pl.DataFrame()
        self.unused_domains: list[str] = []
        self.dropped: list[tuple[str, int]] = []

    def read_strings(self) -> None:
        strings = self.source.read("StringIds", ("id", "value")).drop_nulls("id")
        self.string_ids = NamesById(strings["id"], self.names.ids(strings["value"]))

    def read_launches(self) -> None:
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        columns = ("start", "end", "globalTid", "correlationId", "nameId")
        launches = Stack(_LAUNCH_COLUMNS, copying=self.source.lends_blocks)
        for block in self.source.blocks(table, columns, ("eventClass", _API_EVENT_CLASSES)):
            calls = self._timed(block, table, "globalTid")
            launches.add(
                calls.select(
                    start_ns="start",
                    end_ns="end",
                    caller=self.callers.rows(calls["globalTid"]),
                    correlation_id="correlationId",
                    name=self._string_names(calls["nameId"]),
                )
            )
        self.launches = launches.joined()

    def read_ops(self) -> None:
        ops = Stack(_OP_COLUMNS, copying=self.source.lends_blocks)
        self._read_op_table(ops, "KERNEL", "kernel")
        self._read_op_table(ops, "MEMCPY", "memcpy")
        self._read_op_table(ops, "MEMSET", "memset")
        self._read_op_table(ops, "GRAPH_TRACE", "graph")
        self.ops = ops.joined()

    def _read_op_table(self, ops: Stack, suffix: str, kind: str) -> None:
        table = f"CUPTI_ACTIVITY_KIND_{suffix}"
        label = {"kernel": ("demangledName",), "memcpy": ("copyKind",)}.get(kind, ())
        graph_ids = sorted(_GRAPH_IDS.keys() & self.source.columns(table))
        columns = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
        for block in self.source.blocks(table, (*columns, *graph_ids, *label)):
            ops.add(self._ops(self._timed(block, table, "deviceId", "streamId"), kind))

    def _ops(self, frame: pl.DataFrame, kind: str) -> pl.DataFrame:
        launched_by = self.op_processes.rows(frame["globalPid"])
        self.op_places.update(_distinct_pairs(launched_by, frame["deviceId"]))
        return frame.select(
            start_ns="start",
            end_ns="end",
            kind=pl.lit(kind, pl.Enum(schema.OP_KINDS)),
            launched_by=launched_by,
            device_id="deviceId",
            stream_id="streamId",
            correlation_id="correlationId",
            name=self._op_names(frame, kind),
            **{
                column: _or_null(frame[written])
                for written, column in _GRAPH_IDS.items()
                if written in frame.columns
            },
        )

    def _op_names(self, frame: pl.DataFrame, kind: str) -> pl.Series:
        if kind == "kernel":
            return self._string_names(frame["demangledName"])
        if kind == "memcpy":
            texts = frame["copyKind"].replace_strict(
                _COPY_KINDS, default="unknown", return_dtype=pl.String
            )
            return self.names.ids("[memcpy " + texts + "]")
        text = "[memset]" if kind == "memset" else "[CUDA graph]"
        return self.names.ids(pl.repeat(text, frame.height, eager=True, dtype=pl.String))

    def read_nvtx(self) -> None:
        table = "NVTX_EVENTS"
        kinds = (*_PUSH_POP, *_START_END, _MARK, _DOMAIN_CREATE)
        payloads = ("int64Value", "uint64Value", "int32Value", "uint32Value")
        frame = self.source.read(
            table,
            (
                "eventType",
                "start",
                "end",
                "globalTid",
                "endGlobalTid",
                "domainId",
                "textId",
                "text",
                *payloads,
            ),
            ("eventType", kinds),
        )
        frame = frame.with_columns(
            pl.col("domainId").fill_null(0),
            payload=pl.coalesce(payloads),
            process_key=_process_key("globalTid"),
            name=self._event_names(frame),
        )
        frame = self._with_domains(frame)
        if not frame.filter(pl.col("eventType") != _DOMAIN_CREATE).height:
            created = frame["name"].unique(maintain_order=True)
            self.unused_domains = self.names.table()["text"].gather(created).to_list()
        is_range = pl.col("eventType").is_in((*_PUSH_POP, *_START_END))
        ranges = self._timed(frame.filter(is_range), table, "globalTid", open_ended=True)
        self.ranges = ranges.select(
            start_ns="start",
            end_ns="end",
            global_tid="globalTid",
            end_global_tid=pl.when(pl.col("endGlobalTid") != pl.col("globalTid")).then(
                "endGlobalTid"
            ),
            style=pl.when(pl.col("eventType").is_in(_PUSH_POP))
            .then(pl.lit("push_pop"))
            .otherwise(pl.lit("start_end"))
            .cast(pl.Enum(schema.RANGE_STYLES)),
            domain="domain",
            name="name",
            payload="payload",
        )
        self.marks = frame.filter(
            (pl.col("eventType") == _MARK) & _can_be("start") & pl.col("globalTid").is_not_null()
        ).select(
            time_ns="start",
            global_tid="globalTid",
            domain="domain",
            name="name",
            payload="payload",
        )

    def _event_names(self, frame: pl.DataFrame) -> pl.Series:
        """An event's text: registered (by id) or its own; empty when it has neither."""
        own = self.names.ids(frame["text"])
        registered = self._string_names(frame["textId"], missing=None)
        return pl.select(pl.coalesce(registered, own)).to_series()

    def _with_domains(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add `domain`: ids restart in every process, so they are looked up by process too."""
        created = (
            frame.filter(pl.col("eventType") == _DOMAIN_CREATE)
            .select("process_key", "domainId", domain="name")
            .unique(["process_key", "domainId"], keep="first", maintain_order=True)
        )
        return frame.join(
            created, on=["process_key", "domainId"], how="left", maintain_order="left"
        )

    def read_syncs(self) -> None:
        table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
        frame = self.source.read(
            table,
            ("start", "end", "syncType", "globalPid", "deviceId", "streamId", "correlationId"),
        )
        frame = self._timed(frame, table)
        kinds = dict(enumerate(schema.SYNC_KINDS))
        self.syncs = frame.select(
            start_ns="start",
            end_ns="end",
            kind=pl.col("syncType").replace_strict(
                kinds, default="unknown", return_dtype=pl.Enum(schema.SYNC_KINDS)
            ),
            global_pid="globalPid",
            device_id="deviceId",
            stream_id="streamId",
            correlation_id="correlationId",
        )

    def read_overheads(self) -> None:
        frames = []
        for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
            frame = self.source.read(table, ("start", "end", "globalTid", "nameId"))
            frame = self._timed(frame, table, "globalTid")
            frames.append(
                frame.select(
                    start_ns="start",
                    end_ns="end",
                    process_key=_process_key("globalTid"),
                    name=self._string_names(frame["nameId"]),
                )
            )
        self.overheads = pl.concat(frames)

    def read_graph_nodes(self) -> None:
        """Node creations: in a table of their own since 2024.3, among those of graphs before."""
        of_nodes = (
            table
            for table in ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS")
            if "graphNodeId" in self.source.columns(table)
        )
        table = next(of_nodes, "CUDA_GRAPH_NODE_EVENTS")
        columns = ("start", "globalTid", "graphNodeId", "originalGraphNodeId")
        frame = self.source.read(table, columns)
        self.graph_nodes = frame.filter(
            pl.col("graphNodeId").is_not_null()
            & (pl.col("graphNodeId") != 0)
            & _can_be("start")
            & pl.col("globalTid").is_not_null()
        ).select(
            node_id="graphNodeId",
            original_id=pl.col("originalGraphNodeId").replace(0, None),
            time_ns="start",
            global_tid="globalTid",
        )

    def _timed(
        self, frame: pl.DataFrame, table: str, *required: str, open_ended: bool = False
    ) -> pl.DataFrame:
        """Rows of possible times, in order, with the required ids; the rest is counted."""
        if _all_usable(frame, required):
            return frame
        usable = _can_be("start")
        for column in required:
            usable &= pl.col(column).is_not_null()
        in_order = _can_be("end") & (pl.col("end") - pl.col("start")).is_between(0, _LONGEST_NS)
        usable &= (pl.col("end").is_null() | in_order) if open_ended else in_order
        mask = frame.select(usable).to_series()
        if mask.all(ignore_nulls=False):
            return frame
        kept = frame.filter(mask)
        text = f"{table}: rows without usable times or ids, or that end before they start, left out"
        self.dropped.append((text, frame.height - kept.height))
        return kept

    def _string_names(self, ids: pl.Series, missing: str | None = "[unnamed]") -> pl.Series:
        """Name rows of StringIds ids; an id that StringIds lacks reads `missing`."""
        found = self.string_ids.of(ids)
        if missing is None or not found.null_count():
            return found
        return found.fill_null(self.names.id(missing))

    def trace(self) -> Trace:
        """The frames, with nsys's global ids turned into row numbers."""
        last_ns = max(
            (
                value
                for frame in (self.launches, self.ops, self.ranges)
                for column in ("start_ns", "end_ns")
                if (value := frame[column].max()) is not None
            ),
            default=0,
        )
        self._fill_lone_process()
        processes, threads = self._processes_and_threads()
        process_rows = _Rows(processes["key"])
        thread_rows = _Rows(threads["global_tid"])
        return Trace.checked(
            {
                "files": self._files(),
                "processes": processes.with_row_index("process"),
                "threads": threads.with_row_index("thread"),
                "devices": self._devices(processes),
                "names": self.names.table(),
                "ops": self._numbered_ops(process_rows),
                "launches": self._numbered_launches(process_rows, thread_rows),
                "ranges": thread_rows.number(
                    thread_rows.number(self.ranges, "global_tid", "thread"),
                    "end_global_tid",
                    "end_thread",
                ).with_columns(
                    closed=pl.col("end_ns").is_not_null(),
                    end_ns=pl.col("end_ns").fill_null(
                        pl.max_horizontal("start_ns", pl.lit(last_ns))
                    ),
                ),
                "marks": thread_rows.number(self.marks, "global_tid", "thread"),
                "syncs": process_rows.number(
                    self.syncs.with_columns(process_key=_process_key("global_pid")),
                    "process_key",
                    "process",
                ),
                "overheads": process_rows.number(
                    self.overheads.filter(pl.col("process_key").is_in(processes["key"].implode())),
                    "process_key",
                    "process",
                ),
                "graph_nodes": self._known_graph_nodes(processes, threads),
                "diagnostics": self._diagnostics(),
            }
        )

    def _numbered_ops(self, process_rows: _Rows) -> pl.DataFrame:
        rows = process_rows.of(self.op_processes.table() // (1 << _THREAD_BITS))
        process = _gathered(rows, self.ops["launched_by"])
        if process.null_count():
            process = process.fill_null(process_rows.keys.search_sorted(self.lone_key))
        return self.ops.drop("launched_by").with_columns(process=process)

    def _numbered_launches(self, process_rows: _Rows, thread_rows: _Rows) -> pl.DataFrame:
        tids, callers = self.callers.table(), self.launches["caller"]
        return self.launches.drop("caller").with_columns(
            thread=_gathered(thread_rows.of(tids), callers),
            process=_gathered(process_rows.of(tids // (1 << _THREAD_BITS)), callers),
        )

    def _known_graph_nodes(self, processes: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
        """Nodes of the processes that are kept; no thread is listed for having made nodes only."""
        keys = processes.select("key").with_row_index("process")
        tids = threads.select("global_tid").with_row_index("thread")
        return (
            self.graph_nodes.with_columns(key=_process_key("global_tid"))
            .join(keys, on="key", maintain_order="left")
            .join(tids, on="global_tid", how="left", maintain_order="left")
        )

    def _fill_lone_process(self) -> None:
        """Give ops without a process id (hand-made files) the only process there is."""
        keys = pl.concat(
            [
                self.callers.table() // (1 << _THREAD_BITS),
                self.ranges["global_tid"].unique() // (1 << _THREAD_BITS),
                self.op_processes.table() // (1 << _THREAD_BITS),
            ]
        ).unique()
        self.lone_key = int(keys[0]) if keys.len() == 1 else 0
        lone_pid = self.lone_key << _THREAD_BITS
        self.syncs = self.syncs.with_columns(pl.col("global_pid").fill_null(lone_pid))

    def _processes_and_threads(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        tids = pl.concat(
            [
                self.callers.table(),
                self.ranges["global_tid"],
                self.ranges["end_global_tid"].drop_nulls(),
                self.marks["global_tid"],
            ]
        )
        tids = tids.unique().sort()
        keys = pl.concat(
            [
                tids // (1 << _THREAD_BITS),
                self.op_processes.table() // (1 << _THREAD_BITS),
                pl.Series([self.lone_key], dtype=pl.Int64)[: self.ops["launched_by"].null_count()],
                self.syncs["global_pid"].unique() // (1 << _THREAD_BITS),
            ]
        )
        keys = keys.unique().sort().alias("key")
        thread_names = self.source.read("ThreadNames", ("globalTid", "nameId"))
        labels = thread_names.select(
            global_tid="globalTid", label=self._string_names(thread_names["nameId"], missing=None)
        ).unique("global_tid", keep="first", maintain_order=True)
        texts = self.names.table()
        threads = (
            tids.alias("global_tid")
            .to_frame()
            .join(labels, on="global_tid", how="left", maintain_order="left")
            .join(texts, left_on="label", right_on="name", how="left", maintain_order="left")
            .select(
                "global_tid",
                process=keys.search_sorted(tids // (1 << _THREAD_BITS)).cast(pl.Int32),
                thread_id=pl.col("global_tid") & _THREAD_MASK,
                name="text",
            )
        )
        return self._processes(keys, threads), threads

    def _processes(self, keys: pl.Series, threads: pl.DataFrame) -> pl.DataFrame:
        known = (
            self.source.read("PROCESSES", ("globalPid", "name"))
            .select(
                key=pl.col("globalPid") // (1 << _THREAD_BITS),
                name=pl.col("name").str.replace(PROGRAM_FOLDERS, ""),
            )
            .unique("key", keep="first", maintain_order=True)
        )
        # A main thread's name carries the title a server gives its worker ("scheduler_TP3").
        titles = threads.select("process", "thread_id", title="name")
        frame = (
            keys.to_frame()
            .join(known, on="key", how="left", maintain_order="left")
            .with_row_index("process")
            .with_columns(
                pl.col("process").cast(pl.Int32), process_id=pl.col("key") & _PROCESS_MASK
            )
            .join(
                titles,
                left_on=["process", "process_id"],
                right_on=["process", "thread_id"],
                how="left",
                maintain_order="left",
            )
        )
        ranks = [
            next((rank for text in pair if (rank := rank_in(text)) is not None), None)
            for pair in frame.select("name", "title").iter_rows()
        ]
        return frame.select(
            "key",
            "process_id",
            "name",
            file=pl.lit(0, pl.Int32),
            rank=pl.Series(ranks, dtype=pl.Int64),
        )

    def _devices(self, processes: pl.DataFrame) -> pl.DataFrame:
        keys = self.op_processes.table() // (1 << _THREAD_BITS)
        places = [
            (self.lone_key if row is None else keys[row], device) for row, device in self.op_places
        ]
        pairs = pl.DataFrame(
            sorted({(processes["key"].search_sorted(key), device) for key, device in places}),
            schema={"process": pl.Int32, "device_id": pl.Int64},
            orient="row",
        )
        by_id = gpu_names(self.source, "id", "deviceId")
        by_ordinal = gpu_names(self.source, "cuDevice", "id", "deviceId")
        gpu_ids = cuda_ordinals(self.source)
        process_ids = processes["process_id"]
        texts = [
            by_id.get(gpu_ids[key])
            if (key := (process_ids[process], device)) in gpu_ids
            else by_ordinal.get(device)
            for process, device in pairs.iter_rows()
        ]
        return pairs.with_columns(name=pl.Series(texts, dtype=pl.String))

    def _files(self) -> pl.DataFrame:
        meta = export_metadata(self.source)
        start = self.source.read("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))["utcEpochNs"]
        length = self.source.read("ANALYSIS_DETAILS", ("duration",))["duration"]
        return pl.DataFrame(
            {
                "file": [0],
                "path": [str(self.source.path).encode(errors="replace").decode()],
                "format": [self.source.format],
                "product": [meta.get("EXPORT_PRODUCT_NAME") or "NVIDIA Nsight Systems"],
                "product_version": [meta.get("EXPORT_PRODUCT_VERSION")],
                "schema_version": [meta.get("EXPORT_SCHEMA_VERSION")],
                "start_utc_ns": [start[0] if start.len() else None],
                "duration_ns": [length[0] if length.len() else None],
            }
        )

    def _diagnostics(self) -> pl.DataFrame:
        meta = export_metadata(self.source)
        own = [
            ("importer", "warning", text, count)
            for text, count in (*self.source.findings(), *self.dropped)
        ]
        own += [("importer", "warning", text, 1) for text in limits_of_export(meta)]
        if self.unused_domains:
            text = EMPTY_DOMAINS + ", ".join(sorted(self.unused_domains))
            own.append(("importer", "info", text, len(self.unused_domains)))
        columns = {"source": pl.String, "severity": pl.String, "text": pl.String, "count": pl.Int64}
        recorded = (
            self.source.read("DIAGNOSTIC_EVENT", ("severity", "text"))
            .select(
                source=pl.lit("recorder"),
                severity=pl.col("severity").replace_strict(
                    _SEVERITIES, default="info", return_dtype=pl.String
                ),
                text=pl.col("text").fill_null("").map_elements(impersonal, pl.String),
            )
            .group_by("source", "severity", "text", maintain_order=True)
            .agg(count=pl.len().cast(pl.Int64))
        )
        return pl.concat([recorded, pl.DataFrame(own, schema=columns, orient="row")]).with_columns(
            file=pl.lit(0, pl.Int32)
        )


class _Rows:
    """Row numbers of sorted distinct keys."""

    def __init__(self, keys: pl.Series) -> None:
        self.keys = keys

    def of(self, keys: pl.Series) -> pl.Series:
        """The row of each key (Int32)."""
        return self.keys.search_sorted(keys).cast(pl.Int32)

    def number(self, frame: pl.DataFrame, key: str, column: str) -> pl.DataFrame:
        """Add the row of each key; null where the key is null."""
        known = frame[key].is_not_null()
        return frame.with_columns(pl.when(known).then(self.of(frame[key])).alias(column))


def _gathered(values: pl.Series, rows: pl.Series) -> pl.Series:
    """The value (Int32) of each row number (Int32); null for null."""
    is_same = values.to_list() == list(range(values.len()))
    return rows if is_same else values.gather(rows)


def _distinct_pairs(first: pl.Series, second: pl.Series) -> Iterator[tuple[int | None, int]]:
    """The pairs of values of two columns."""
    grouped = pl.DataFrame([first.alias("first"), second.alias("second")]).group_by("first")
    distinct = grouped.agg(pl.col("second").unique())
    return ((one, other) for one, others in distinct.iter_rows() for other in others)


def _or_null(ids: pl.Series) -> pl.Series:
    """Ids, of which 0 means none."""
    return ids.replace(0, None) if (ids == 0).any() else ids


def _all_usable(frame: pl.DataFrame, required: Sequence[str]) -> bool:
    """Whether every row states possible times, in order, and the required ids."""
    if any(frame[column].null_count() for column in ("start", "end", *required)):
        return False
    times = (frame["start"], frame["end"])
    if not all(each.is_between(-_LATEST_NS, _LATEST_NS, closed="none").all() for each in times):
        return False
    return bool((frame["end"] - frame["start"]).is_between(0, _LONGEST_NS).all())


def _can_be(column: str) -> pl.Expr:
    """Whether a time is stated, and one that sums and differences can hold."""
    return pl.col(column).is_between(-_LATEST_NS, _LATEST_NS, closed="none").fill_null(False)


def _process_key(column: str) -> pl.Expr:
    return pl.col(column) // (1 << _THREAD_BITS)
