"""What an nsys export stores of the recorded program's environment: the names of variables.

Nsight Systems keeps blocks of `NAME=value`, parted by NUL, in TARGET_INFO_SYSTEM_ENV (the row
DeviceEnvironment), in META_DATA_CAPTURE since 2023.3, and in StringIds one a process it saw, where
no other table refers to them (read in exports of 2022.4 and 2023.4). Values never leave this module
but for the names of the person and the machine.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from traceanalyzer.importers.people import People

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_ASSIGNMENT: Final = re.compile(rb"(?:\A|(?<=[\0\n]))([A-Za-z_][A-Za-z0-9_]*)=([^\0\n]*)")
_PERSON: Final = frozenset({"USER", "LOGNAME", "USERNAME", "SUDO_USER"})
_HOST: Final = frozenset({"HOSTNAME", "HOST", "COMPUTERNAME", "SLURMD_NODENAME", "CONTAINER_NAME"})
_HOSTNAME_ROW: Final = "Hostname"
_SQLITE: Final = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class StoredEnvironment:
    """What is stored: names of variables, sorted, and who and where that tells."""

    variables: tuple[str, ...]
    people: People


def stored_environment(path: Path) -> StoredEnvironment:
    """Look into one file.

    Args:
        path: A trace of any format; only SQLite exports and parquet folders store what can be
            read here.
    """
    blocks = [block for block in _texts(path) if b"=" in block or b"\0" in block]
    pairs = [pair for block in blocks for pair in _ASSIGNMENT.findall(block)]
    texts = [(name.decode(), value.decode("utf-8", "replace")) for name, value in pairs]
    persons = [value for name, value in texts if name in _PERSON]
    persons += [value.rstrip("/").rsplit("/", 1)[-1] for name, value in texts if name == "HOME"]
    hosts = [value for name, value in texts if name in _HOST]
    hosts += [name.decode("utf-8", "replace") for name in _host_rows(path)]
    hosts += [host.partition(".")[0] for host in hosts]
    return StoredEnvironment(
        tuple(sorted({name for name, _ in texts})), People.named(persons, hosts)
    )


_QUERIES: Final = {
    "TARGET_INFO_SYSTEM_ENV": "SELECT value FROM TARGET_INFO_SYSTEM_ENV",
    "META_DATA_CAPTURE": "SELECT value FROM META_DATA_CAPTURE",
    "StringIds": "SELECT value FROM StringIds WHERE instr(CAST(value AS BLOB), x'00')",
}
_HOST_QUERY: Final = "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = ?"


def _texts(path: Path) -> Iterator[bytes]:
    if path.is_dir():
        yield from _parquet_texts(path)
        return
    for table, query in _QUERIES.items():
        yield from _rows(path, table, query)


def _host_rows(path: Path) -> Iterable[bytes]:
    if path.is_dir():
        return ()
    return _rows(path, "TARGET_INFO_SYSTEM_ENV", _HOST_QUERY, _HOSTNAME_ROW)


def _rows(path: Path, table: str, query: str, *values: str) -> list[bytes]:
    """Texts of one query; none where the file is no SQLite database or lacks the table."""
    try:
        with path.open("rb") as file:
            if file.read(len(_SQLITE)) != _SQLITE:
                return []
        uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.text_factory = bytes
            if not database.execute(
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
            ).fetchone():
                return []
            rows = database.execute(query, values).fetchall()
    except (sqlite3.Error, OSError):
        return []
    return [value for (value,) in rows if isinstance(value, bytes)]


def _parquet_texts(folder: Path) -> Iterator[bytes]:
    import polars as pl

    for table in _QUERIES:
        file = folder / f"{table}.parquet"
        if not file.is_file():
            continue
        try:
            with file.open("rb") as opened:
                values = pl.read_parquet(opened, columns=["value"])["value"].drop_nulls()
        except (pl.exceptions.PolarsError, OSError):
            continue
        for value in values.cast(pl.String, strict=False).drop_nulls().to_list():
            if table != "StringIds" or "\0" in value:
                yield value.encode(errors="replace")
