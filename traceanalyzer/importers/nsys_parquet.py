"""Parquet-folder exports of Nsight Systems (`nsys export --type parquetdir`).

One file a table, named as in SQLite; ids are unsigned there and wrap into Int64 here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceanalyzer.errors import InputError
from traceanalyzer.importers.expansion import check_rows
from traceanalyzer.importers.nsys_tables import TEXT_COLUMNS, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from traceanalyzer.importers.nsys_tables import Keep
    from traceanalyzer.progress import Progress
    from traceanalyzer.trace import Trace

_NAMES_FILE = "StringIds.parquet"


def recognises(path: Path, head: bytes) -> bool:
    """Whether the path is a folder with a table of names in it."""
    del head
    return path.is_dir() and (path / _NAMES_FILE).is_file()


def read(path: Path, progress: Progress) -> Trace:
    """Read an export.

    Raises:
        InputError: A table's file is damaged.
    """
    return read_trace(_Folder(path), progress)


class _Folder:
    """An `NsysSource` over a folder of parquet files."""

    format = "nsys-parquet"
    lends_blocks = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._schemas: dict[str, pl.Schema] = {}

    def columns(self, table: str) -> frozenset[str]:
        return frozenset(self._schema(table))

    def _schema(self, table: str) -> pl.Schema:
        """Columns of a table; none when its file is missing."""
        if table not in self._schemas:
            self._schemas[table] = self._read_schema(self.path / f"{table}.parquet")
        return self._schemas[table]

    def _read_schema(self, file: Path) -> pl.Schema:
        if not file.is_file():
            return pl.Schema()
        try:
            with file.open("rb") as opened:  # as a path, brackets in it would be a glob
                check_rows(file, opened)
                return pl.Schema(pl.read_parquet_schema(opened))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise _damaged(file, error) from None

    def findings(self) -> list[tuple[str, int]]:
        return []

    def blocks(
        self, table: str, columns: Sequence[str], keep: Keep | None = None
    ) -> Iterator[pl.DataFrame]:
        yield self.read(table, columns, keep)

    def read(self, table: str, columns: Sequence[str], keep: Keep | None = None) -> pl.DataFrame:
        file = self.path / f"{table}.parquet"
        present = self._schema(table)
        if present.keys().isdisjoint(columns):
            return pl.DataFrame(schema={column: _dtype(column) for column in columns})
        frame = pl.scan_parquet(file, glob=False)
        if keep is not None and keep[0] in present:
            frame = frame.filter(pl.col(keep[0]).is_in(keep[1]))
        try:
            return frame.select(
                _as_declared(column, present[column])
                if column in present
                else pl.lit(None, _dtype(column)).alias(column)
                for column in columns
            ).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise _damaged(file, error) from None


def _dtype(column: str) -> pl.DataType:
    return pl.String() if column in TEXT_COLUMNS else pl.Int64()


def _as_declared(column: str, written: pl.DataType) -> pl.Expr:
    if column in TEXT_COLUMNS:
        return pl.col(column).cast(pl.String, strict=False)
    if written == pl.UInt64:  # the same bits, without a copy
        return pl.col(column).reinterpret(signed=True)
    return pl.col(column).cast(pl.Int64, strict=False, wrap_numerical=True)


def _damaged(file: Path, error: BaseException) -> InputError:
    return InputError(
        f"the table cannot be read: {error}",
        where=file,
        next_step="Export the report again, as SQLite if it holds names that are no UTF-8 "
        "(parquet cannot): nsys export --type sqlite",
    )
