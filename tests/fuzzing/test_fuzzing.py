"""A slice of every fuzzer, the same cases each time, and small inputs that once went wrong."""

from __future__ import annotations

import gzip
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.exports import KERNEL, Export, served
from tests.fuzzing.kinds import KINDS
from tests.fuzzing.running import LieError, run_case
from tests.fuzzing.sqlite_exports import compare_report, compare_rows
from tests.fuzzing.sqlite_recount import recount
from tests.importers.test_torch_profiler import LAYOUTS, kernel
from traceanalyzer import analyze, load
from traceanalyzer.errors import InputError
from traceanalyzer.importers import expansion, kineto_json
from traceanalyzer.phases.rules import Rules

if TYPE_CHECKING:
    import random
    from pathlib import Path

SECONDS = {"sqlite": 4.0, "kineto": 4.0, "rules": 3.5, "acceptance": 3.5}
"""Processor time of a slice: 60 s for the four of each kind, in pieces that workers share out."""

SEEDS = (8, 9, 10, 11)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", KINDS)
def test_a_slice_of_the_cases(name: str, seed: int, tmp_path: Path) -> None:
    kind = KINDS[name](tmp_path)
    results: set[str] = set()
    deadline, number = time.process_time() + SECONDS[name], 0
    while time.process_time() < deadline or results != {"ok", "refused"}:
        result, defect = run_case(kind, name, seed, number)
        assert defect is None, str(defect)
        assert number < 100_000
        results.add(result)
        number += 1


def test_defects_are_told_apart(tmp_path: Path) -> None:
    class Wrong:
        label = ""

        def __init__(self, error: BaseException) -> None:
            self.error = error

        def try_one(self, dice: random.Random) -> None:
            raise self.error

    found = [
        run_case(Wrong(it), "wrong", 1, 2)[0] for it in (LieError(), KeyError(), BaseException())
    ]
    assert found == ["lie", "crash", "crash"]
    assert run_case(Wrong(InputError("no")), "wrong", 1, 2) == ("refused", None)


def _served(folder: Path, change: str) -> Path:
    export = Export()
    served(export)
    path = export.write_sqlite(folder / "trace.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(change)
    return path


@pytest.mark.parametrize(
    "change",
    [
        f'UPDATE {KERNEL} SET start = -9223372036854775808, "end" = 9223372036854775807 '
        "WHERE rowid < 4",
        f'UPDATE {KERNEL} SET "end" = start + 2305843009213693951 WHERE rowid < 9',
        f"UPDATE {KERNEL} SET start = start - 4611686018427387904 WHERE rowid = 1",
        f"ALTER TABLE {KERNEL} RENAME TO hidden; "
        f"CREATE VIRTUAL TABLE {KERNEL} USING fts5(start, end, deviceId, streamId); "
        f"INSERT INTO {KERNEL} VALUES (1, 2, 0, 7);",
    ],
    ids=["all of int64", "sums overflow", "far below zero", "virtual table"],
)
def test_totals_are_those_of_a_recount(change: str, tmp_path: Path) -> None:
    path = _served(tmp_path, change)
    expected = recount(path)
    trace = load(path)
    compare_rows(trace, expected)
    compare_report(analyze(trace), expected)


def test_the_recount_would_notice_a_row(tmp_path: Path) -> None:
    path = _served(tmp_path, "")
    trace = load(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"DELETE FROM {KERNEL} WHERE rowid = 3")
    with pytest.raises(LieError, match="kernel"):
        compare_rows(trace, recount(path))


@pytest.mark.parametrize(
    "text", ["rule = " + "[" * 5000, "rule = " + "9" * 5000, ".".join("a" * 20_000) + " = 1"]
)
def test_rules_nested_deep_or_with_endless_numbers_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(InputError):
        Rules.from_file(path)


def test_a_bomb_is_read_as_far_as_a_trace_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion.is_too_much, "__defaults__", (1 << 16,))
    path = tmp_path / "bomb.json.gz"
    text = LAYOUTS["minified"]({}, [kernel(5), kernel(9)])[:-2]
    path.write_bytes(gzip.compress(f"{text},{' ' * 40_000_000}{{}}]}}".encode()))
    trace = load(path)
    assert trace.ops.height == 2
    assert any("unpacks to over" in told for told in trace.diagnostics["text"])


def test_a_parquet_table_of_more_rows_than_bytes_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"id": [1], "value": ["a"]}).write_parquet(tmp_path / "StringIds.parquet")
    rows = pl.select(start=pl.repeat(1, 3_000_000))
    rows.write_parquet(tmp_path / f"{KERNEL}.parquet")
    with pytest.raises(InputError, match="3,000,000 rows"):
        load(tmp_path)


def test_long_metadata_behind_the_events_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_json, "_LARGEST_METADATA", 1000)
    path = tmp_path / "trace.json"
    path.write_text(LAYOUTS["events first"]({"more": "x" * 400_000}, [kernel(5)]))
    trace = load(path)
    assert trace.ops.height == 1
    assert any("too long" in told for told in trace.diagnostics["text"])


def test_what_unpacks_to_too_much() -> None:
    assert not expansion.is_too_much(1, 1 << 20)
    assert not expansion.is_too_much(1 << 30, 50 << 30)
    assert expansion.is_too_much(10 << 20, 10 << 30)
