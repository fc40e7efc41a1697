"""What of an nsys export is kept: the tables we read, and of the strings only those they use.

Exports carry environments, secrets included: the recorded process's in TARGET_INFO_SYSTEM_ENV and
META_DATA_CAPTURE, and in StringIds those of every process the recorder could see (nsys 2022.4
and 2023.4), where no other table refers to them.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

TABLES_READ: Final = (
    "ANALYSIS_DETAILS",
    "CUDA_GRAPH_EVENTS",
    "CUDA_GRAPH_NODE_EVENTS",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_OVERHEAD",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "DIAGNOSTIC_EVENT",
    "EXPORT_META_DATA",
    "META_DATA_EXPORT",
    "NVTX_EVENTS",
    "PROCESSES",
    "PROFILER_OVERHEAD",
    "StringIds",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_CUDA_GPU",
    "TARGET_INFO_GPU",
    "TARGET_INFO_SESSION_START_TIME",
    "ThreadNames",
)
"""Every table an importer may ask for, and nothing that holds an environment."""

_STRINGS = "StringIds"
STRING_KEYS = frozenset(
    {"nameId", "textId", "jsonTextId", "demangledName", "shortName", "mangledName"}
)
"""Columns that refer to StringIds."""


def table_patterns() -> str:
    """`TABLES_READ` as the value of `nsys export --tables`: POSIX basic expressions."""
    return ",".join(f"^{table}$" for table in TABLES_READ)


def copy_database(whole: Path, kept: Path) -> None:
    """Copy what is kept of an SQLite export into a new database.

    Raises:
        OSError: `whole` is damaged, or the disk is full.
    """
    try:
        _copy_database(whole, kept)
    except sqlite3.Error as error:
        raise OSError(str(error)) from None


def _copy_database(whole: Path, kept: Path) -> None:
    with closing(sqlite3.connect(kept, isolation_level=None)) as database:
        # The copy is renamed to its final name only when done, so it needs no journal.
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("ATTACH ? AS whole", (str(whole),))
        database.execute("BEGIN")
        created = dict(
            database.execute("SELECT name, sql FROM whole.sqlite_master WHERE type = 'table'")
        )
        used = ["SELECT NULL"]
        for table in sorted(created.keys() & set(TABLES_READ) - {_STRINGS}):
            database.execute(created[table])
            database.execute(f'INSERT INTO main."{table}" SELECT * FROM whole."{table}"')  # noqa: S608 - a declared name
            columns = {row[1] for row in database.execute(f'PRAGMA main.table_info("{table}")')}
            used += [f'SELECT {key} FROM main."{table}"' for key in STRING_KEYS & columns]  # noqa: S608 - as above
        database.execute(created[_STRINGS])
        database.execute(
            f"INSERT INTO main.{_STRINGS} SELECT * FROM whole.{_STRINGS} "  # noqa: S608 - as above
            f"WHERE id IN ({' UNION '.join(used)})"
        )
        database.execute("COMMIT")


def trim_folder(export: Path) -> None:
    """Remove from a parquet-folder export, in place, what is not kept.

    Raises:
        OSError: A file is damaged, or the disk is full.
    """
    from polars.exceptions import PolarsError

    try:
        _trim_folder(export)
    except PolarsError as error:
        raise OSError(str(error)) from None


def _trim_folder(export: Path) -> None:
    import polars as pl

    used = [pl.DataFrame(schema={"id": pl.Int64})]
    for file in export.iterdir():
        if file.stem not in TABLES_READ:
            file.unlink()
        elif file.stem != _STRINGS:
            rows = pl.scan_parquet(file, glob=False)
            used += [
                rows.select(id=pl.col(key).cast(pl.Int64)).unique().collect()
                for key in STRING_KEYS.intersection(rows.collect_schema())
            ]
    strings = export / f"{_STRINGS}.parquet"
    kept = pl.read_parquet(strings, glob=False).filter(
        pl.col("id").cast(pl.Int64).is_in(pl.concat(used)["id"].implode())
    )
    strings.unlink()
    kept.write_parquet(strings)
