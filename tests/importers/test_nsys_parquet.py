"""Parquet folders give the same Trace as the SQLite export of the same report."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exports import (
    GRAPH_TRACE,
    KERNEL,
    MARK,
    MEMCPY,
    MEMSET,
    NVTX,
    RUNTIME,
    START_END,
    SYNC,
    Export,
    described,
    global_pid,
    global_tid,
    served,
)
from traceanalyzer import InputError, analyze, load
from traceanalyzer.schema import TABLES

PID = 4100
THREAD, PROCESS = global_tid(PID), global_pid(PID)
CONTENT = [table.name for table in TABLES if table.name not in ("files", "names")]


def assert_same(export: Export, folder: Path) -> None:
    """Both forms hold the same, down to the row order."""
    sqlite = load(export.write_sqlite(folder / "trace.sqlite"))
    parquet = load(export.write_parquet(folder / "trace_pqtdir"))
    for table in CONTENT:
        assert described(parquet, table) == described(sqlite, table), table
    (sqlite_file,), (parquet_file,) = (
        trace.files.drop("path", "format").rows() for trace in (sqlite, parquet)
    )
    assert parquet_file == sqlite_file
    assert parquet.files["format"].to_list() == ["nsys-parquet"]


def test_a_server(tmp_path: Path) -> None:
    export = Export()
    served(export)
    served(export, 5200, rank=1)
    export.add("TARGET_INFO_GPU", vmId=0, id=0, cuDevice=0, name="NVIDIA H200")
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)
    export.add("ANALYSIS_DETAILS", globalVid=0, duration=9_000, startTime=1, stopTime=9_001)
    assert_same(export, tmp_path)
    report = analyze(load(tmp_path / "trace_pqtdir"))
    assert [rank.cycles.kept for rank in report.ranks] == [4, 4]


small = st.one_of(st.none(), st.integers(-3, 12))
ids = st.one_of(st.none(), st.integers(0, 3), st.sampled_from([(1 << 32) - 1, (1 << 40) + 7]))
processes = st.sampled_from([(1, 1), (1, 2), (2, 1), (1, 128), (2, 255)])
threads = st.builds(
    lambda process, thread: global_tid(process[0], thread, process[1]),
    processes,
    st.integers(1, 3),
)
texts = st.one_of(st.none(), st.sampled_from(["", "verify", "draft", "käse", "x" * 40]))


def rows(**columns: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries(columns), max_size=6)


span: dict[str, st.SearchStrategy[Any]] = {"start": small, "end": small}
work: dict[str, st.SearchStrategy[Any]] = {
    **span,
    "globalPid": st.one_of(st.none(), st.builds(lambda process: global_pid(*process), processes)),
    "deviceId": st.sampled_from([0, 0, 1, None]),
    "streamId": st.sampled_from([7, 13, None]),
    "correlationId": ids,
    "graphNodeId": ids,
}
tables = st.fixed_dictionaries(
    {
        KERNEL: rows(**work, demangledName=ids, graphId=ids),
        MEMCPY: rows(**work, copyKind=small),
        MEMSET: rows(**work),
        GRAPH_TRACE: rows(**work, graphId=ids, graphExecId=ids),
        SYNC: rows(**work, syncType=small),
        RUNTIME: rows(
            **span,
            eventClass=st.sampled_from([0, 1, 67, None]),
            globalTid=st.one_of(st.none(), threads),
            correlationId=ids,
            nameId=ids,
        ),
        NVTX: rows(
            **span,
            eventType=st.sampled_from([59, 59, START_END, MARK, 75, 33, 70, None]),
            globalTid=st.one_of(st.none(), threads),
            endGlobalTid=st.one_of(st.none(), threads),
            domainId=small,
            textId=ids,
            text=texts,
            int64Value=small,
            uint64Value=st.sampled_from([None, None, 5, -1]),
            int32Value=small,
            doubleValue=st.sampled_from([None, 1.5]),
        ),
        "StringIds": rows(id=st.integers(0, 3), value=texts),
        "ThreadNames": rows(globalTid=threads, nameId=ids),
        "PROCESSES": rows(
            globalPid=st.builds(lambda process: global_pid(*process), processes), name=texts
        ),
        "TARGET_INFO_GPU": rows(id=small, cuDevice=small, name=texts),
        "TARGET_INFO_CUDA_DEVICE": rows(gpuId=small, cudaId=small, pid=small),
        "DIAGNOSTIC_EVENT": rows(severity=small, text=texts),
    }
)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(tables=tables)
def test_any_content(tables: dict[str, list[dict[str, Any]]]) -> None:
    export = Export()
    export.tables.update(tables)
    with tempfile.TemporaryDirectory() as folder:
        assert_same(export, Path(folder))
        analyze(load(Path(folder) / "trace_pqtdir"))


def test_dictionary_encoded_names(tmp_path: Path) -> None:
    """nsys writes dictionaries; polars reads some of those as categories."""
    export = Export()
    served(export)
    folder = export.write_parquet(tmp_path / "trace_pqtdir")
    plain = described(load(folder), "ranges")
    for table, column in (("StringIds", "value"), (NVTX, "text")):
        file = folder / f"{table}.parquet"
        pl.read_parquet(file).with_columns(pl.col(column).cast(pl.Categorical)).write_parquet(file)
    assert described(load(folder), "ranges") == plain


def test_columns_in_any_order_and_more_of_them(tmp_path: Path) -> None:
    export = Export()
    served(export)
    folder = export.write_parquet(tmp_path / "trace_pqtdir")
    whole = {table: described(load(folder), table) for table in CONTENT}
    dice = random.Random(5)
    for file in folder.iterdir():
        frame = pl.read_parquet(file)
        columns = dice.sample(frame.columns, frame.width)
        frame.select(columns).with_columns(later_addition=pl.lit(1)).write_parquet(file)
    assert {table: described(load(folder), table) for table in CONTENT} == whole


@pytest.mark.parametrize("table", [NVTX, KERNEL, RUNTIME, "PROCESSES", "META_DATA_EXPORT"])
def test_tables_may_be_missing(table: str, tmp_path: Path) -> None:
    export = Export()
    served(export)
    folder = export.write_parquet(tmp_path / "trace_pqtdir")
    (folder / f"{table}.parquet").unlink()
    trace = load(folder)
    lost = {NVTX: "ranges", KERNEL: "ops", RUNTIME: "launches"}.get(table)
    assert (trace.ops.height == 0, trace.ranges.height == 0, trace.launches.height == 0) == tuple(
        lost == name for name in ("ops", "ranges", "launches")
    )
    analyze(trace)


def test_invalid_utf8_is_refused_with_the_way_around(tmp_path: Path) -> None:
    """The writer of parquet does not check what nsys recorded, and no reader takes such a file."""
    export = Export()
    served(export)
    export.range("caf?? decode", 5, 6, THREAD)
    folder = export.write_parquet(tmp_path / "trace_pqtdir")
    file = folder / "StringIds.parquet"
    data = file.read_bytes()
    assert b"caf?? decode" in data
    file.write_bytes(data.replace(b"caf?? decode", b"caf\xe9\xff decode"))
    with pytest.raises(InputError, match="invalid UTF-8") as raised:
        load(folder)
    assert "sqlite" in str(raised.value.next_step)


def test_text_as_bytes(tmp_path: Path) -> None:
    """A column of bytes, as a writer leaves it that marks no text."""
    export = Export()
    served(export)
    folder = export.write_parquet(tmp_path / "trace_pqtdir")
    plain = described(load(folder), "ranges")
    file = folder / "StringIds.parquet"
    pl.read_parquet(file).with_columns(pl.col("value").cast(pl.Binary)).write_parquet(file)
    assert described(load(folder), "ranges") == plain


def damaged(data: bytes, how: str) -> bytes:
    place = len(data) // 20
    return {
        "cut off": data[: len(data) // 2],
        "a piece lost": data[:place] + data[place + 200 :],
        "a piece put in": data[:place] + bytes(100) + data[place:],
        "zeros": bytes(len(data)),
        "zeros in the rows": data[:4] + bytes(1200) + data[1204:],
        "zeros in the footer": data[:-400] + bytes(300) + data[-100:],
    }[how]


@pytest.mark.parametrize("table", ["StringIds", KERNEL, NVTX])
@pytest.mark.parametrize(
    "how",
    [
        "cut off",
        "a piece lost",
        "a piece put in",
        "zeros",
        "zeros in the rows",
        "zeros in the footer",
    ],
)
def test_damaged_files_are_refused(how: str, table: str, tmp_path: Path) -> None:
    export = Export()
    served(export)
    folder = export.write_parquet(tmp_path / "trace_pqtdir")
    file = folder / f"{table}.parquet"
    file.write_bytes(damaged(file.read_bytes(), how))
    with pytest.raises(InputError) as caught:
        load(folder)
    assert caught.value.where == str(file)
    assert caught.value.next_step


@pytest.mark.parametrize("junk", [b"", b"PAR1", b"PAR1PAR1", b"not parquet at all"])
def test_names_that_are_no_parquet(junk: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "trace_pqtdir"
    folder.mkdir()
    (folder / "StringIds.parquet").write_bytes(junk)
    with pytest.raises(InputError) as caught:
        load(folder)
    assert caught.value.where == str(folder / "StringIds.parquet")


def test_a_table_of_other_types_is_refused(tmp_path: Path) -> None:
    export = Export()
    served(export)
    folder = export.write_parquet(tmp_path / "trace_pqtdir")
    file = folder / f"{KERNEL}.parquet"
    pl.read_parquet(file).with_columns(start=pl.lit([1, 2])).write_parquet(file)
    with pytest.raises(InputError) as caught:
        load(folder)
    assert caught.value.where == str(file)


@pytest.mark.parametrize("name", ["a[1]_pqtdir", "what?*", "100%41 #x", "ünïcode"])
def test_names_that_mean_something_elsewhere(name: str, tmp_path: Path) -> None:
    export = Export()
    served(export)
    trace = load(export.write_parquet(tmp_path / name))
    assert (trace.ops.height, trace.files["path"].to_list()) == (20, [str(tmp_path / name)])
