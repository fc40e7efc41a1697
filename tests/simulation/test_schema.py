"""The declared schemas against real exports, and both containers against one another."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.harness import needs_shared, shared_folder
from tests.simulation.conftest import SERVERS, SMALL
from traceanalyzer.errors import InputError
from traceanalyzer.simulation import (
    NSYS_2022_4,
    NSYS_2025_5,
    eagle3_server,
    write_nsys_parquetdir,
    write_nsys_sqlite,
)

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.nsys_schema import Flavour

ADDED_IN_2026 = {"sharedMemoryRequestedPercentage", "tensorSizeMinusOneElements"}
WITHHELD = {"TARGET_INFO_SYSTEM_ENV"}
"""Taken out of the real files, for it holds their authors' environment."""
REAL_2025 = {
    "nsys/training_nvtx_2025.1.sqlite": (
        "TARGET_INFO_CUDA_DEVICE",
        "TARGET_INFO_CUDA_CONTEXT_INFO",
        "TARGET_INFO_CUDA_STREAM",
        "TARGET_INFO_SESSION_START_TIME",
        "DIAGNOSTIC_EVENT",
        "NVTX_EVENTS",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "META_DATA_EXPORT",
        "ANALYSIS_DETAILS",
        "StringIds",
        "TARGET_INFO_GPU",
    ),
    "nsys/a100_graph_trace_rows_2024.6.sqlite": (
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "CUDA_GRAPH_EVENTS",
        "PROCESSES",
        "ThreadNames",
    ),
    "nsys/h100_two_ranks_mfu_2026.2.sqlite": ("CUPTI_ACTIVITY_KIND_KERNEL",),
}


def columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, int, int]]:
    """Name, type, NOT NULL and primary key of each column in order."""
    rows = connection.execute(f"PRAGMA table_info({table})")
    return [(name, kind, required, key) for _, name, kind, required, _, key in rows]


def declared(flavour: Flavour, table: str) -> list[tuple[str, str, int, int]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE {table} ({flavour.tables[table]})")
        return columns(connection, table)


def real(path: str) -> sqlite3.Connection:
    folder = shared_folder()
    assert folder is not None
    return sqlite3.connect(f"file:{folder / path}?mode=ro", uri=True)


@needs_shared
def test_2022_4_is_declared_as_the_real_exporter_does():
    with closing(real("oracle/edge_cases/edge_2022.sqlite")) as connection:
        for table in NSYS_2022_4.tables.keys() - WITHHELD:
            assert declared(NSYS_2022_4, table) == columns(connection, table), table


@needs_shared
@pytest.mark.parametrize(
    ("path", "table"), [(path, table) for path, all_ in REAL_2025.items() for table in all_]
)
def test_2025_5_is_declared_as_in_real_files(path, table):
    with closing(real(f"traces/{path}")) as connection:
        found = [column for column in columns(connection, table) if column[0] not in ADDED_IN_2026]
    assert declared(NSYS_2025_5, table) == found


@needs_shared
@pytest.mark.parametrize(
    ("path", "flavour"),
    [
        ("oracle/edge_cases/edge_2022.sqlite", NSYS_2022_4),
        ("traces/nsys/training_nvtx_2025.1.sqlite", NSYS_2025_5),
    ],
    ids=["2022.4", "2025.5"],
)
def test_enumerations_are_the_real_ones(path, flavour):
    with closing(real(path)) as connection:
        for table, rows in flavour.enums.items():
            found = set(connection.execute(f"SELECT id, name, label FROM {table}"))
            assert found == set() or set(rows) <= found, table


def rows_of_sqlite(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)
            for table in tables
        }


def test_parquet_folder_holds_the_rows_of_the_sqlite_file(server, tmp_path):
    _settings, recording = server
    write_nsys_sqlite(recording, tmp_path / "trace.sqlite", NSYS_2025_5)
    write_nsys_parquetdir(recording, tmp_path / "folder")
    found = {
        path.stem: sorted(pl.read_parquet(path).rows(), key=repr)
        for path in (tmp_path / "folder").iterdir()
    }
    assert found == rows_of_sqlite(tmp_path / "trace.sqlite")


def test_parquet_types_are_those_of_real_folders(small, tmp_path):
    write_nsys_parquetdir(small, tmp_path)
    types = {
        (path.stem, name): dtype
        for path in tmp_path.iterdir()
        for name, dtype in pl.read_parquet_schema(path).items()
    }
    for (table, column), dtype in types.items():
        if column in ("globalTid", "globalPid", "endGlobalTid", "correlationId", "nameId"):
            assert dtype == pl.UInt64, (table, column)
        if column in ("start", "end", "textId", "uint32Value"):
            assert dtype == pl.Int64, (table, column)
    assert types["StringIds", "id"] == pl.Int32
    assert types["NVTX_EVENTS", "int32Value"] == pl.Int32
    assert types["NVTX_EVENTS", "floatValue"] == pl.Float32
    assert types["NVTX_EVENTS", "uint64Value"] == pl.UInt64


def test_no_environment_table_is_written(server_file):
    names = set(rows_of_sqlite(server_file))
    assert not {name for name in names if "ENV" in name or "CAPTURE" in name}


def test_the_file_says_that_it_is_simulated(server_file):
    tables = rows_of_sqlite(server_file)
    meta = dict(tables.get("META_DATA_EXPORT") or tables["EXPORT_META_DATA"])
    assert "simulated" in meta["EXPORT_PRODUCT_NAME"]
    assert meta["SIMULATION"].startswith("simulated EAGLE-3 server")


def test_the_old_exporter_has_no_table_for_whole_graph_rows(tmp_path):
    path = tmp_path / "trace.sqlite"
    path.write_text("kept")
    with pytest.raises(InputError, match="no table for whole-graph rows"):
        write_nsys_sqlite(eagle3_server(SERVERS["graph rows"]), path, NSYS_2022_4)
    assert path.read_text() == "kept"


def test_one_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_nsys_sqlite(eagle3_server(replace(SMALL, seed=seed)), tmp_path / name)
    first, again, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == again
    assert first != other
