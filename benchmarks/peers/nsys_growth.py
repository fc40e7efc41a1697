"""Small simulated exports of Nsight Systems, repeated in time until they hold enough kernels.

Every repetition is later, has correlation ids of its own in each process, and cycle numbers that
go on, so that sums of the whole are those of the small one times the repetitions.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nvtx_hooks.vocabulary import LAYOUTS, NO_CYCLE

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

_WORK: Final = tuple(
    f"CUPTI_ACTIVITY_KIND_{kind}"
    for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE", "RUNTIME", "SYNCHRONIZATION")
)
_RANGES: Final = "NVTX_EVENTS"
_MARK, _PUSH_POP, _START_END = 34, 59, 60
_PAUSE_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """By how much one repetition differs from the one before.

    Attributes:
        span_ns: Time.
        ids: Correlation ids.
        cycles: Cycle numbers.
    """

    span_ns: int
    ids: int
    cycles: int


def grow_sqlite(small: Path, target: Path, copies: int, cycles: int) -> None:
    """Write `target`, an SQLite export that repeats `small`, of so many cycles, `copies` times."""
    shutil.copy(small, target)
    with closing(sqlite3.connect(target)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA journal_mode = OFF")
        tables = _tables(database)
        step = _step(database, tables, cycles)
        for table in tables:
            _repeat(database, table, copies, step)
        database.commit()


def step_of(small: Path, cycles: int) -> Step:
    """The step between repetitions of an SQLite export."""
    with closing(sqlite3.connect(small)) as database:
        return _step(database, _tables(database), cycles)


def _tables(database: sqlite3.Connection) -> list[str]:
    present = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    return [table for table in (*_WORK, _RANGES) if table in present]


def _step(database: sqlite3.Connection, tables: list[str], cycles: int) -> Step:
    ends = [database.execute(f"SELECT max(end) FROM {table}").fetchone()[0] for table in tables]
    ids = [
        database.execute(f"SELECT max(correlationId) FROM {table}").fetchone()[0]
        for table in tables
        if table != _RANGES
    ]
    return Step(max(filter(None, ends)) + _PAUSE_NS, max(filter(None, ids)) + 1, cycles)


def _repeat(database: sqlite3.Connection, table: str, copies: int, step: Step) -> None:
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    changed = {"start": "+ i.n * :span", "end": "+ i.n * :span", "correlationId": "+ i.n * :ids"}
    if table == _RANGES:
        changed["int64Value"] = f"+ i.n * :cycles * {_payload_unit_sql()}"
    values = ", ".join(f't."{column}" {changed.get(column, "")}' for column in columns)
    kept = f"WHERE eventType IN ({_MARK}, {_PUSH_POP}, {_START_END})" if table == _RANGES else ""
    database.execute(
        f'INSERT INTO "{table}" WITH RECURSIVE i(n) AS '
        "(SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n + 1 < :copies) "
        f'SELECT {values} FROM i, (SELECT * FROM "{table}" {kept}) t WHERE i.n < :copies',
        {
            "span": step.span_ns,
            "ids": step.ids,
            "cycles": step.cycles,
            "copies": copies,
        },
    )


def _payload_unit_sql() -> str:
    """What one cycle more adds to a payload: ranges hold the number, marks have it in a field."""
    marks = " ".join(
        f"WHEN '{name}' THEN {unit}" for name, unit in sorted(mark_units().items()) if unit
    )
    name = "coalesce(t.text, (SELECT value FROM StringIds WHERE id = t.textId))"
    return (
        f"CASE t.eventType WHEN {_MARK} THEN CASE {name} {marks} ELSE 0 END "
        f"ELSE t.int64Value <> {NO_CYCLE} END"
    )


def mark_units() -> dict[str, int]:
    """By mark, what one cycle more adds to its payload; 0 where it holds no cycle."""
    return {
        name: 1 << fields[0].shift if fields[0].name == "cycle" else 0
        for name, fields in LAYOUTS.items()
    }


def grow_parquetdir(small: Path, target: Path, copies: int, step: Step) -> None:
    """Write `target`, a parquet export that repeats `small` `copies` times, table by table.

    Cycle numbers in payloads are left as they are.
    """
    import polars as pl

    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(small.glob("*.parquet")):
        if file.stem not in (*_WORK, _RANGES):
            shutil.copy(file, target / file.name)
            continue
        rows = pl.read_parquet(file)
        parts = [_later(rows, copy, step) for copy in range(copies)]
        pl.concat(parts).sink_parquet(target / file.name, compression="uncompressed")


def _later(rows: pl.DataFrame, copy: int, step: Step) -> pl.LazyFrame:
    import polars as pl

    shifts = {"start": step.span_ns, "end": step.span_ns, "correlationId": step.ids}
    lazy = rows.lazy()
    if copy and "eventType" in rows.columns:
        lazy = lazy.filter(pl.col("eventType").is_in([_MARK, _PUSH_POP, _START_END]))
    return lazy.with_columns(
        pl.col(column) + pl.lit(copy * by, rows.schema[column])
        for column, by in shifts.items()
        if column in rows.columns
    )
