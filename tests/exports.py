"""Exports of Nsight Systems made by hand: the same rows as an SQLite file or a parquet folder.

Rows are what nsys writes, one dict each; what a row leaves out is NULL. A `Flavour` says which
tables and columns the nsys of some years has.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping
    from pathlib import Path

    from traceanalyzer.trace import Trace

Row = dict[str, Any]

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
NVTX = "NVTX_EVENTS"

PUSH_POP, START_END, MARK, DOMAIN_CREATE = 59, 60, 34, 75

_SPAN = "start end"
_WORK = "deviceId contextId streamId correlationId globalPid"
_KERNEL = (
    f"{_SPAN} {_WORK} demangledName shortName launchType cacheConfig registersPerThread gridX "
    "gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
    "localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId"
)
_NVTX = (
    f"{_SPAN} eventType rangeId category color text globalTid endGlobalTid textId domainId "
    "uint64Value int64Value doubleValue uint32Value int32Value floatValue jsonTextId jsonText"
)
_OLD_GPU = "vmId deviceId name busLocation isDiscrete"
_GPU = "vmId id name busLocation isDiscrete totalMemory smCount uuid chipName cuDevice"

_PRE_META: Mapping[str, str] = {
    "StringIds": "id value",
    "ThreadNames": "nameId priority globalTid",
    "TARGET_INFO_GPU": _OLD_GPU,
    "TARGET_INFO_CUDA_GPU": "vmId name pciBusId deviceId pid",
    KERNEL: _KERNEL,
    MEMCPY: f"{_SPAN} {_WORK} bytes copyKind srcKind dstKind graphNodeId",
    MEMSET: f"{_SPAN} {_WORK} value bytes graphNodeId memKind",
    RUNTIME: f"{_SPAN} eventClass globalTid correlationId nameId returnValue",
    SYNC: f"{_SPAN} {_WORK} syncType eventId",
    NVTX: _NVTX,
}
_2022: Mapping[str, str] = {
    **_PRE_META,
    "EXPORT_META_DATA": "name value",
    "PROCESSES": "globalPid pid name",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "TARGET_INFO_GPU": _GPU,
    KERNEL: f"{_KERNEL} mangledName sharedMemoryLimitConfig",
    RUNTIME: f"{_PRE_META[RUNTIME]} callchainId",
    "CUDA_GRAPH_EVENTS": f"{_SPAN} eventClass globalTid nameId graphNodeId originalGraphNodeId",
}
_2025: Mapping[str, str] = {
    **{table: columns for table, columns in _2022.items() if table != "EXPORT_META_DATA"},
    "META_DATA_EXPORT": "name value",
    "META_DATA_CAPTURE": "name value",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid numMultiprocessors",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    KERNEL: f"{_2022[KERNEL]} greenContextId graphId clusterX clusterY clusterZ",
    GRAPH_TRACE: f"{_SPAN} {_WORK} greenContextId graphId graphExecId",
    NVTX: f"{_NVTX} binaryData",
    "CUDA_GRAPH_EVENTS": (
        f"{_SPAN} eventClass globalTid nameId graphId originalGraphId graphExecId"
    ),
    "CUDA_GRAPH_NODE_EVENTS": (
        f"{_SPAN} eventClass globalTid nameId graphNodeId originalGraphNodeId"
    ),
}


@dataclass(frozen=True)
class Flavour:
    """The tables and columns of an nsys of some years, and where it says who it is."""

    name: str
    tables: Mapping[str, str]
    metadata_table: str | None = None
    versions: tuple[str, str] | None = None


PRE_META = Flavour("before metadata", _PRE_META)
NSYS_2022 = Flavour("2022.4", _2022, "EXPORT_META_DATA", ("2022.4.2.1", "3.0.0"))
NSYS_2025 = Flavour("2025.5", _2025, "META_DATA_EXPORT", ("2025.5.1.121", "3.23.3"))
FLAVOURS = (PRE_META, NSYS_2022, NSYS_2025)

_TEXT = frozenset(
    {"value", "text", "name", "jsonText", "busLocation", "uuid", "chipName", "utcTime", "localTime"}
)
_REAL = frozenset({"doubleValue", "floatValue"})
# Integer types of parquetdir exports of nsys 2023.4; all others are Int64.
_PARQUET_TYPES: Mapping[str, pl.DataType] = {
    "globalTid": pl.UInt64(),
    "endGlobalTid": pl.UInt64(),
    "globalPid": pl.UInt64(),
    "correlationId": pl.UInt64(),
    "nameId": pl.UInt64(),
    "uint64Value": pl.UInt64(),
    "int32Value": pl.Int32(),
    "doubleValue": pl.Float64(),
    "floatValue": pl.Float32(),
    "binaryData": pl.Binary(),
}


def global_pid(process_id: int, hardware: int = 1) -> int:
    """nsys's id of a process as SQLite stores it: 64 bits, signed."""
    return _signed(hardware << 56 | process_id << 24)


def global_tid(process_id: int, thread_id: int | None = None, hardware: int = 1) -> int:
    """nsys's id of a thread, the main one when none is named, as SQLite stores it."""
    return global_pid(process_id, hardware) + (process_id if thread_id is None else thread_id)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


@dataclass
class Export:
    """Rows of an export on their way into a file.

    Attributes:
        flavour: Its tables and columns.
        tables: Rows by table; one named here is written even when it has none.
    """

    flavour: Flavour = NSYS_2025
    tables: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    strings: dict[str | bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables["StringIds"] = []
        if self.flavour.metadata_table and self.flavour.versions:
            product, schema = self.flavour.versions
            for name, value in (
                ("EXPORT_PRODUCT_VERSION", product),
                ("EXPORT_SCHEMA_VERSION", schema),
            ):
                self.add(self.flavour.metadata_table, name=name, value=value)

    def add(self, table: str, **values: Any) -> Row:
        """Add a row to any table."""
        self.tables[table].append(values)
        return values

    def string(self, text: str | bytes) -> int:
        """Id of a text in StringIds."""
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.add("StringIds", id=self.strings[text], value=text)
        return self.strings[text]

    def domain(self, name: str, number: int, thread: int, **more: Any) -> Row:
        """An NVTX domain of the thread's process."""
        event = {"start": 0, "eventType": DOMAIN_CREATE, "text": name, "domainId": number}
        return self.add(NVTX, **{**event, "globalTid": thread, **more})

    def range(self, name: str, start: int, end: int | None, thread: int, **more: Any) -> Row:
        """A push/pop range, its name registered unless a `text` is given."""
        named = {} if "text" in more else {"textId": self.string(name)}
        event = {"start": start, "end": end, "eventType": PUSH_POP, "domainId": 0}
        return self.add(NVTX, **{**event, "globalTid": thread, **named, **more})

    def call(
        self, start: int, end: int, thread: int, id_: int | None, name: str = "", **more: Any
    ) -> Row:
        """A CUDA API call."""
        event = {"start": start, "end": end, "eventClass": 0, "globalTid": thread}
        text = self.string(name or "cudaLaunchKernel_v7000")
        return self.add(RUNTIME, **{**event, "correlationId": id_, "nameId": text, **more})

    def kernel(self, start: int, end: int, process: int, id_: int | None, **more: Any) -> Row:
        """A kernel, on device 0 and stream 7 unless said otherwise."""
        name = self.string(more.pop("name", "void gemm<128>(Params)"))
        return self.add(KERNEL, **{**_op(start, end, process, id_), "demangledName": name, **more})

    def op(
        self, table: str, start: int, end: int, process: int, id_: int | None, **more: Any
    ) -> Row:
        """GPU work of another kind than kernels."""
        return self.add(table, **{**_op(start, end, process, id_), **more})

    def launched(
        self, name: str, call: tuple[int, int], op: tuple[int, int], thread: int, id_: int
    ) -> None:
        """A kernel and the call that launched it, in the thread's process."""
        self.call(*call, thread, id_)
        self.kernel(*op, thread >> 24 << 24, id_, name=name)

    def write_sqlite(self, path: Path, order: random.Random | None = None) -> Path:
        """Write an SQLite export; columns are shuffled when an `order` is given."""
        with closing(sqlite3.connect(path)) as database, database:
            for table, rows in self.tables.items():
                columns = self.columns(table)
                if order:
                    order.shuffle(columns)
                kinds = ", ".join(f'"{column}" {_sql_type(column)}' for column in columns)
                database.execute(f'CREATE TABLE "{table}" ({kinds})')
                values = ", ".join(
                    "CAST(? AS TEXT)" if column in _TEXT else "?" for column in columns
                )
                database.executemany(
                    f'INSERT INTO "{table}" VALUES ({values})',
                    [[row.get(column) for column in columns] for row in rows],
                )
        return path

    def write_parquet(self, folder: Path) -> Path:
        """Write a parquetdir export, with the types that nsys gives its columns."""
        folder.mkdir()
        for table, rows in self.tables.items():
            schema = {column: _parquet_type(table, column) for column in self.columns(table)}
            frame = pl.DataFrame(
                {
                    column: [_unsigned(row.get(column), dtype) for row in rows]
                    for column, dtype in schema.items()
                },
                schema=schema,
            )
            frame.write_parquet(folder / f"{table}.parquet", compression="uncompressed")
        return folder

    def columns(self, table: str) -> list[str]:
        """Columns of a table: the flavour's, and any that rows have besides."""
        declared = dict.fromkeys(self.flavour.tables.get(table, "").split())
        return [*declared | dict.fromkeys(key for row in self.tables[table] for key in row)]


def _op(start: int, end: int, process: int, id_: int | None) -> Row:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7}
    return {"start": start, "end": end, "globalPid": process, "correlationId": id_, **place}


def _sql_type(column: str) -> str:
    return "TEXT" if column in _TEXT else "REAL" if column in _REAL else "INTEGER"


def _parquet_type(table: str, column: str) -> pl.DataType:
    if column in _TEXT:
        return pl.String()
    if (table, column) == ("StringIds", "id"):
        return pl.Int32()
    return _PARQUET_TYPES.get(column, pl.Int64())


def _unsigned(value: Any, dtype: pl.DataType) -> Any:
    if isinstance(value, bytes) and dtype == pl.String():
        return value.decode("utf-8", "replace")
    return value + (1 << 64) if dtype == pl.UInt64() and value is not None and value < 0 else value


def served(export: Export, process_id: int = 4100, *, rank: int = 0) -> None:
    """Add a rank of a small server: five steps of draft, verify and draft extend, CPU ahead.

    Of a step's GPU work the draft takes 200 us, the verify 500 us and the draft extend 100 us.
    """
    thread, process = global_tid(process_id), global_pid(process_id)
    if "PROCESSES" in export.flavour.tables:
        export.add("PROCESSES", globalPid=process, pid=process_id, name=f"scheduler_TP{rank}")
    export.domain("eagle", 1, thread)
    cpu = gpu = 1_000_000
    id_ = 100
    for _ in range(5):
        for phase, kernels, length in (
            ("draft", 2, 100_000),
            ("verify", 1, 500_000),
            ("draft_extend", 1, 100_000),
        ):
            begun = cpu
            for _ in range(kernels):
                id_ += 1
                gpu = max(gpu, cpu + 8_000)
                call, op = (cpu, cpu + 5_000), (gpu, gpu + length)
                export.launched(f"{phase}_kernel", call, op, thread, id_)
                cpu, gpu = cpu + 6_000, gpu + length
            export.range(phase, begun, cpu, thread, domainId=1)
            cpu += 1_000
        cpu += 700_000


def described(trace: Trace, table: str) -> list[Row]:
    """A table's rows with texts and the system's ids in place of row numbers.

    Row numbers differ between two readings of the same content; what they stand for must not.
    """
    texts = trace.names["text"].to_list()
    processes = trace.processes["process_id"].to_list()
    threads = [
        (processes[process], thread)
        for process, thread in trace.threads.select("process", "thread_id").rows()
    ]
    meaning: dict[str, list[Any]] = {"process": processes, "thread": threads, "end_thread": threads}
    if table in ("ops", "launches", "ranges", "marks"):
        meaning |= {"name": texts, "domain": texts}
    rows: list[Row] = getattr(trace, table).rows(named=True)
    for row in rows:
        for column, values in meaning.items():
            if row.get(column) is not None:
                row[column] = values[row[column]]
    return rows
