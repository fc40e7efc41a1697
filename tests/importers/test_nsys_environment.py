"""Names of the variables that an export stores, wherever it stores them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.harness import SAMPLE_TRACES
from traceanalyzer.importers.nsys_environment import stored_environment

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = "HF_TOKEN=a=b\0EMPTY=\0HOME=/home/casey\0_X1=\x7f\0not a name=1"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.execute("INSERT INTO StringIds VALUES (1, 'x=1'), (2, ?)", (BLOCK,))
        database.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        database.execute(
            "INSERT INTO META_DATA_CAPTURE VALUES ('ENV', 'SEED=1' || char(10) || 'A=2')"
        )
        database.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)")
        database.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node-3.cluster')")
    return path


def test_blocks_of_every_table_are_read(export: Path) -> None:
    found = stored_environment(export)
    assert found.variables == ("A", "EMPTY", "HF_TOKEN", "HOME", "SEED", "_X1")
    assert found.people.persons == {"casey"}
    assert found.people.hosts == {"node-3.cluster", "node-3"}


def test_parquet_folders_are_read_too(tmp_path: Path) -> None:
    values = pl.DataFrame({"id": [1, 2], "value": ["x=1", BLOCK]})
    values.write_parquet(tmp_path / "StringIds.parquet")
    (tmp_path / "META_DATA_CAPTURE.parquet").write_bytes(b"damaged")
    assert stored_environment(tmp_path).variables == ("EMPTY", "HF_TOKEN", "HOME", "_X1")


@pytest.mark.parametrize("name", ["eagle3_tp2_nodes.sqlite", "eagle3_torch.json.gz", "missing"])
def test_other_files_store_none(name: str) -> None:
    assert stored_environment(SAMPLE_TRACES / name).variables == ()


def test_a_damaged_file_stores_none_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 9)
    assert stored_environment(path).variables == ()
