"""What an nsys SQLite export holds, counted row by row with the standard library alone.

A row counts when its times and its ids are integers, it does not end before it starts, and its
times can be: no capture lies 146 years from its own clock's zero, and no event lasts 13 days.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

OPS: Final = {"KERNEL": "kernel", "MEMCPY": "memcpy", "MEMSET": "memset", "GRAPH_TRACE": "graph"}
_RANGES: Final = (59, 70, 60, 71)
_LATEST_NS: Final = 1 << 62
_LONGEST_NS: Final = 1 << 50


class Recount(NamedTuple):
    """Rows and ns a kind of op, of launches and of closed ranges; open ranges; names; busy time."""

    totals: dict[str, tuple[int, int]]
    open_ranges: int
    kernel_names: Counter[str]
    busy_ns: int


def recount(path: Path) -> Recount:
    """Count.

    Raises:
        sqlite3.Error: The database is damaged.
    """
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        database.text_factory = bytes
        return _Tables(database).recount()


class _Tables:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        found = database.execute(
            "SELECT CAST(name AS TEXT) FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        )
        self._columns = {}
        for (name,) in found.fetchall():
            quoted = '"' + name.decode().replace('"', '""') + '"'
            info = database.execute(f"PRAGMA table_info({quoted})").fetchall()
            self._columns[name.decode()] = {row[1].decode() for row in info}

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Rows by column; what is missing, and what is no integer, is None."""
        present = self._columns.get(table, set())
        if not present.intersection(columns):
            return
        wanted = ", ".join(f'"{name}"' if name in present else "NULL" for name in columns)
        for row in self._database.execute(f'SELECT {wanted} FROM "{table}"'):
            yield [value if isinstance(value, int) else None for value in row]

    def recount(self) -> Recount:
        ops = {
            kind: [row for row in self._ops(table) if _can_be(*row[:2]) and None not in row[2:4]]
            for table, kind in OPS.items()
        }
        launches = list(self._launches())
        ranges = [row for row in self._ranges() if row[1] is None or _can_be(*row[:2])]
        closed = [row for row in ranges if row[1] is not None]
        keys = {row[2] >> 24 for row in (*launches, *ranges)}
        keys |= {row[4] >> 24 for rows in ops.values() for row in rows if row[4] is not None}
        lone = next(iter(keys)) if len(keys) == 1 else 0
        rows = [row for rows in ops.values() for row in rows]
        names = self._strings()
        return Recount(
            {kind: _total(rows) for kind, rows in ops.items()}
            | {"launch": _total(launches), "range": _total(closed)},
            len(ranges) - len(closed),
            Counter(names.get(row[5], "[unnamed]") for row in ops["kernel"]),
            _busy((lone if row[4] is None else row[4] >> 24, row[2], *row[:2]) for row in rows),
        )

    def _ops(self, suffix: str) -> Iterator[list[Any]]:
        columns = ["start", "end", "deviceId", "streamId", "globalPid"]
        label = ["demangledName"] if suffix == "KERNEL" else []
        return self.rows(f"CUPTI_ACTIVITY_KIND_{suffix}", columns + label)

    def _launches(self) -> Iterator[list[Any]]:
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        filtered = "eventClass" in self._columns.get(table, ())
        for row in self.rows(table, ("start", "end", "globalTid", "eventClass")):
            if (not filtered or row[3] in (0, 1)) and _can_be(*row[:2]) and row[2] is not None:
                yield row

    def _ranges(self) -> Iterator[list[Any]]:
        for row in self.rows("NVTX_EVENTS", ("start", "end", "globalTid", "eventType")):
            stated = row[0] is not None and abs(row[0]) < _LATEST_NS and row[2] is not None
            if stated and row[3] in _RANGES:
                yield row

    def _strings(self) -> dict[int, str]:
        if not {"id", "value"} <= self._columns.get("StringIds", set()):
            return {row[0]: "" for row in self.rows("StringIds", ("id",)) if row[0] is not None}
        texts: dict[int, str] = {}
        for id_, value in self._database.execute("SELECT id, CAST(value AS BLOB) FROM StringIds"):
            if isinstance(id_, int):
                texts.setdefault(id_, (value or b"").decode("utf-8", "replace"))
        return texts


def _can_be(start: int | None, end: int | None) -> bool:
    if start is None or end is None or not -_LATEST_NS < start <= end < _LATEST_NS:
        return False
    return end - start <= _LONGEST_NS


def _total(rows: Sequence[Sequence[int]]) -> tuple[int, int]:
    return len(rows), sum(row[1] - row[0] for row in rows)


def _busy(ops: Iterable[tuple[int, int, int, int]]) -> int:
    """Union of the collected ops of each process and device."""
    lanes: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for process, device, start, end in ops:
        if start or end:
            lanes[process, device].append((start, end))
    busy = 0
    for lane in lanes.values():
        reached = -_LATEST_NS
        for start, end in sorted(lane):
            busy += max(0, end - max(start, reached))
            reached = max(reached, end)
    return busy
