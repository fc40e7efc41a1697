"""The tables of a Trace, declared once: each column's type, unit and meaning.

Importers are checked against this page at their border, analyses rely on it, and the docs are
printed from it. Times are int64 nanoseconds on the clock of their own file; the columns
`process`, `thread` and `name` are row numbers in the tables of those names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

OP_KINDS: Final = ("kernel", "memcpy", "memset", "graph")
RANGE_STYLES: Final = ("push_pop", "start_end", "annotation")
SYNC_KINDS: Final = ("unknown", "event", "stream_wait_event", "stream", "context")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its polars type, its meaning (with the unit), and whether it may be null."""

    name: str
    dtype: pl.DataType
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a Trace."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def polars_schema(self) -> pl.Schema:
        """Column names and types, in order."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    def empty(self) -> pl.DataFrame:
        """The table without rows."""
        return pl.DataFrame(schema=self.polars_schema)


_I32, _I64, _STR, _BOOL = pl.Int32(), pl.Int64(), pl.String(), pl.Boolean()

FILES: Final = Table(
    "files",
    "One row a file that was read.",
    (
        Column("file", _I32, "row number"),
        Column("path", _STR, "path as given"),
        Column("format", _STR, "nsys-sqlite, nsys-parquet or torch-profiler"),
        Column("product", _STR, "the tool that wrote it; says so where it is simulated"),
        Column("product_version", _STR, "version of the tool that wrote it", True),
        Column("schema_version", _STR, "version of the file's own schema", True),
        Column("start_utc_ns", _I64, "UTC time of the file's time zero, ns since 1970", True),
        Column("duration_ns", _I64, "length of the recording as the file states it", True),
    ),
)
PROCESSES: Final = Table(
    "processes",
    "One row a process of a file: correlation ids are unique only inside it.",
    (
        Column("process", _I32, "row number"),
        Column("file", _I32, "row in files"),
        Column("process_id", _I64, "operating system's process id, 0 when the file has none"),
        Column("name", _STR, "process name or title", True),
        Column("rank", _I64, "rank as the file's own metadata states it", True),
    ),
)
THREADS: Final = Table(
    "threads",
    "One row a CPU thread that opened a range or called the CUDA API.",
    (
        Column("thread", _I32, "row number"),
        Column("process", _I32, "row in processes"),
        Column("thread_id", _I64, "operating system's thread id (24 bits in nsys exports)"),
        Column("name", _STR, "thread name", True),
    ),
)
DEVICES: Final = Table(
    "devices",
    "One row a pair of process and GPU that has ops: a rank.",
    (
        Column("process", _I32, "row in processes"),
        Column("device_id", _I64, "the op's device ordinal as recorded"),
        Column("name", _STR, "GPU's product name", True),
    ),
)
NAMES: Final = Table(
    "names",
    "Every distinct text once: kernels, API calls, ranges, domains.",
    (
        Column("name", _I32, "row number"),
        Column("text", _STR, "the text; invalid bytes are replaced by U+FFFD"),
    ),
)
OPS: Final = Table(
    "ops",
    "GPU work: kernels, copies, memory sets, and whole-graph rows (busy blocks that hide gaps).",
    (
        Column("start_ns", _I64, "start on the GPU, ns"),
        Column("end_ns", _I64, "end on the GPU, ns; start = end is an op of 0 ns"),
        Column("kind", pl.Enum(OP_KINDS), "what ran"),
        Column("process", _I32, "row in processes: the process that launched it"),
        Column("device_id", _I64, "device ordinal"),
        Column("stream_id", _I64, "CUDA stream id"),
        Column("correlation_id", _I64, "id shared with the launch, in one process", True),
        Column("name", _I32, "row in names: demangled kernel name, or what was copied"),
        Column("graph_node_id", _I64, "CUDA graph node of a replayed op", True),
        Column("graph_id", _I64, "CUDA graph the op or block belongs to", True),
        Column("graph_exec_id", _I64, "executable graph of a whole-graph row", True),
    ),
)
LAUNCHES: Final = Table(
    "launches",
    "CUDA API calls (runtime and driver); any of them may have launched ops.",
    (
        Column("start_ns", _I64, "call start on the CPU, ns"),
        Column("end_ns", _I64, "call end on the CPU, ns"),
        Column("thread", _I32, "row in threads: the caller"),
        Column("process", _I32, "row in processes"),
        Column("correlation_id", _I64, "id shared with the ops it launched", True),
        Column("name", _I32, "row in names: the API function"),
    ),
)
RANGES: Final = Table(
    "ranges",
    "Host ranges: NVTX push/pop and start/end, torch.profiler user annotations.",
    (
        Column("start_ns", _I64, "start on the CPU, ns"),
        Column("end_ns", _I64, "end, ns; the recording's end when it was never closed"),
        Column("thread", _I32, "row in threads: the thread that opened it"),
        Column("end_thread", _I32, "row in threads, when another thread closed it", True),
        Column("style", pl.Enum(RANGE_STYLES), "how it was made"),
        Column("domain", _I32, "row in names; null in the default domain", True),
        Column("name", _I32, "row in names"),
        Column("payload", _I64, "integer payload", True),
        Column("closed", _BOOL, "whether the file states its end"),
    ),
)
MARKS: Final = Table(
    "marks",
    "NVTX marks: instants with an integer payload.",
    (
        Column("time_ns", _I64, "instant on the CPU, ns"),
        Column("thread", _I32, "row in threads"),
        Column("domain", _I32, "row in names; null in the default domain", True),
        Column("name", _I32, "row in names"),
        Column("payload", _I64, "integer payload", True),
    ),
)
SYNCS: Final = Table(
    "syncs",
    "CUDA synchronisation records: host waits, and streams told to wait for an event.",
    (
        Column("start_ns", _I64, "start, ns"),
        Column("end_ns", _I64, "end, ns"),
        Column("kind", pl.Enum(SYNC_KINDS), "what waited"),
        Column("process", _I32, "row in processes"),
        Column("device_id", _I64, "device ordinal", True),
        Column("stream_id", _I64, "stream that waits", True),
        Column("correlation_id", _I64, "id shared with the API call", True),
    ),
)
OVERHEADS: Final = Table(
    "overheads",
    "Time the recorder itself took, as it states it; CUDA's own stalls stand among it by name.",
    (
        Column("start_ns", _I64, "start, ns"),
        Column("end_ns", _I64, "end, ns"),
        Column("process", _I32, "row in processes"),
        Column("name", _I32, "row in names: what was done"),
    ),
)
GRAPH_NODES: Final = Table(
    "graph_nodes",
    "Creations of CUDA graph nodes: by a launch while a graph is captured, or by cloning.",
    (
        Column("process", _I32, "row in processes"),
        Column("node_id", _I64, "the node; ids may be used again once a graph is destroyed"),
        Column(
            "original_id", _I64, "node it was cloned from; null for one that was captured", True
        ),
        Column("time_ns", _I64, "instant on the CPU, ns; negative before the recording began"),
        Column("thread", _I32, "row in threads; null when it has no range and no call", True),
    ),
)
DIAGNOSTICS: Final = Table(
    "diagnostics",
    "What the recorder said, and what the importer had to leave out or repair.",
    (
        Column("file", _I32, "row in files"),
        Column("source", _STR, "recorder or importer"),
        Column("severity", _STR, "info, warning or error"),
        Column("text", _STR, "one sentence"),
        Column("count", _I64, "how often, or how many rows"),
    ),
)

TABLES: Final = (
    FILES,
    PROCESSES,
    THREADS,
    DEVICES,
    NAMES,
    OPS,
    LAUNCHES,
    RANGES,
    MARKS,
    SYNCS,
    OVERHEADS,
    GRAPH_NODES,
    DIAGNOSTICS,
)


def markdown() -> str:
    """The tables as Markdown: docs/tables.md is this text."""
    head = (
        "# The tables of a Trace\n\nWritten from `traceanalyzer/schema.py` by "
        "`python -m traceanalyzer.schema`. Times are int64 nanoseconds on the clock of their own "
        "file.\n"
    )
    return "\n".join([head, *map(table_markdown, TABLES)])


def table_markdown(table: Table) -> str:
    """One table as Markdown: name, meaning, columns."""
    rows = [
        f"| `{column.name}` | {_type_name(column)} | {column.meaning} |" for column in table.columns
    ]
    head = f"## {table.name}\n\n{table.meaning}\n\n| column | type | meaning |\n|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _type_name(column: Column) -> str:
    dtype = column.dtype
    name = "one of " + ", ".join(dtype.categories) if isinstance(dtype, pl.Enum) else f"{dtype}"
    return f"{name} or null" if column.nullable else name


if __name__ == "__main__":
    print(markdown(), end="")
