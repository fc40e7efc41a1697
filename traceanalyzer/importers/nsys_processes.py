"""Processes of an SQLite export of Nsight Systems: which there are, how large, and some of them.

The tables are not indexed by process, but ids are ordered by it, so a range of ids is a range of
processes, and reading one costs a scan.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_THREAD_BITS: Final = 24  # globalTid = hardware 8 bits, VM 8, process 24, thread 24
_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_NVTX: Final = "NVTX_EVENTS"
_RANGES: Final = "(59, 60, 70, 71)"
_TIMED: Final = (
    *(f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")),
    *("CUPTI_ACTIVITY_KIND_RUNTIME", _NVTX),
)
_LATEST_NS: Final = 1 << 62
_LONGEST_NS: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class Processes:
    """Those whose nsys ids are at least `first` and below `end`; None sets no bound.

    What has no process goes with the first ones.
    """

    first: int | None = None
    end: int | None = None

    def conditions(self, columns: Collection[str]) -> list[str]:
        """What SQL has to ask of a table with these columns."""
        column = next((name for name in ("globalTid", "globalPid") if name in columns), None)
        if column is None:
            return []
        found = []
        if self.first is not None:
            found.append(f'"{column}" >= {self.first}')
        if self.end is not None:
            below = f'"{column}" < {self.end}'
            found.append(below if self.first is not None else f'({below} OR "{column}" IS NULL)')
        return found


ALL: Final = Processes()


@dataclass(frozen=True, slots=True)
class Census:
    """What is needed to read an export by its processes.

    Attributes:
        kernels: How many each process has that has any, by its nsys id, ascending.
        last_ns: End of the recording, which ranges that were never closed last to; None where
            there are none.
    """

    kernels: dict[int, int]
    last_ns: int | None


def census(path: Path) -> Census | None:
    """Count the kernels of each process; None for an export that cannot be read in parts.

    That is one of one process, one that does not tell the process of each row, and one with ranges
    that a thread of another process closed.
    """
    uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            return _census(database)
    except (sqlite3.Error, UnicodeDecodeError):
        return None  # what is wrong with it is told when it is read


def _census(database: sqlite3.Connection) -> Census | None:
    if not _tells_processes(database):
        return None
    rows = database.execute(
        f'SELECT "globalPid", count(*) FROM {_KERNELS} GROUP BY "globalPid" ORDER BY "globalPid"'  # noqa: S608
    )
    kernels = {id_ >> _THREAD_BITS << _THREAD_BITS: count for id_, count in rows}
    if len(kernels) < 2:
        return None
    return Census(kernels, _last_ns(database) if _has_open_ranges(database) else None)


def _tells_processes(database: sqlite3.Connection) -> bool:
    for table in _TIMED[:4]:
        columns = _columns(database, table)
        if columns and ("globalPid" not in columns or _any(database, table, "globalPid IS NULL")):
            return False
    waits = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    if _columns(database, waits) and _any(database, waits, "globalPid IS NULL"):
        return False
    crosses = f"endGlobalTid >> {_THREAD_BITS} <> globalTid >> {_THREAD_BITS}"
    nvtx = _columns(database, _NVTX)
    return bool(_columns(database, _KERNELS)) and not (
        "endGlobalTid" in nvtx and _any(database, _NVTX, crosses)
    )


def _has_open_ranges(database: sqlite3.Connection) -> bool:
    open_ended = f"eventType IN {_RANGES} AND end IS NULL"
    return bool(_columns(database, _NVTX)) and _any(database, _NVTX, open_ended)


def _last_ns(database: sqlite3.Connection) -> int:
    """The last instant of all rows of possible times."""
    possible = (
        f"start BETWEEN {1 - _LATEST_NS} AND {_LATEST_NS - 1} AND "
        f"(end IS NULL OR end - start BETWEEN 0 AND {_LONGEST_NS})"
    )
    kinds = {"CUPTI_ACTIVITY_KIND_RUNTIME": ("eventClass", "(0, 1)"), _NVTX: ("eventType", _RANGES)}
    last = 0
    for table in _TIMED:
        columns = _columns(database, table)
        kind, values = kinds.get(table, ("", ""))
        chosen = f" AND {kind} IN {values}" if kind in columns else ""
        if columns:
            (found,) = database.execute(
                f"SELECT max(max(start, coalesce(end, start))) FROM {table} "  # noqa: S608
                f"WHERE {possible}{chosen}"
            ).fetchone()
            last = max(last, found or 0)
    return last


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in database.execute(f'PRAGMA table_info("{table}")')}


def _any(database: sqlite3.Connection, table: str, condition: str) -> bool:
    found = database.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1")  # noqa: S608
    return found.fetchone() is not None
