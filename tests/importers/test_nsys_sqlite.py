"""SQLite exports of every layout, and broken ones: exact rows, or a clear error."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.exports import (
    FLAVOURS,
    GRAPH_TRACE,
    KERNEL,
    MARK,
    MEMCPY,
    MEMSET,
    NSYS_2022,
    NSYS_2025,
    NVTX,
    PRE_META,
    RUNTIME,
    START_END,
    SYNC,
    Export,
    Flavour,
    described,
    global_pid,
    global_tid,
    served,
)
from tests.harness import run_cli
from tests.other_user import without_rights_of_root
from traceanalyzer import InputError, analyze, load
from traceanalyzer.importers import nsys_sqlite
from traceanalyzer.importers.nsys_processes import Processes
from traceanalyzer.progress import silent
from traceanalyzer.renderers.csv_tables import render_csv
from traceanalyzer.renderers.markdown import render_markdown
from traceanalyzer.renderers.terminal import render_terminal
from traceanalyzer.schema import TABLES

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import Trace

PID = 4100
THREAD, PROCESS = global_tid(PID), global_pid(PID)
INVALID = b"caf\xe9 \xff\xfe decode"
READS_AS = "caf\ufffd \ufffd\ufffd decode"
FAR = 70_000  # rows; more than the driver looks at before it settles a column's type


def one_call() -> Export:
    """A range, a call and its kernel."""
    export = Export()
    export.range("verify", 100, 200, THREAD)
    export.launched("gemm", (110, 120), (130, 180), THREAD, 1)
    return export


def findings(trace: Trace) -> list[tuple[str, int]]:
    """What the importer left out or repaired."""
    rows = trace.diagnostics.filter(trace.diagnostics["source"] == "importer")
    return rows.select("text", "count").rows()


def values(trace: Trace, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in described(trace, table)]


# Layouts.


def everything(flavour: Flavour) -> Export:
    """A row of each kind that the flavour knows."""
    export = Export(flavour)
    worker = global_tid(PID, 4177)
    export.add("ThreadNames", nameId=export.string("worker"), globalTid=worker)
    if "PROCESSES" in flavour.tables:
        export.add("PROCESSES", globalPid=PROCESS, pid=PID, name="sglang::scheduler_TP3")
        export.add("ANALYSIS_DETAILS", globalVid=0, duration=9_000, startTime=1, stopTime=9_001)
        export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)
        export.add("TARGET_INFO_GPU", vmId=0, id=0, cuDevice=0, name="NVIDIA H200")
    else:
        export.add("TARGET_INFO_CUDA_GPU", vmId=0, deviceId=0, name="Quadro RTX 6000", pid=PID)
    export.domain("eagle", 1, THREAD)
    export.range("verify", 100, 200, THREAD, domainId=1, int64Value=7)
    export.range("loop", 50, 900, worker, eventType=START_END, domainId=0)
    export.range("tokens", 130, None, THREAD, eventType=MARK, uint64Value=12)
    export.call(110, 120, THREAD, 1)
    export.call(140, 150, THREAD, 2, "cudaMemcpyAsync_v3020")
    export.call(160, 170, THREAD, 3, "cudaMemsetAsync_v3020")
    export.call(210, 260, worker, 4, "cudaGraphLaunch_v10000")
    export.kernel(300, 340, PROCESS, 1, name="gemm")
    export.kernel(700, 710, PROCESS, 4, name="in_a_graph", graphNodeId=(1 << 32) + 5)
    export.op(MEMCPY, 350, 360, PROCESS, 2, bytes=64, copyKind=1)
    export.op(MEMSET, 370, 371, PROCESS, 3, value=0, bytes=64, streamId=13)
    export.op(SYNC, 205, 205, PROCESS, 5, syncType=2)
    if GRAPH_TRACE in flavour.tables:
        export.op(GRAPH_TRACE, 400, 600, PROCESS, 4, graphId=2, graphExecId=3)
        export.tables[KERNEL][1]["graphId"] = 2
    if "CUDA_GRAPH_EVENTS" in flavour.tables:
        event = {"start": -5, "end": -5, "eventClass": 95, "globalTid": THREAD}
        export.add("CUDA_GRAPH_EVENTS", **event, nameId=export.string("Graph Creation"))
    return export


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled columns"])
@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)
def test_every_layout_gives_its_rows(flavour: Flavour, shuffled: bool, tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    everything(flavour).write_sqlite(path, random.Random(3) if shuffled else None)
    trace = load(path)

    graphs = GRAPH_TRACE in flavour.tables
    assert values(
        trace, "ops", "start_ns", "end_ns", "kind", "process", "stream_id", "correlation_id", "name"
    ) == [
        (300, 340, "kernel", PID, 7, 1, "gemm"),
        (700, 710, "kernel", PID, 7, 4, "in_a_graph"),
        (350, 360, "memcpy", PID, 7, 2, "[memcpy HtoD]"),
        (370, 371, "memset", PID, 13, 3, "[memset]"),
        *([(400, 600, "graph", PID, 7, 4, "[CUDA graph]")] if graphs else []),
    ]
    assert values(trace, "ops", "graph_node_id", "graph_id", "graph_exec_id") == [
        (None, None, None),
        ((1 << 32) + 5, 2 if graphs else None, None),
        (None, None, None),
        (None, None, None),
        *([(None, 2, 3)] if graphs else []),
    ]
    assert values(trace, "launches", "start_ns", "end_ns", "thread", "correlation_id", "name") == [
        (110, 120, (PID, PID), 1, "cudaLaunchKernel_v7000"),
        (140, 150, (PID, PID), 2, "cudaMemcpyAsync_v3020"),
        (160, 170, (PID, PID), 3, "cudaMemsetAsync_v3020"),
        (210, 260, (PID, 4177), 4, "cudaGraphLaunch_v10000"),
    ]
    assert values(
        trace, "ranges", "start_ns", "end_ns", "thread", "style", "domain", "name", "payload"
    ) == [
        (100, 200, (PID, PID), "push_pop", "eagle", "verify", 7),
        (50, 900, (PID, 4177), "start_end", None, "loop", None),
    ]
    assert values(trace, "marks", "time_ns", "name", "payload") == [(130, "tokens", 12)]
    assert values(trace, "syncs", "start_ns", "kind", "process", "stream_id", "correlation_id") == [
        (205, "stream_wait_event", PID, 7, 5)
    ]
    assert values(trace, "threads", "thread_id", "name") == [(PID, None), (4177, "worker")]
    known = "PROCESSES" in flavour.tables
    gpu = "NVIDIA H200" if known else "Quadro RTX 6000"
    assert values(trace, "devices", "process", "device_id", "name") == [(PID, 0, gpu)]
    assert values(trace, "processes", "process_id", "name", "rank") == [
        (PID, "sglang::scheduler_TP3", 3) if known else (PID, None, None)
    ]
    product, schema = flavour.versions or (None, None)
    assert values(
        trace,
        "files",
        "path",
        "format",
        "product_version",
        "schema_version",
        "start_utc_ns",
        "duration_ns",
    ) == [
        (
            str(path),
            "nsys-sqlite",
            product,
            schema,
            1_700_000_000_000_000_000 if known else None,
            9_000 if known else None,
        )
    ]
    assert findings(trace) == []


def test_old_table_of_gpus(tmp_path: Path) -> None:
    """TARGET_INFO_GPU of before the metadata table has other columns."""
    export = Export(PRE_META)
    export.launched("gemm", (1, 2), (3, 4), THREAD, 1)
    export.add("TARGET_INFO_GPU", vmId=0, deviceId=0, name="Tesla V100")
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert trace.devices["name"].to_list() == ["Tesla V100"]


def test_gpu_names_follow_each_process_own_ordinals(tmp_path: Path) -> None:
    """A process may see other GPUs, in another order: gpuId is the `id` of TARGET_INFO_GPU."""
    export = Export()
    for gpu, ordinal, name in ((0, 1, "small"), (1, 0, "big"), (2, 2, "third")):
        export.add("TARGET_INFO_GPU", vmId=0, id=gpu, cuDevice=ordinal, name=name)
    one, two = global_pid(10), global_pid(11)
    for gpu, ordinal, process_id in ((1, 0, 10), (0, 1, 10), (2, 0, 11)):
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=ordinal, pid=process_id)
    for process, device in ((one, 0), (one, 1), (two, 0)):
        export.kernel(1, 2, process, 1, deviceId=device)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "devices", "process", "device_id", "name") == [
        (10, 0, "big"),
        (10, 1, "small"),
        (11, 0, "third"),
    ]


@pytest.mark.parametrize(
    "table",
    [
        NVTX,
        KERNEL,
        RUNTIME,
        SYNC,
        "PROCESSES",
        "ThreadNames",
        "TARGET_INFO_GPU",
        "META_DATA_EXPORT",
    ],
)
@pytest.mark.parametrize("how", ["missing", "empty"])
def test_tables_may_be_missing_or_empty(table: str, how: str, tmp_path: Path) -> None:
    export = everything(NSYS_2025)
    whole = load(export.write_sqlite(tmp_path / "whole.sqlite"))
    if how == "missing":
        del export.tables[table]
    else:
        export.tables[table] = []
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    lost = {NVTX: {"ranges", "marks"}, RUNTIME: {"launches"}, SYNC: {"syncs"}}.get(table, set())
    for name in ("launches", "ranges", "marks", "syncs"):
        expected = [] if name in lost else described(whole, name)
        assert described(trace, name) == expected
    kinds = trace.ops["kind"].unique().sort().to_list()
    assert ("kernel" in kinds) == (table != KERNEL)
    assert findings(trace) == []
    analyze(trace)


def test_missing_tables_are_facts_in_the_report(tmp_path: Path) -> None:
    export = one_call()
    del export.tables[RUNTIME]
    report = analyze(load(export.write_sqlite(tmp_path / "calls.sqlite")))
    assert any(check.check == "launches" and "1 ops" in check.text for check in report.trust)
    export = one_call()
    del export.tables[KERNEL]
    report = analyze(load(export.write_sqlite(tmp_path / "kernels.sqlite")))
    assert report.capture.time_base == "host"
    assert any("no GPU work" in check.text for check in report.trust)
    export = one_call()
    del export.tables[NVTX]
    report = analyze(load(export.write_sqlite(tmp_path / "ranges.sqlite")))
    assert any("range" in check.text for check in report.trust), "says that there are no ranges"


def test_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE moz_places (id INTEGER, url TEXT)")
    with pytest.raises(InputError, match="StringIds") as caught:
        load(path)
    assert caught.value.where == str(path)
    assert "nsys export" in (caught.value.next_step or "")


def test_export_without_strings_is_refused(tmp_path: Path) -> None:
    export = one_call()
    del export.tables["StringIds"]
    with pytest.raises(InputError, match="StringIds"):
        load(export.write_sqlite(tmp_path / "trace.sqlite"))


# Text.


@pytest.mark.parametrize("where", ["StringIds", "NVTX text", "PROCESSES", "kernel", "metadata"])
def test_invalid_utf8_survives_to_the_printed_report(where: str, tmp_path: Path) -> None:
    export = Export()
    served(export)
    bad: Any = INVALID
    if where == "StringIds":
        export.range(bad, 5, 6, THREAD)
    elif where == "NVTX text":
        export.range("", 5, 6, THREAD, text=bad)
    elif where == "kernel":
        export.kernel(5, 6, PROCESS, None, name=bad)
    elif where == "PROCESSES":
        export.tables["PROCESSES"][0]["name"] = bad
    else:
        export.add("META_DATA_EXPORT", name="EXPORT_PARAM_TABLES_TO_EXPORT", value=bad)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    report = analyze(trace)
    for text in (
        render_terminal(report, plain=True),
        render_markdown(report),
        render_csv(report),
        report.to_json().decode(),
    ):
        assert "draft_extend" in text
    texts = [*trace.names["text"], *trace.processes["name"], *trace.diagnostics["text"]]
    assert any(text is not None and READS_AS in text for text in texts)
    assert {"draft", "verify", "draft_extend"} <= set(trace.names["text"])


def test_registered_and_plain_text_in_one_file(tmp_path: Path) -> None:
    export = Export()
    export.range("verify", 1, 2, THREAD)
    export.range("", 3, 4, THREAD, text="verify")
    export.range("", 5, 6, THREAD, text=None)
    export.range("", 7, 8, THREAD, text="own", textId=export.string("registered"))
    export.range("", 9, 10, THREAD, text="own", textId=999)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    names = [row["name"] for row in described(trace, "ranges")]
    assert names == ["verify", "verify", "", "registered", "own"]
    assert trace.ranges["name"][0] == trace.ranges["name"][1]


def test_a_name_that_strings_lack_reads_unnamed(tmp_path: Path) -> None:
    export = one_call()
    export.kernel(300, 310, PROCESS, 2, demangledName=4711)
    export.kernel(320, 330, PROCESS, 2, demangledName=None)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert [row["name"] for row in described(trace, "ops")] == ["gemm", "[unnamed]", "[unnamed]"]


# Odd values.


@pytest.mark.parametrize("odd", ["many", b"\x01\x02", 2.5], ids=["text", "blob", "real"])
@pytest.mark.parametrize("column", ["correlationId", "graphNodeId", "start", "demangledName"])
def test_what_is_no_integer_is_missing_and_counted(
    column: str, odd: object, tmp_path: Path
) -> None:
    big = (1 << 60) + 1  # not a float64
    export = Export()
    export.kernel(10, 15, PROCESS, 1, name="odd", graphNodeId=9)
    export.tables[KERNEL][0][column] = odd
    export.kernel(20, 25, PROCESS, 2, name="late", graphNodeId=big)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))

    assert any("not integers" in text and count == 1 for text, count in findings(trace))
    rows = values(trace, "ops", "name", "correlation_id", "graph_node_id")
    assert rows[-1] == ("late", 2, big)
    if column == "start":
        assert len(rows) == 1
        assert any("left out" in text and count == 1 for text, count in findings(trace))
    else:
        repaired = {"correlationId": ("odd", None, 9), "graphNodeId": ("odd", 1, None)}
        assert rows[:-1] == [repaired.get(column, ("[unnamed]", 1, 9))]


def fill(path: Path, table: str, columns: str) -> None:
    """Put `FAR` rows into a table; `n` in the columns' values counts them."""
    numbers = f"WITH RECURSIVE c(n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM c LIMIT {FAR})"
    names, _, values_ = columns.partition(" = ")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"INSERT INTO {table} ({names}) {numbers} SELECT {values_} FROM c")


@pytest.mark.parametrize("odd", ["many", b"\x01\x02", 2.5], ids=["text", "blob", "real"])
def test_no_integer_far_into_the_file(odd: object, tmp_path: Path) -> None:
    export = Export()
    export.tables[KERNEL] = []
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    columns = "start, end, globalPid, deviceId, streamId, correlationId"
    fill(path, KERNEL, f"{columns} = n, n + 1, {PROCESS}, 0, 7, n")
    with closing(sqlite3.connect(path)) as database, database:
        insert = f"INSERT INTO {KERNEL} ({columns}) VALUES (?, ?, ?, ?, ?, ?)"
        database.execute(insert, (FAR, FAR + 1, PROCESS, 0, 7, odd))
        database.execute(insert, (FAR, FAR + 2, PROCESS, 0, 7, 5))
    trace = load(path)
    assert findings(trace) == [(f"{KERNEL}: values that are not integers read as missing", 1)]
    assert trace.ops["correlation_id"].to_list() == [*range(FAR), None, 5]
    assert trace.ops["end_ns"].to_list() == [*range(1, FAR + 1), FAR + 1, FAR + 2]


def test_columns_that_begin_with_nulls(tmp_path: Path) -> None:
    export = Export()
    export.tables[KERNEL] = export.tables[NVTX] = []
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    fill(path, KERNEL, f"start, end, globalPid, deviceId, streamId = n, n + 1, {PROCESS}, 0, 7")
    fill(path, NVTX, f"start, end, eventType, globalTid = n, n + 1, 59, {THREAD}")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO StringIds VALUES (1, 'first id'), (2, 'first kernel')")
        columns = "start, end, eventType, globalTid, text, textId, int64Value"
        for named in ("'first text', NULL, 42", "NULL, 1, NULL"):
            row = f"{FAR}, {FAR + 1}, 59, {THREAD}, {named}"
            database.execute(f"INSERT INTO {NVTX} ({columns}) VALUES ({row})")
        columns = "start, end, globalPid, deviceId, streamId, correlationId, demangledName"
        row = f"{FAR}, {FAR + 1}, {PROCESS}, 0, 7, 17, 2"
        database.execute(f"INSERT INTO {KERNEL} ({columns}, graphNodeId) VALUES ({row}, 5)")
    trace = load(path)
    assert trace.ranges.height == FAR + 2
    assert values(trace, "ranges", "name", "payload")[-3:] == [
        ("", None),
        ("first text", 42),
        ("first id", None),
    ]
    assert values(trace, "ops", "name", "correlation_id", "graph_node_id")[-2:] == [
        ("[unnamed]", None, None),
        ("first kernel", 17, 5),
    ]
    assert findings(trace) == []


def test_ends_that_are_missing_or_too_early(tmp_path: Path) -> None:
    export = one_call()
    export.range("open", 150, None, THREAD)
    export.range("backwards", 150, 149, THREAD)
    export.range("empty", 150, 150, THREAD)
    export.add(NVTX, end=160, eventType=59, globalTid=THREAD)
    export.kernel(500, 499, PROCESS, 1)
    export.kernel(500, 500, PROCESS, 1, name="instant")
    export.kernel(900, 950, PROCESS, 1, name="last")
    export.tables[KERNEL].append({**export.tables[KERNEL][-1], "end": None})
    export.call(10, 9, THREAD, 1)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "ranges", "name", "start_ns", "end_ns", "closed") == [
        ("verify", 100, 200, True),
        ("open", 150, 950, False),
        ("empty", 150, 150, True),
    ]
    assert [row["name"] for row in described(trace, "ops")] == ["gemm", "instant", "last"]
    assert trace.launches.height == 1
    left_out = {text.split(":")[0]: count for text, count in findings(trace)}
    assert left_out == {NVTX: 2, KERNEL: 2, RUNTIME: 1}


def test_ids_that_are_missing(tmp_path: Path) -> None:
    export = one_call()
    export.call(110, 111, THREAD, None)
    export.call(110, 111, THREAD, 8, globalTid=None)
    export.kernel(140, 150, PROCESS, None, name="no correlation id")
    export.kernel(140, 150, PROCESS, 1, name="no process", globalPid=None)
    export.kernel(140, 150, PROCESS, 1, name="no device", deviceId=None)
    export.kernel(140, 150, PROCESS, 1, name="no stream", streamId=None)
    export.range("no thread", 1, 2, THREAD, globalTid=None)
    export.range("no domain", 1, 2, THREAD, domainId=None)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "ops", "name", "process", "correlation_id") == [
        ("gemm", PID, 1),
        ("no correlation id", PID, None),
        ("no process", PID, 1),  # the only one there is
    ]
    assert values(trace, "launches", "thread", "correlation_id") == [
        ((PID, PID), 1),
        ((PID, PID), None),
    ]
    assert values(trace, "ranges", "name", "domain") == [("verify", None), ("no domain", None)]
    left_out = {text.split(":")[0]: count for text, count in findings(trace)}
    assert left_out == {RUNTIME: 1, KERNEL: 2, NVTX: 1}


def test_an_op_without_process_is_not_given_to_one_of_several(tmp_path: Path) -> None:
    export = one_call()
    export.launched("other", (1, 2), (3, 4), global_tid(55), 1)
    export.kernel(500, 510, PROCESS, 1, name="stray", globalPid=None)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "ops", "name", "process")[-1] == ("stray", 0)


@pytest.mark.parametrize("device", [1 << 31, (1 << 32) - 1, -(1 << 40)])
@pytest.mark.parametrize("table", [KERNEL, SYNC])
def test_device_numbers_that_no_machine_has(device: int, table: str, tmp_path: Path) -> None:
    """An unsigned -1 (CUPTI's "invalid") or a broken row: told or left out, not a crash."""
    export = one_call()
    extra = {"demangledName": 1} if table == KERNEL else {"syncType": 3}
    export.op(table, 300, 310, PROCESS, 2, deviceId=device, **extra)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    try:
        trace = load(path)
    except InputError as error:
        assert error.where is not None  # noqa: PT017  either is right
        return
    assert described(trace, "ops")[0]["name"] == "gemm"
    analyze(trace)


@pytest.mark.parametrize(
    "row",
    [
        {"start": 1 << 62, "end": (1 << 62) + 1},
        {"start": -(1 << 63), "end": (1 << 63) - 1},
        {"correlationId": (1 << 63) - 1},
        {"graphNodeId": (1 << 63) - 1},
        {"streamId": (1 << 63) - 1},
        {"globalPid": (1 << 63) - 1},
        {"deviceId": (1 << 31) - 1},
        {"deviceId": -1},
    ],
    ids=str,
)
def test_extreme_numbers_are_analysed_or_refused(row: dict[str, int], tmp_path: Path) -> None:
    export = one_call()
    export.op(KERNEL, 300, 310, PROCESS, 2, demangledName=1)
    export.tables[KERNEL][-1].update(row)
    try:
        report = analyze(load(export.write_sqlite(tmp_path / "trace.sqlite")))
    except InputError as error:
        assert error.next_step  # noqa: PT017  either is right
        return
    told = [check.text for check in report.trust]
    kept = 2 - ("start" in row)  # no sum can hold such a time: the row is left out
    assert sum(phase.kernels for rank in report.ranks for phase in rank.phases) == kept
    assert any("usable times" in text for text in told) == ("start" in row)


def test_backtrace_rows_do_not_double_calls(tmp_path: Path) -> None:
    export = one_call()
    export.call(105, 125, THREAD, 1, eventClass=67)
    export.call(130, 140, THREAD, 2, "cuLaunchKernelEx", eventClass=1)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "launches", "start_ns", "name") == [
        (110, "cudaLaunchKernel_v7000"),
        (130, "cuLaunchKernelEx"),
    ]


def test_negative_times(tmp_path: Path) -> None:
    export = Export()
    export.domain("eagle", 1, THREAD, start=-20_200_000_000)
    export.range("verify", -900, -100, THREAD, domainId=1)
    export.launched("gemm", (-800, -790), (-700, 50), THREAD, 1)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "ranges", "start_ns", "end_ns", "domain") == [(-900, -100, "eagle")]
    report = analyze(trace)
    (phase,) = report.ranks[0].phases
    assert (phase.phase, phase.kernels, phase.kernel_ns) == ("verify", 1, 750)


@pytest.mark.parametrize("hardware", [0, 1, 127, 128, 255])
def test_hardware_ids_that_make_global_ids_negative(hardware: int, tmp_path: Path) -> None:
    pid, tid = (1 << 24) - 1, (1 << 24) - 2
    thread, process = global_tid(pid, tid, hardware), global_pid(pid, hardware)
    export = Export()
    export.add("PROCESSES", globalPid=process, pid=pid, name="worker_TP1")
    export.domain("eagle", 1, thread)
    export.range("verify", 100, 200, thread, domainId=1)
    export.launched("gemm", (110, 120), (130, 180), thread, 1)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "processes", "process_id", "name", "rank") == [(pid, "worker_TP1", 1)]
    assert values(trace, "threads", "process", "thread_id") == [(pid, tid)]
    assert values(trace, "ranges", "domain", "name") == [("eagle", "verify")]
    (phase,) = analyze(trace).ranks[0].phases
    assert (phase.phase, phase.kernels) == ("verify", 1)


def test_equal_ids_on_two_machines_are_two_processes(tmp_path: Path) -> None:
    """One file may hold reports of two machines: all but the hardware id may be equal."""
    export = Export()
    for hardware, name, phase in ((1, "here", "verify"), (200, "there", "draft")):
        thread = global_tid(PID, hardware=hardware)
        export.range(phase, 100, 200, thread)
        export.launched(name, (110, 120), (130, 180), thread, 1)
    report = analyze(load(export.write_sqlite(tmp_path / "trace.sqlite")))
    found = [
        (rank.process_id, [(phase.phase, phase.kernels) for phase in rank.phases])
        for rank in report.ranks
    ]
    assert sorted(found) == [(PID, [("draft", 1)]), (PID, [("verify", 1)])]


# Ranges.


def test_domains_are_looked_up_in_their_own_process(tmp_path: Path) -> None:
    one, two = global_tid(1), global_tid(2)
    export = Export()
    export.range("before its domain's row", 1, 2, one, domainId=1)
    export.domain("eagle", 1, one)
    export.domain("NCCL", 2, one)
    export.domain("NCCL", 1, two)
    export.domain("second creation", 1, one)
    export.range("draft", 1, 2, one, domainId=1)
    export.range("draft", 1, 2, one, domainId=2)
    export.range("draft", 1, 2, two, domainId=1)
    export.range("draft", 1, 2, global_tid(1, 99), domainId=1)
    export.range("draft", 1, 2, one, domainId=0)
    export.range("draft", 1, 2, one, domainId=77)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "ranges", "thread", "domain") == [
        ((1, 1), "eagle"),
        ((1, 1), "eagle"),
        ((1, 1), "NCCL"),
        ((2, 2), "NCCL"),
        ((1, 99), "eagle"),
        ((1, 1), None),
        ((1, 1), None),
    ]


def test_ranges_that_another_thread_closes_contain_nothing(tmp_path: Path) -> None:
    other = global_tid(PID, 9)
    event = {"eventType": START_END}
    export = Export()
    export.range("handed over", 0, 1000, THREAD, endGlobalTid=other, **event)
    export.range("own", 50, 900, THREAD, endGlobalTid=THREAD, **event)
    export.launched("gemm", (110, 120), (130, 180), THREAD, 1)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    assert values(load(path), "ranges", "name", "end_thread", "style") == [
        ("handed over", (PID, 9), "start_end"),
        ("own", None, "start_end"),
    ]
    result = run_cli("ranges", path, "--kernels", "--format", "csv")
    assert result.stdout.splitlines()[1:] == [f"own,start_end,{PID},{PID},gemm,1,1,50"]


def test_imported_event_types_are_ranges(tmp_path: Path) -> None:
    export = Export()
    for number, kind in enumerate((59, 60, 70, 71, 33, 39, 76, 97)):
        export.range(f"type {kind}", number, number + 1, THREAD, eventType=kind)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert values(trace, "ranges", "name", "style") == [
        ("type 59", "push_pop"),
        ("type 60", "start_end"),
        ("type 70", "push_pop"),
        ("type 71", "start_end"),
    ]


@pytest.mark.parametrize(
    ("column", "written", "read"),
    [
        ("int64Value", -3, -3),
        ("uint64Value", -1, -1),  # 2**64 - 1 as SQLite has it
        ("uint64Value", 7, 7),
        ("int32Value", -8, -8),
        ("uint32Value", (1 << 32) - 1, (1 << 32) - 1),
        ("doubleValue", 2.5, None),
        ("floatValue", 2.5, None),
    ],
)
@pytest.mark.parametrize("kind", ["range", "mark"])
def test_payloads(column: str, written: float, read: int | None, kind: str, tmp_path: Path) -> None:
    export = Export()
    if kind == "mark":
        export.range("accept", 1, None, THREAD, eventType=MARK, **{column: written})
    else:
        export.range("verify", 1, 2, THREAD, **{column: written})
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert (trace.marks if kind == "mark" else trace.ranges)["payload"].to_list() == [read]


def test_copies_and_waits_of_unknown_kinds(tmp_path: Path) -> None:
    export = Export()
    for kind in (1, 2, 8, 10, None, 99):
        export.op(MEMCPY, 1, 2, PROCESS, 1, copyKind=kind)
    for kind in (1, 2, 3, 4, None, 99):
        export.op(SYNC, 1, 2, PROCESS, 1, syncType=kind)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    copies = ["HtoD", "DtoH", "DtoD", "PtoP", "unknown", "unknown"]
    assert [row["name"] for row in described(trace, "ops")] == [f"[memcpy {x}]" for x in copies]
    waits = ["event", "stream_wait_event", "stream", "context", "unknown", "unknown"]
    assert trace.syncs["kind"].to_list() == waits


def test_what_the_recorder_said(tmp_path: Path) -> None:
    export = one_call()
    for text in ("Not all CUDA events might have been collected.", "Profiling has stopped."):
        for _ in range(2):
            export.add("DIAGNOSTIC_EVENT", timestamp=1, source=1, severity=2, text=text)
    export.add("DIAGNOSTIC_EVENT", severity=None, text=None)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert trace.diagnostics.select("source", "severity", "text", "count").rows() == [
        ("recorder", "warning", "Not all CUDA events might have been collected.", 2),
        ("recorder", "warning", "Profiling has stopped.", 2),
        ("recorder", "info", "", 1),
    ]


@pytest.mark.parametrize("tables", ["NVTX_EVENTS", "NVTX", "*", "[", "(a NVTX", "\\"])
def test_partial_exports_are_told(tables: str, tmp_path: Path) -> None:
    """The patterns are POSIX regular expressions, which Python's may not be."""
    export = one_call()
    export.add("META_DATA_EXPORT", name="EXPORT_PARAM_TABLES_TO_EXPORT", value=tables)
    export.add("META_DATA_EXPORT", name="EXPORT_PARAM_TIMES_TO_EXPORT", value="1s/2s")
    export.add("META_DATA_EXPORT", name=None, value=None)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    texts = [text for text, _ in findings(trace)]
    assert any("1s/2s" in text for text in texts)
    if "NVTX" in tables:
        assert any(KERNEL in text for text in texts)
    trust = analyze(trace).trust
    assert {check.text for check in trust if check.check == "importer"} == set(texts)


# Files.


def test_rows_in_a_write_ahead_log_count(tmp_path: Path) -> None:
    path = one_call().write_sqlite(tmp_path / "busy.sqlite")
    copied = tmp_path / "copied"
    copied.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        with database:
            database.execute(f"INSERT INTO {KERNEL} SELECT * FROM {KERNEL}")
        assert load(path).ops.height == 2
        for name in ("busy.sqlite", "busy.sqlite-wal"):
            shutil.copy(tmp_path / name, copied / name)
    assert load(copied / "busy.sqlite").ops.height == 2


def test_rows_in_a_write_ahead_log_count_through_a_link(tmp_path: Path) -> None:
    path = one_call().write_sqlite(tmp_path / "busy.sqlite")
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        with database:
            database.execute(f"INSERT INTO {KERNEL} SELECT * FROM {KERNEL}")
        assert load(link).ops.height == 2


def test_rows_that_a_killed_writer_left_do_not_count(tmp_path: Path) -> None:
    """Beside such a file lies a journal that takes the unfinished change back."""
    path = one_call().write_sqlite(tmp_path / "busy.sqlite")
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")  # pages are written before the commit
        database.execute("BEGIN")
        database.execute(f"UPDATE {KERNEL} SET end = end + 1000")
        for number in range(100):
            database.execute(f"INSERT INTO StringIds VALUES ({1000 + number}, zeroblob(300))")
        for name in ("busy.sqlite", "busy.sqlite-journal"):
            shutil.copy(tmp_path / name, killed / name)
        database.execute("ROLLBACK")
    try:
        trace = load(killed / "busy.sqlite")
    except InputError as error:
        assert error.where == str(killed / "busy.sqlite")  # noqa: PT017  either is right
        return
    assert trace.ops["end_ns"].to_list() == [180]


@pytest.mark.parametrize(
    "name",
    [
        "what?.sqlite",
        "a#b.sqlite",
        "100%41.sqlite",
        "with space.sqlite",
        "a&immutable=0&mode=rwc",
        "quote'\".sqlite",
        "new\nline",
        "ünïcode 🦅",
        "[glob]*",
        "file:x",
    ],
)
def test_names_that_mean_something_elsewhere(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = one_call().write_sqlite(folder / name)
    before = path.read_bytes()
    trace = load(path)
    assert (trace.ops.height, trace.files["path"].to_list()) == (1, [str(path)])
    assert sorted(child.name for child in folder.iterdir()) == [name]
    assert path.read_bytes() == before


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = one_call().write_sqlite(tmp_path / "trace.sqlite")
    odd = os.fsencode(tmp_path) + b"/caf\xe9.sqlite"
    os.rename(os.fsencode(path), odd)
    result = run_cli("report", os.fsdecode(odd))
    assert "Traceback" not in result.stderr
    assert result.exit_code in (0, 2)


def test_read_only_file_in_a_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "readonly"
    folder.mkdir()
    path = one_call().write_sqlite(folder / "trace.sqlite")
    load(path)  # imports what the other user may not
    path.chmod(0o444)
    folder.chmod(0o555)
    with without_rights_of_root(tmp_path):
        trace = load(path)
    folder.chmod(0o755)
    assert trace.ops.height == 1


def small_server(folder: Path) -> Path:
    export = Export()
    served(export)
    served(export, 5200, rank=1)
    return export.write_sqlite(folder / "whole.sqlite")


def test_cut_off_files_are_refused_or_give_rows_of_the_whole(tmp_path: Path) -> None:
    whole = small_server(tmp_path)
    data = whole.read_bytes()
    tables = ("ops", "launches", "ranges")
    rows = {table: {repr(row) for row in described(load(whole), table)} for table in tables}
    path = tmp_path / "cut.sqlite"
    refused = 0
    for size in [*range(0, 120, 13), *range(120, len(data), 331), len(data) - 1]:
        path.write_bytes(data[:size])
        try:
            trace = load(path)
        except InputError as error:
            refused += 1
            assert error.where == str(path)  # noqa: PT017
            continue
        for table in tables:
            found = {repr(row) for row in described(trace, table)}
            assert found <= rows[table], f"rows made up from a file cut at {size}"
    assert refused > 20


def test_damaged_pages_are_refused_or_analysed(tmp_path: Path) -> None:
    data = small_server(tmp_path).read_bytes()
    dice = random.Random(8)
    path = tmp_path / "damaged.sqlite"
    outcomes = set()
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(dice.choice((1, 3, 20))):
            place, length = dice.randrange(100, len(data) - 64), dice.choice((1, 1, 4, 64))
            damaged[place : place + length] = dice.randbytes(length)
        path.write_bytes(damaged)
        try:
            analyze(load(path))
            outcomes.add("analysed")
        except InputError:
            outcomes.add("refused")
    assert outcomes == {"analysed", "refused"}


@pytest.mark.parametrize("junk", [b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_header_alone_is_refused(junk: bytes, tmp_path: Path) -> None:
    path = tmp_path / "header.sqlite"
    path.write_bytes(junk)
    with pytest.raises(InputError) as caught:
        load(path)
    assert caught.value.where == str(path)


def test_views_and_triggers_are_not_tables(tmp_path: Path) -> None:
    path = one_call().write_sqlite(tmp_path / "trace.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"ALTER TABLE {NVTX} RENAME TO hidden")
        database.execute(f"CREATE VIEW {NVTX} AS SELECT * FROM hidden")
        database.execute(f"CREATE VIEW {MEMSET} AS SELECT 1/0 AS start, no_such_function() AS end")
        database.execute(f"CREATE TRIGGER {MEMCPY} AFTER INSERT ON hidden BEGIN SELECT 1; END")
    trace = load(path)
    assert (trace.ranges.height, trace.ops.height) == (0, 1)
    (told,) = (row for row in trace.diagnostics.rows(named=True) if "views" in row["text"])
    assert told["text"] == f"not read: views or virtual tables in place of {MEMSET}, {NVTX}"
    assert (told["source"], told["severity"], told["count"]) == ("importer", "warning", 2)
    rows = [row for row in analyze(trace).trust if told["text"] in row.text]
    assert [row.status for row in rows] == ["warning"]
    later = nsys_sqlite.read(path, silent, Processes(first=1 << 24))
    assert "views" not in "".join(later.diagnostics["text"])


def test_views_beside_the_tables_are_nobodys_business(tmp_path: Path) -> None:
    path = one_call().write_sqlite(tmp_path / "trace.sqlite")
    before = load(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE VIEW mine AS SELECT * FROM {NVTX}")
    assert load(path).diagnostics.equals(before.diagnostics)


def test_tables_with_odd_names_do_no_harm(tmp_path: Path) -> None:
    path = one_call().write_sqlite(tmp_path / "trace.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        for name in ('"; DROP TABLE StringIds; --', "it's", "", " ", "select", "NVTX_EVENTS "):
            quoted = '"' + name.replace('"', '""') + '"'
            database.execute(f'CREATE TABLE {quoted} ("a""b" INTEGER, "start" TEXT)')
    before = path.read_bytes()
    assert load(path).ops.height == 1
    assert path.read_bytes() == before


def test_rows_keep_the_order_of_the_file(tmp_path: Path) -> None:
    export = Export(NSYS_2022)
    for start in (500, 100, 300, 100):
        export.range(f"at {start}", start, start + 1, THREAD)
        export.kernel(start, start + 1, PROCESS, start)
    trace = load(export.write_sqlite(tmp_path / "trace.sqlite"))
    assert trace.ranges["start_ns"].to_list() == [500, 100, 300, 100]
    assert trace.ops["start_ns"].to_list() == [500, 100, 300, 100]


# Tables are read some rows at a time.

_ODDLY_NUMBERED = {
    "as written": "",
    "with gaps": f"DELETE FROM {KERNEL} WHERE rowid % 3 = 0",
    "from below zero": f"UPDATE {KERNEL} SET rowid = rowid - 1000000",
    "far apart": f"UPDATE {KERNEL} SET rowid = -rowid * 1000000000000",
    "none at all": f"""
        CREATE TABLE other (start, "end", deviceId, streamId, correlationId, globalPid,
            demangledName, PRIMARY KEY ("end", correlationId, globalPid)) WITHOUT ROWID;
        INSERT INTO other SELECT start, "end", deviceId, streamId, correlationId, globalPid,
            demangledName FROM {KERNEL};
        DROP TABLE {KERNEL};
        ALTER TABLE other RENAME TO {KERNEL}""",
    "a column called so": f"ALTER TABLE {KERNEL} ADD COLUMN RowId INTEGER DEFAULT 1",
}


@pytest.mark.parametrize("block_rows", [1, 3, 65536])
@pytest.mark.parametrize("numbers", _ODDLY_NUMBERED)
def test_every_row_is_read_once_however_rows_are_numbered(
    numbers: str, block_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_server(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(_ODDLY_NUMBERED[numbers])
        kernels = database.execute(f'SELECT start, "end", correlationId FROM {KERNEL}').fetchall()
    assert len(kernels) > 3
    monkeypatch.setattr(nsys_sqlite, "BLOCK_ROWS", block_rows)
    ops = load(path).ops
    read = ops.filter(ops["kind"] == "kernel").select("start_ns", "end_ns", "correlation_id")
    assert read.rows() == kernels


@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)
def test_blocks_leave_no_mark_on_the_tables(
    flavour: Flavour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = everything(flavour).write_sqlite(tmp_path / "trace.sqlite")
    whole = load(path)
    monkeypatch.setattr(nsys_sqlite, "BLOCK_ROWS", 1)
    blocks = load(path)
    for table in TABLES:
        assert getattr(blocks, table.name).equals(getattr(whole, table.name)), table.name


def test_what_is_no_integer_is_counted_over_all_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_server(tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        rows = f"UPDATE {KERNEL} SET correlationId = 'odd' WHERE rowid IN (1, 2, 9)"
        assert database.execute(rows).rowcount == 3
    monkeypatch.setattr(nsys_sqlite, "BLOCK_ROWS", 2)
    assert findings(load(path)) == [(f"{KERNEL}: values that are not integers read as missing", 3)]
