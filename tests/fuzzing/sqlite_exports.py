"""SQLite exports whose rows, columns, tables and bytes were meddled with."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tests.fuzzing.hostile import INTEGERS, TEXTS, chosen, damaged
from tests.fuzzing.running import LieError
from tests.fuzzing.sqlite_recount import OPS, recount
from traceanalyzer import analyze, load
from traceanalyzer.importers.nsys_tables import TEXT_COLUMNS
from traceanalyzer.report import Report
from traceanalyzer.simulation import FLAVOURS, Eagle3Settings, eagle3_server, write_nsys_sqlite

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.fuzzing.sqlite_recount import Recount
    from traceanalyzer.trace import Trace

_ANALYSED_SHARE: Final = 0.25
_SETTINGS: Final = replace(Eagle3Settings.small(), cycles=3, warm_up_cycles=1, prefill_every=0)
_TEMPLATES: Final = (
    ("2022.4", replace(_SETTINGS, ranks=1)),
    ("2022.4", replace(_SETTINGS, ranks=2, graph_mode="eager", layers=1)),
    ("2025.5", replace(_SETTINGS, ranks=1, graph_mode="graph", decode_every=4)),
)
_BUSY_TABLES: Final = (
    "NVTX_EVENTS",
    "StringIds",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
)


class SqliteExports:
    """Draws exports from a few templates, and holds what is read against a plain recount."""

    def __init__(self, folder: Path) -> None:
        self.label = ""
        self._path = folder / "drawn.sqlite"
        self._templates = []
        for number, (flavour, settings) in enumerate(_TEMPLATES):
            path = folder / f"template{number}.sqlite"
            write_nsys_sqlite(eagle3_server(settings), path, FLAVOURS[flavour], page_bytes=512)
            self._templates.append(path.read_bytes())

    def try_one(self, dice: random.Random) -> None:
        """Draw an export, read it, sometimes analyse it, and compare."""
        data = self._drawn(dice)
        self._path.write_bytes(data)
        analysed = dice.random() < _ANALYSED_SHARE
        trace = load(self._path)
        try:
            expected = recount(self._path)
        except (sqlite3.Error, UnicodeDecodeError):
            return  # a damaged page that only one of two readers meets
        compare_rows(trace, expected)
        if analysed:
            compare_report(analyze(trace), expected)

    def _drawn(self, dice: random.Random) -> bytes:
        data = chosen(dice, tuple(self._templates))
        if dice.random() < 0.08:
            self.label = "bytes"
            return damaged_pages(dice, data)
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(data)
            labels = []
            for _ in range(dice.choice((1, 1, 2, 3, 6))):
                change = chosen(dice, _CHANGES)
                labels.append(change.__name__.strip("_"))
                with suppress(sqlite3.Error):  # an earlier change took the table
                    change(dice, database)
            self.label = ", ".join(labels)
            with suppress(sqlite3.Error):
                database.commit()
            return database.serialize()


def compare_rows(trace: Trace, expected: Recount) -> None:
    """Hold the tables of a trace against a recount.

    Raises:
        LieError: They differ.
    """
    closed = trace.ranges.filter("closed")
    frames = {kind: trace.ops.filter(pl.col("kind") == kind) for kind in OPS.values()}
    frames |= {"launch": trace.launches, "range": closed}
    for kind, frame in frames.items():
        found = frame.height, sum((frame["end_ns"] - frame["start_ns"]).to_list())
        _same(kind, found, expected.totals[kind])
    _same("open ranges", trace.ranges.height - closed.height, expected.open_ranges)
    names = Counter(frames["kernel"].select(text=trace.text("name"))["text"].to_list())
    _same("kernel names", names, expected.kernel_names)


def compare_report(report: Report, expected: Recount) -> None:
    """Hold a report against a recount, and against itself.

    Raises:
        LieError: They differ, or the report does not survive JSON.
    """
    ops = sum(expected.totals[kind][0] for kind in OPS.values())
    _same("ops", report.capture.ops, ops)
    _same("launches", report.capture.launches, expected.totals["launch"][0])
    if report.coverage is not None:
        _same("busy time", report.coverage.busy_ns, expected.busy_ns)
        by_method = sum(method.busy_ns for method in report.coverage.by_method)
        _same("busy time by method", by_method, expected.busy_ns)
        listed = sum(phase.ops for rank in report.ranks for phase in rank.phases)
        _same("ops of phases", listed + report.coverage.not_collected, ops)
        summed = sum(phase.summed_ns for rank in report.ranks for phase in rank.phases)
        _same("summed time", summed, sum(expected.totals[kind][1] for kind in OPS.values()))
    written = report.to_json()
    again = json.loads(Report.from_json(written).to_json())
    _same("report after JSON", again, json.loads(written))


def _same(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise LieError(f"{what}: read {str(found)[:300]}, recounted {str(expected)[:300]}")


def damaged_pages(dice: random.Random, data: bytes) -> bytes:
    """A file cut short, or with other bytes in some places."""
    if dice.random() < 0.3:
        return data[: dice.randrange(len(data))]
    if dice.random() < 0.3:
        return damaged(dice, data)
    changed = bytearray(data)
    for _ in range(dice.choice((1, 3, 20))):
        place, length = dice.randrange(len(data)), dice.choice((1, 1, 4, 64))
        changed[place : place + length] = dice.randbytes(length)
    return bytes(changed[: len(data)])


# Changes to an open database.


def _tables(database: sqlite3.Connection) -> list[str]:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
    return [name for (name,) in found]


def _table(dice: random.Random, database: sqlite3.Connection) -> str:
    present = _tables(database)  # a view by the name of a table may have no end
    busy = [table for table in _BUSY_TABLES if table in present]
    return dice.choice(busy if busy and dice.random() < 0.6 else present)


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]


def _some_rows(dice: random.Random, database: sqlite3.Connection, table: str) -> str:
    """A condition that takes one row, several, or all."""
    (rows,) = database.execute(f'SELECT count(*) FROM "{table}"').fetchone()
    form = dice.choice(("= {}", "= {}", "< {}", "% 7 = {} % 7", "IS NOT {}"))
    return "rowid " + form.format(dice.randint(0, max(rows, 1)))


def values(dice: random.Random, database: sqlite3.Connection) -> None:
    """Other values in a column, texts stored as texts although they are none."""
    table = _table(dice, database)
    column = dice.choice(_columns(database, table) or ["none"])
    rows = _some_rows(dice, database, table)
    value, form = chosen(dice, INTEGERS), "?"
    if column in TEXT_COLUMNS or dice.random() < 0.05:
        value, form = chosen(dice, TEXTS), dice.choice(("CAST(? AS TEXT)", "?"))
    database.execute(f'UPDATE "{table}" SET "{column}" = {form} WHERE {rows}', (value,))


def moved_times(dice: random.Random, database: sqlite3.Connection) -> None:
    """Rows at another time, or longer."""
    table = _table(dice, database)
    by = chosen(dice, (-(10**9), 10**15, 1 << 49, 1 << 50, 1 << 59, -(1 << 61), 1 << 61))
    ends = ', "end" = "end" + ?1' if dice.random() < 0.7 else ""
    rows = _some_rows(dice, database, table)
    database.execute(f'UPDATE "{table}" SET "start" = "start" + ?1{ends} WHERE {rows}', (by,))


def ends_before_starts(dice: random.Random, database: sqlite3.Connection) -> None:
    """Start and end swapped."""
    table = _table(dice, database)
    rows = _some_rows(dice, database, table)
    database.execute(f'UPDATE "{table}" SET "start" = "end", "end" = "start" WHERE {rows}')


def duplicated_rows(dice: random.Random, database: sqlite3.Connection) -> None:
    """Rows that come twice."""
    table = _table(dice, database)
    rows = _some_rows(dice, database, table)
    database.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE {rows}')


def missing_rows(dice: random.Random, database: sqlite3.Connection) -> None:
    """Rows that are gone."""
    table = _table(dice, database)
    database.execute(f'DELETE FROM "{table}" WHERE {_some_rows(dice, database, table)}')


def missing_columns(dice: random.Random, database: sqlite3.Connection) -> None:
    """Columns that are gone."""
    table = _table(dice, database)
    database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{_some_column(dice, database, table)}"')


def renamed_columns(dice: random.Random, database: sqlite3.Connection) -> None:
    """Columns by the name of another, or by one that SQL means something by."""
    table = _table(dice, database)
    old = _some_column(dice, database, table)
    new = dice.choice(("END", "START", "rowid", "select", 'a""b', "x" * 10_000, "", "\u00e9"))
    database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{old}" TO "{new}"')


def _some_column(dice: random.Random, database: sqlite3.Connection, table: str) -> str:
    return str(dice.choice(_columns(database, table) or ["none"]))


def missing_tables(dice: random.Random, database: sqlite3.Connection) -> None:
    """Tables that are gone."""
    database.execute(f'DROP TABLE "{_table(dice, database)}"')


def views_for_tables(dice: random.Random, database: sqlite3.Connection) -> None:
    """A view by a table's name."""
    table = _table(dice, database)
    database.execute(f'ALTER TABLE "{table}" RENAME TO hidden')
    view = dice.choice(
        (
            "SELECT * FROM hidden",
            "SELECT * FROM hidden AS a, hidden AS b, hidden AS c, hidden AS d",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n",
            "SELECT load_extension('/nowhere') AS id, readfile('/etc/passwd') AS value",
        )
    )
    database.execute(f'CREATE VIEW "{table}" AS {view}')


def virtual_tables(dice: random.Random, database: sqlite3.Connection) -> None:
    """A table whose rows a module makes up."""
    table = _table(dice, database)
    columns = ", ".join(f'"{name}"' for name in _columns(database, table))
    database.execute(f'ALTER TABLE "{table}" RENAME TO hidden')
    database.execute(f'CREATE VIRTUAL TABLE "{table}" USING fts5({columns})')
    database.execute(f'INSERT INTO "{table}" SELECT * FROM hidden')


def triggers(dice: random.Random, database: sqlite3.Connection) -> None:
    """A trigger that would destroy the table."""
    table = _table(dice, database)
    act = f'DELETE FROM "{table}"'
    database.execute(f'CREATE TRIGGER "on {table}" AFTER INSERT ON "{table}" BEGIN {act}; END')


def odd_schema(dice: random.Random, database: sqlite3.Connection) -> None:
    """A catalogue that says what cannot be."""
    column = dice.choice(("name", "tbl_name", "sql", "type", "rootpage"))
    value = chosen(dice, (*INTEGERS, *TEXTS, 2, 3, 10_000))
    database.execute("PRAGMA writable_schema = ON")
    table = _table(dice, database)
    database.execute(f"UPDATE sqlite_master SET {column} = ? WHERE name = ?", (value, table))


def other_tables(dice: random.Random, database: sqlite3.Connection) -> None:
    """Tables and columns by odd names, indexes on expressions, rows without a rowid."""
    statement = dice.choice(
        (
            'CREATE TABLE "; DROP TABLE StringIds; --" (a INTEGER)',
            "CREATE TABLE plain (a INTEGER PRIMARY KEY) WITHOUT ROWID",
            "CREATE INDEX odd ON NVTX_EVENTS (abs(start))",
            'CREATE TABLE nvtx_events_2 ("start" TEXT, "end" BLOB)',
            'ALTER TABLE NVTX_EVENTS ADD COLUMN "made" AS (start / 0)',
            'ALTER TABLE StringIds ADD COLUMN "id2" INTEGER DEFAULT 5',
        )
    )
    database.execute(statement)


_CHANGES: Final[tuple[Callable[[random.Random, sqlite3.Connection], None], ...]] = (
    *(values,) * 10,
    *(moved_times,) * 3,
    *(ends_before_starts, duplicated_rows, missing_rows) * 2,
    missing_columns,
    renamed_columns,
    missing_tables,
    views_for_tables,
    virtual_tables,
    triggers,
    odd_schema,
    other_tables,
)
