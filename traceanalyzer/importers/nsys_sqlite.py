"""SQLite exports of Nsight Systems, from before the metadata table (2019) to schema 3.28.

The file is only ever read: opened read-only, its views and virtual tables (which have no page of
their own) are not tables, extensions stay off.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING
from urllib.parse import quote

import polars as pl

from traceanalyzer.errors import InputError
from traceanalyzer.importers.nsys_processes import ALL
from traceanalyzer.importers.nsys_tables import TEXT_COLUMNS, read_trace
from traceanalyzer.importers.nsys_trimming import TABLES_READ

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from traceanalyzer.importers.nsys_processes import Processes
    from traceanalyzer.importers.nsys_tables import Keep
    from traceanalyzer.progress import Progress
    from traceanalyzer.trace import Trace

_MAGIC = b"SQLite format 3\0"
BLOCK_ROWS = 65536


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file is an SQLite database."""
    return path.is_file() and head.startswith(_MAGIC)


def read(path: Path, progress: Progress, processes: Processes = ALL) -> Trace:
    """Read an export, or some processes of it.

    Raises:
        InputError: The database is damaged, or is not an nsys export.
    """
    try:
        check_whole(path.resolve())
        with _Database(path, processes) as source:
            if not source.columns("StringIds"):
                raise InputError(
                    "this SQLite database is no Nsight Systems export: it has no table StringIds",
                    where=path,
                    next_step="Make one with: nsys export --type sqlite -o OUT.sqlite REPORT",
                )
            return read_trace(source, progress)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise damaged(path, error) from None


def is_export(path: Path) -> bool:
    """Whether a database has the table of names that every nsys export has."""
    try:
        with closing(
            sqlite3.connect(f"file:{quote(os.fsencode(path.resolve()))}?mode=ro", uri=True)
        ) as it:
            found = it.execute("SELECT 1 FROM sqlite_master WHERE name = 'StringIds'").fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return True  # what is wrong with it is told when it is read
    return found is not None


def check_whole(path: Path) -> None:
    """Refuse a database whose end is missing, or whose last write was cut off.

    SQLite reads a cut page as zeros, and an immutable reader ignores a journal to be rolled back:
    either would change figures without a word.
    """
    with path.open("rb") as file:
        head = file.read(100)
    page_size = int.from_bytes(head[16:18], "big")
    pages = int.from_bytes(head[28:32], "big")
    stated = head[24:28] == head[92:96]  # the page count is valid (SQLite file format, 1.3.7)
    if stated and path.stat().st_size < pages * (65536 if page_size == 1 else page_size):
        raise damaged(path, ValueError("its end is missing"))
    journal = path.with_name(path.name + "-journal")
    if journal.exists() and journal.stat().st_size:
        raise damaged(path, ValueError(f"{journal.name} beside it says that writing was cut off"))


def damaged(path: Path, error: Exception) -> InputError:
    """What is said of a database that cannot be read."""
    return InputError(
        f"the database cannot be read: {error}",
        where=path,
        next_step="Export the report again with: nsys export --type sqlite --force-overwrite true",
    )


class _Database:
    """An `NsysSource` over one SQLite file, open within `with`."""

    format = "nsys-sqlite"
    lends_blocks = True

    def __init__(self, path: Path, processes: Processes = ALL) -> None:
        self.path = path
        self._processes = processes
        # A write-ahead log beside the file holds rows that an immutable reader would not see.
        real = path.resolve()
        settled = not real.with_name(real.name + "-wal").exists()
        self._uri = f"file:{quote(os.fsencode(real))}?mode=ro" + ("&immutable=1" if settled else "")
        self._opened = ExitStack()
        self._findings: Counter[str] = Counter()
        self._columns: dict[str, frozenset[str]] = {}
        with closing(sqlite3.connect(self._uri, uri=True)) as database:
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
            )
            for (table,) in tables.fetchall():
                rows = database.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
                self._columns[table] = frozenset(str(row[1]) for row in rows)
            entries = database.execute(
                "SELECT DISTINCT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
            names = {name for (name,) in entries if name in TABLES_READ} - self._columns.keys()
        if names and processes.first is None:  # told once of a file that is read in parts
            text = f"not read: views or virtual tables in place of {', '.join(sorted(names))}"
            self._findings[text] += len(names)

    def __enter__(self) -> _Database:
        import adbc_driver_manager
        import adbc_driver_sqlite

        driver = adbc_driver_sqlite._driver_path()
        try:
            database = adbc_driver_manager.AdbcDatabase(driver=driver, uri=self._uri)
            self._opened.enter_context(database)
            connection = adbc_driver_manager.AdbcConnection(database)
            self._connection = self._opened.enter_context(connection)
        except adbc_driver_manager.Error as error:
            raise damaged(self.path, error) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def columns(self, table: str) -> frozenset[str]:
        return self._columns.get(table, frozenset())

    def findings(self) -> list[tuple[str, int]]:
        return list(self._findings.items())

    def read(self, table: str, columns: Sequence[str], keep: Keep | None = None) -> pl.DataFrame:
        return self._rows(table, columns, self._conditions(table, keep))

    def blocks(
        self, table: str, columns: Sequence[str], keep: Keep | None = None
    ) -> Iterator[pl.DataFrame]:
        conditions = self._conditions(table, keep)
        for rows in self._row_ranges(table):
            yield self._rows(table, columns, [*rows, *conditions])

    def _conditions(self, table: str, keep: Keep | None) -> list[str]:
        present = self.columns(table)
        return [*_conditions(keep, present), *self._processes.conditions(present)]

    def _row_ranges(self, table: str) -> Iterator[list[str]]:
        """Conditions that part a table in its own order."""
        ids = self._row_ids(table)
        if ids is None or ids[1] - ids[0] > self.path.stat().st_size:  # far apart
            yield []
            return
        for first in range(ids[0], ids[1] + 1, BLOCK_ROWS):
            yield [f"rowid BETWEEN {first} AND {first + BLOCK_ROWS - 1}"]

    def _row_ids(self, table: str) -> tuple[int, int] | None:
        """SQLite's own first and last row number; None where the table has none to go by."""
        present = {column.lower() for column in self.columns(table)}
        if not present or "rowid" in present:
            return None
        ends = (
            f"(SELECT min(rowid) FROM {_quoted(table)}), (SELECT max(rowid) FROM {_quoted(table)})"  # noqa: S608
        )
        with closing(sqlite3.connect(self._uri, uri=True)) as database:
            try:
                first, last = database.execute(f"SELECT {ends}").fetchone()
            except sqlite3.OperationalError:  # a table may be declared without row numbers
                return None
        return None if first is None else (first, last)

    def _rows(self, table: str, columns: Sequence[str], conditions: Sequence[str]) -> pl.DataFrame:
        present = self.columns(table)
        wanted = [column for column in columns if column in present]
        if not wanted:
            return _typed(pl.DataFrame(), columns)
        condition = " WHERE " + " AND ".join(conditions) if conditions else ""
        frame = self._query(_select(table, wanted, condition, guarded=False))
        if frame is None or any(
            frame.schema[column] != (pl.Binary if column in TEXT_COLUMNS else pl.Int64)
            for column in wanted
        ):
            frame = self._query_guarded(table, wanted, condition)
        return _typed(frame, columns)

    def _query(self, sql: str) -> pl.DataFrame | None:
        """Rows by Arrow, without a Python object a value; None when a column mixes types."""
        import adbc_driver_manager

        try:
            with adbc_driver_manager.AdbcStatement(self._connection) as statement:
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BLOCK_ROWS)})
                statement.set_sql_query(sql)
                stream, _ = statement.execute_query()
                return pl.DataFrame(stream)[1:]
        except (adbc_driver_manager.Error, pl.exceptions.PolarsError) as error:
            if "Type mismatch" in str(error):
                return None
            raise damaged(self.path, error) from None

    def _query_guarded(self, table: str, wanted: Sequence[str], condition: str) -> pl.DataFrame:
        """The same rows with whatever is not an integer read as null, and counted."""
        integers = [column for column in wanted if column not in TEXT_COLUMNS]
        odd = " + ".join(
            f"(typeof({_quoted(column)}) NOT IN ('integer', 'null'))" for column in integers
        )
        with closing(sqlite3.connect(self._uri, uri=True)) as database:
            counted = database.execute(
                f"SELECT total({odd or '0'}) FROM {_quoted(table)}{condition}"  # noqa: S608
            )
            count = int(counted.fetchone()[0])
        if count:
            self._findings[f"{table}: values that are not integers read as missing"] += count
        frame = self._query(_select(table, wanted, condition, guarded=True))
        if frame is None:
            raise damaged(self.path, ValueError(f"table {table} mixes types"))
        return frame


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _conditions(keep: Keep | None, present: frozenset[str]) -> list[str]:
    if keep is None or keep[0] not in present:
        return []
    return [f"{_quoted(keep[0])} IN ({', '.join(map(str, keep[1]))})"]


def _select(table: str, columns: Sequence[str], condition: str, *, guarded: bool) -> str:
    """A query whose first row is a sentinel.

    The driver types a column from its first batch, so nulls or another type there would
    mistype it; text travels as bytes because exports hold invalid UTF-8.
    """
    sentinel = ", ".join(
        f"x'00' AS {_quoted(column)}" if column in TEXT_COLUMNS else f"0 AS {_quoted(column)}"
        for column in columns
    )
    values = ", ".join(
        f"CAST({_quoted(column)} AS BLOB)"
        if column in TEXT_COLUMNS
        else f"CASE typeof({_quoted(column)}) WHEN 'integer' THEN {_quoted(column)} END"
        if guarded
        else _quoted(column)
        for column in columns
    )
    return f"SELECT {sentinel} UNION ALL SELECT {values} FROM {_quoted(table)}{condition}"  # noqa: S608


def _typed(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Every asked-for column, text decoded; those the table lacks as nulls."""
    height = frame.height
    return pl.DataFrame(
        [
            (_decoded(frame[column]) if column in TEXT_COLUMNS else frame[column]).alias(column)
            if column in frame.columns
            else pl.repeat(
                None,
                height,
                dtype=pl.String() if column in TEXT_COLUMNS else pl.Int64(),
                eager=True,
            ).alias(column)
            for column in columns
        ]
    )


def _decoded(data: pl.Series) -> pl.Series:
    """Bytes as text; what is not UTF-8 gets U+FFFD for each bad byte."""
    try:
        return data.cast(pl.String)
    except pl.exceptions.ComputeError:
        pass
    return pl.Series(
        [None if value is None else value.decode("utf-8", "replace") for value in data.to_list()],
        dtype=pl.String,
    )
