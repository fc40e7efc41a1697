"""From a torch.profiler trace (Kineto's JSON, plain or gzip) to a Trace.

One file is one process: GPU work joins its launch by correlation id alone, and the process id of
a GPU event is a device ordinal.
"""

from __future__ import annotations

import gc
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl

from traceanalyzer.errors import InputError
from traceanalyzer.importers.kineto_columns import INT64_MAX, KinetoColumns
from traceanalyzer.importers.kineto_events import whole_number
from traceanalyzer.importers.kineto_json import EXPORT_AGAIN, KinetoReader
from traceanalyzer.importers.kineto_roles import INT32_MAX, WANTED
from traceanalyzer.importers.kineto_text import (
    TraceText,
    find_opening,
    inflated_head,
    may_open,
)
from traceanalyzer.importers.kineto_times import NO_TIME
from traceanalyzer.schema import OP_KINDS, SYNC_KINDS
from traceanalyzer.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from traceanalyzer.progress import Progress

_Entry = TypeVar("_Entry")
_PRODUCT: Final = "torch.profiler"
_SIMULATED: Final = " (simulated by traceanalyzer)"  # what our own simulation writes says so
_UNIX_TIMES_FROM_NS: Final = 10**18  # September 2001: no machine has been up for 31 years
_OPENING_BYTES: Final = 4 << 20
_RECORDER_SEVERITIES: Final = {"ERROR": "error", "WARNING": "warning"}


def recognises(path: Path, head: bytes) -> bool:
    """Whether a file holds trace events as JSON, plain or gzip.

    Args:
        path: The file; more of it is read when its event list does not start in `head`.
        head: The file's first bytes.
    """
    text = inflated_head(head)
    if not may_open(text):
        return False
    if find_opening(text) is not None:
        return True
    try:
        with TraceText(path) as file:
            return find_opening(file.read(_OPENING_BYTES)) is not None
    except InputError:
        return False


def read(path: Path, progress: Progress) -> Trace:
    """Read one trace.

    Args:
        path: The file, in any layout, of any torch version since 1.8.
        progress: Told about the share of the file that has been read.

    Returns:
        A Trace of one process. Times count from `baseTimeNanoseconds`, else from 1970. What was
        left out or repaired, a cut-off end included, is in its diagnostics.

    Raises:
        InputError: The file cannot be read, or holds no event of torch.profiler.
    """
    columns = KinetoColumns()
    collecting = gc.isenabled()
    gc.disable()  # a piece makes tens of thousands of objects, none of them in a cycle
    try:
        with TraceText(path) as text:
            reader = KinetoReader(text, WANTED)
            for piece in reader.pieces():
                columns.add(piece)
                progress("reading events", text.done_share)
    finally:
        if collecting:
            gc.enable()
    columns.finish()
    if not columns.spans:
        what = "no event of torch.profiler" if columns.events else "no whole event"
        raise InputError(f"the event list holds {what}", where=path, next_step=EXPORT_AGAIN)
    return _trace(path, columns, reader)


def _trace(path: Path, columns: KinetoColumns, reader: KinetoReader) -> Trace:
    metadata = reader.metadata
    process_id = _process_id(columns)
    ops = _of_process(columns.frame("ops"), "kind", OP_KINDS)
    device_ids = ops["device_id"].unique().sort().to_list()
    if len(device_ids) == 1:  # kept once, not with every op
        ops = ops.with_columns(device_id=pl.lit(device_ids[0], pl.Int64))
    tables = {
        "files": _files(path, columns, metadata),
        "processes": pl.DataFrame(
            {
                "process": [0],
                "file": [0],
                "process_id": [process_id],
                "name": [columns.process_names.get(process_id) if process_id else None],
                "rank": [_rank(metadata)],
            },
            schema_overrides={"rank": pl.Int64, "name": pl.String},
        ),
        "threads": _threads(columns, process_id),
        "devices": _devices(device_ids, metadata),
        "names": columns.names.table(),
        "ops": ops.with_columns(
            _or_null("correlation_id", 0),
            _or_null("graph_node_id", 0),
            _or_null("graph_id", 0),
            graph_exec_id=pl.lit(None, pl.Int64),
        ),
        "launches": columns.frame("launches").with_columns(
            _or_null("correlation_id", 0), process=pl.lit(0)
        ),
        "ranges": _ranges(columns),
        "syncs": _of_process(columns.frame("syncs"), "kind", SYNC_KINDS).with_columns(
            _or_null("correlation_id", 0), _or_null("device_id", -1), _or_null("stream_id", -1)
        ),
        "overheads": columns.frame("overheads").with_columns(process=pl.lit(0)),
        "diagnostics": _diagnostics(columns, reader),
    }
    return Trace.checked(tables)


def _process_id(columns: KinetoColumns) -> int:
    """The process with most of the CPU events; the others are noted."""
    counts: Counter[int] = Counter()
    for text, events in columns.process_ids.items():
        number = whole_number(text)
        if number is not None and abs(number) <= INT64_MAX:
            counts[number] += events
    if not counts:
        return 0
    (process_id, most), *_ = counts.most_common(1)
    others = sum(counts.values()) - most
    if others:
        text = "CPU events of other process ids were read as this process's"
        columns.notes["warning", text] += others
    return process_id


def _of_process(frame: pl.DataFrame, column: str, kinds: tuple[str, ...]) -> pl.DataFrame:
    kind = pl.Series(kinds, dtype=pl.Enum(kinds)).gather(frame[column])
    return frame.with_columns(kind.alias(column), process=pl.lit(0))


def _or_null(column: str, none: int) -> pl.Expr:
    return pl.when(pl.col(column) != none).then(pl.col(column))


def _files(path: Path, columns: KinetoColumns, metadata: Mapping[str, Any]) -> pl.DataFrame:
    base_ns = whole_number(metadata.get("baseTimeNanoseconds"))
    if base_ns is not None and abs(base_ns) > INT64_MAX:
        base_ns = None
    if base_ns is None and columns.first_ns >= _UNIX_TIMES_FROM_NS:
        base_ns = 0
    version = metadata.get("schemaVersion")
    duration_ns = columns.last_ns - columns.first_ns
    return pl.DataFrame(
        {
            "file": [0],
            "path": [str(path).encode(errors="replace").decode()],
            "format": ["torch-profiler"],
            "product": [_PRODUCT + (_SIMULATED if "simulation" in metadata else "")],
            "product_version": pl.Series([None], dtype=pl.String),
            "schema_version": [None if version is None else str(version)],
            "start_utc_ns": [base_ns],
            "duration_ns": [duration_ns if duration_ns >= 0 else None],
        },
        schema_overrides={"schema_version": pl.String, "start_utc_ns": pl.Int64},
    )


def _rank(metadata: Mapping[str, Any]) -> int | None:
    distributed = metadata.get("distributedInfo")
    rank = whole_number(distributed.get("rank")) if isinstance(distributed, dict) else None
    return rank if rank is not None and 0 <= rank <= INT32_MAX else None


def _threads(columns: KinetoColumns, process_id: int) -> pl.DataFrame:
    """The callers; one without a numeric id gets a negative one, in order of appearance."""
    ids = columns.threads.ids
    numbers = [
        thread_id if isinstance(thread_id, int) and abs(thread_id) <= INT64_MAX else None
        for thread_id in ids
    ]
    taken = set(numbers)
    free = (number for number in count(-1, -1) if number not in taken)
    names = [
        columns.thread_names.get((process_id, number)) if number is not None else str(text or "")
        for text, number in zip(ids, numbers, strict=True)
    ]
    invented = numbers.count(None)
    if invented:
        text = "threads without a numeric id were given negative ones"
        columns.notes["info", text] += invented
    return pl.DataFrame(
        {
            "thread": range(len(ids)),
            "process": [0] * len(ids),
            "thread_id": [next(free) if number is None else number for number in numbers],
            "name": [name or None for name in names],
        },
        schema={"thread": pl.Int32, "process": pl.Int32, "thread_id": pl.Int64, "name": pl.String},
    )


def _devices(device_ids: list[int], metadata: Mapping[str, Any]) -> pl.DataFrame:
    names = {
        whole_number(entry.get("id")): entry.get("name")
        for entry in _listed(metadata.get("deviceProperties"), dict)
    }
    return pl.DataFrame(
        {
            "process": [0] * len(device_ids),
            "device_id": device_ids,
            "name": [_text(names.get(device_id)) for device_id in device_ids],
        },
        schema={"process": pl.Int32, "device_id": pl.Int64, "name": pl.String},
    )


def _ranges(columns: KinetoColumns) -> pl.DataFrame:
    open_end_ns = max(columns.last_ns, 0)
    return columns.frame("ranges").with_columns(
        end_ns=pl.when(pl.col("end_ns") == NO_TIME).then(open_end_ns).otherwise(pl.col("end_ns")),
        end_thread=pl.lit(None, pl.Int32),
        style=pl.lit("annotation"),
        domain=pl.lit(None, pl.Int32),
        payload=pl.lit(None, pl.Int64),
    )


def _diagnostics(columns: KinetoColumns, reader: KinetoReader) -> pl.DataFrame:
    rows = [
        ("recorder", severity, line, lines)
        for key, severity in _RECORDER_SEVERITIES.items()
        for line, lines in Counter(_listed(reader.metadata.get(key), str)).items()
    ]
    rows += [("importer", "warning", text, events) for text, events in reader.notes.items()]
    rows += [
        ("importer", severity, text, events) for (severity, text), events in columns.notes.items()
    ]
    return pl.DataFrame(
        rows, schema=["source", "severity", "text", "count"], orient="row"
    ).with_columns(file=pl.lit(0))


def _listed(value: object, kind: type[_Entry]) -> list[_Entry]:
    """The entries of that type, where metadata holds a list."""
    return [entry for entry in value if isinstance(entry, kind)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
