"""A copy of an nsys SQLite export that can be passed on: no environment, person or host in it.

Only declared tables are copied, and in them only declared texts, without home folders, persons and
hosts; every number stays as it is, so that all figures do.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from traceanalyzer.errors import InputError
from traceanalyzer.importers.nsys_environment import stored_environment
from traceanalyzer.importers.nsys_sqlite import check_whole, damaged
from traceanalyzer.importers.nsys_tables import PROGRAM_FOLDERS
from traceanalyzer.importers.nsys_trimming import STRING_KEYS, TABLES_READ

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from traceanalyzer.importers.people import People

_STRINGS: Final = "StringIds"
_ALSO_KEPT: Final = frozenset(
    {
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        "TARGET_INFO_CUDA_CONTEXT_INFO",
        "TARGET_INFO_CUDA_NULL_STREAM",
        "TARGET_INFO_CUDA_STREAM",
    }
)
_ENUM_COLUMNS: Final = frozenset({"id", "name", "label"})
_TEXTS: Final = {
    _STRINGS: ("value",),
    "NVTX_EVENTS": ("text",),
    "PROCESSES": ("name",),
    "DIAGNOSTIC_EVENT": ("text",),
    "TARGET_INFO_GPU": ("name", "chipName"),
    "TARGET_INFO_CUDA_GPU": ("name",),
    "META_DATA_EXPORT": ("name", "value"),
    "EXPORT_META_DATA": ("name", "value"),
    "TARGET_INFO_SESSION_START_TIME": ("utcTime",),
}
"""Texts that are kept, by table; any other text is emptied."""

_AFFINITY: Final = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """What was done: tables copied and left out, sorted, and the names of variables left out."""

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    variables: tuple[str, ...]


def scrub_database(source: Path, target: Path) -> Scrubbed:
    """Copy an export into a new database without what tells of people and machines.

    Args:
        source: An SQLite export; opened read-only, and nothing in it but tables is looked at.
        target: The database to write; it must not exist.

    Raises:
        InputError: `source` is damaged, or no SQLite export.
        OSError: `target` cannot be written.
    """
    check_whole(source.resolve())
    stored = stored_environment(source)
    with closing(sqlite3.connect(f"file:{_quoted_path(target)}", uri=True)) as database:
        database.isolation_level = None
        copy = _Copy(database, stored.people)
        try:
            copy.attach(source)
        except sqlite3.Error as error:
            raise damaged(source, error) from None
        if _STRINGS not in copy.tables:
            raise InputError(
                "this SQLite database is no Nsight Systems export: it has no table StringIds",
                where=source,
            )
        kept = sorted(table for table in copy.tables if copy.is_kept(table))
        try:
            copy.run([table for table in kept if table != _STRINGS])
        except sqlite3.Error as error:
            if "disk" in str(error):
                raise OSError(str(error)) from None
            raise damaged(source, error) from None
    return Scrubbed(tuple(kept), tuple(sorted(copy.tables.keys() - set(kept))), stored.variables)


def _quoted_path(path: Path) -> str:
    return quote(os.fsencode(path.resolve()))


class _Copy:
    """The new database with the old one attached to it read-only."""

    def __init__(self, database: sqlite3.Connection, people: People) -> None:
        self._database = database
        self._people = people
        self.tables: dict[str, dict[str, str]] = {}

    def attach(self, source: Path) -> None:
        """Open the old database and list its tables: name -> column -> declared type."""
        database = self._database
        database.create_function("clean", 1, self._clean, deterministic=True)
        database.create_function("clean_program", 1, self._clean_program, deterministic=True)
        database.execute("PRAGMA trusted_schema = OFF")
        # The copy is renamed to its final name only when done, so it needs no journal.
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        wal = source.resolve().with_name(source.resolve().name + "-wal").exists()
        settled = "" if wal else "&immutable=1"
        database.execute("ATTACH ? AS whole", (f"file:{_quoted_path(source)}?mode=ro{settled}",))
        rows = database.execute(
            "SELECT name FROM whole.sqlite_master WHERE type = 'table' AND "
            "sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ).fetchall()
        for (table,) in rows:
            columns = database.execute(f"PRAGMA whole.table_info({_quoted(table)})").fetchall()
            self.tables[table] = {str(row[1]): str(row[2]) for row in columns}

    def is_kept(self, table: str) -> bool:
        """Whether a table is one of those declared here."""
        if table.startswith("ENUM_"):
            return self.tables[table].keys() <= _ENUM_COLUMNS
        return table in _ALSO_KEPT or table in TABLES_READ

    def run(self, tables: Iterable[str]) -> None:
        """Copy the tables, then the names that they refer to."""
        database = self._database
        database.execute("BEGIN")
        used = ["SELECT NULL"]
        for table in tables:
            self._copy(table)
            used += [
                f"SELECT {_quoted(key)} FROM main.{_quoted(table)}"  # noqa: S608 - quoted
                for key in STRING_KEYS.intersection(self.tables[table])
            ]
        self._copy(_STRINGS, f" WHERE id IN ({' UNION '.join(used)})")
        database.execute("COMMIT")

    def _copy(self, table: str, condition: str = "") -> None:
        columns = self.tables[table]
        name = _quoted(table)
        declared = ", ".join(
            f"{_quoted(column)} {_affinity(kind)}" for column, kind in columns.items()
        )
        values = ", ".join(_value(table, column) for column in columns)
        self._database.execute(f"CREATE TABLE main.{name} ({declared})")
        self._database.execute(
            f"INSERT INTO main.{name} SELECT {values} FROM whole.{name}{condition}"  # noqa: S608 - quoted
        )

    def _clean(self, value: bytes) -> bytes:
        """Text without people; bytes that are no UTF-8 stay as they are."""
        text = value.decode("utf-8", "surrogateescape")
        return self._people.left_out_of(text).encode("utf-8", "surrogateescape")

    def _clean_program(self, value: bytes) -> bytes:
        return self._clean(re.sub(PROGRAM_FOLDERS.encode(), b"", value, count=1))


def _value(table: str, column: str) -> str:
    """A column as it is copied: numbers as they are, declared texts cleaned, others emptied."""
    name = _quoted(column)
    text = "''"
    if table.startswith("ENUM_") or column in _TEXTS.get(table, ()):
        function = "clean_program" if table == "PROCESSES" else "clean"
        text = f"CAST({function}(CAST({name} AS BLOB)) AS TEXT)"
    return f"CASE typeof({name}) WHEN 'text' THEN {text} WHEN 'blob' THEN x'' ELSE {name} END"


def _affinity(kind: str) -> str:
    """A declared type's first word: whatever else stands there does nothing for a reader."""
    word = _AFFINITY.match(kind)
    return word.group() if word else ""


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
