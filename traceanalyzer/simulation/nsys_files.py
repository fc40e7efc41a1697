"""Recordings as files of Nsight Systems: the SQLite export and the parquet folder."""

from __future__ import annotations

import sqlite3
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.nsys_rows import NsysRows
from traceanalyzer.simulation.nsys_schema import NSYS_2022_4, NSYS_2025_5, Flavour

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from traceanalyzer.simulation.nsys_rows import Row
    from traceanalyzer.simulation.recording import Recording

_UNSIGNED: Final = frozenset(
    {
        "globalTid",
        "endGlobalTid",
        "globalPid",
        "globalVid",
        "correlationId",
        "nameId",
        "uint64Value",
    }
)


def write_nsys_sqlite(
    recording: Recording,
    path: str | Path,
    flavour: Flavour = NSYS_2022_4,
    *,
    page_bytes: int | None = None,
) -> None:
    """Write what `nsys export --type sqlite` writes; a file already there is replaced.

    Tables without rows are left out, as a lazy export does.

    Args:
        recording: What to write.
        path: The file.
        flavour: Whose schema.
        page_bytes: SQLite's page size, a power of two from 512; small ones make small files.

    Raises:
        InputError: The recording breaks its own rules or does not fit the flavour.
    """
    rows = NsysRows(recording, flavour)
    target = Path(path)
    target.unlink(missing_ok=True)
    connection = sqlite3.connect(target)
    if page_bytes is not None:
        connection.execute(f"PRAGMA page_size = {page_bytes:d}")
    try:
        with connection:
            for table, table_rows in rows.tables():
                _write_table(connection, flavour, table, table_rows)
    finally:
        connection.close()


def _write_table(
    connection: sqlite3.Connection, flavour: Flavour, table: str, rows: Iterable[Row]
) -> None:
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        return
    connection.execute(f"CREATE TABLE {table} ({flavour.tables[table]})")
    columns, values = ", ".join(first), ", ".join(f":{column}" for column in first)
    connection.executemany(
        f"INSERT INTO {table} ({columns}) VALUES ({values})",  # noqa: S608  names are our own
        chain((first,), iterator),
    )


def write_nsys_parquetdir(recording: Recording, folder: str | Path) -> None:
    """Write what `nsys export --type parquetdir` writes: a file a table that has rows.

    Tables are those of the 2025.5 schema. Integer widths are the ones seen in exports of 2023.4:
    unsigned ids of processes, threads and correlations, 32-bit string ids; the rest is 64 bits.

    Raises:
        InputError: The recording breaks its own rules.
    """
    import polars as pl

    tables = NsysRows(recording, NSYS_2025_5).tables()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.parquet"):
        old.unlink()
    for table, table_rows in tables:
        rows = list(table_rows)
        if rows:
            schema = _parquet_schema(table, NSYS_2025_5.tables[table])
            frame = pl.DataFrame(rows, schema=schema)
            frame.write_parquet(target / f"{table}.parquet", compression="uncompressed")


def _parquet_schema(table: str, declaration: str) -> dict[str, pl.DataType]:
    schema: dict[str, pl.DataType] = {}
    for column in declaration.split(", "):
        name, sql_type = column.split()[:2]
        schema[name] = _parquet_type(table, name, sql_type)
    return schema


def _parquet_type(table: str, column: str, sql_type: str) -> pl.DataType:
    import polars as pl

    if sql_type == "TEXT":
        return pl.String()
    if sql_type == "REAL":
        return pl.Float32() if column == "floatValue" else pl.Float64()
    if column in _UNSIGNED:
        return pl.UInt64()
    if column == "int32Value" or (table, column) == ("StringIds", "id"):
        return pl.Int32()
    return pl.Int64()
