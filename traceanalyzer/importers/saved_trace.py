"""A Trace as `traceanalyzer export --to parquet` saved it: one parquet file a table.

What an analysis added stands beside the tables and is not read: it is found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer import schema
from traceanalyzer.errors import InputError
from traceanalyzer.importers.expansion import check_rows
from traceanalyzer.trace import KEYS, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.progress import Progress

_ANEW: Final = "Export the trace again: traceanalyzer export TRACE --to parquet -o FOLDER"
_TELLING: Final = (schema.FILES, schema.NAMES, schema.OPS, schema.RANGES)


def recognises(path: Path, head: bytes) -> bool:
    """Whether the path is a folder with tables named as those of a Trace."""
    del head
    return path.is_dir() and all(_file(path, table).is_file() for table in _TELLING)


def read(path: Path, progress: Progress) -> Trace:
    """Read a saved Trace.

    Raises:
        InputError: A table is missing or damaged, or not as `schema` declares it.
    """
    tables = {}
    for done, table in enumerate(schema.TABLES):
        progress("reading tables", done / len(schema.TABLES))
        tables[table.name] = _read(_file(path, table))
    progress("reading tables", 1.0)
    trace = Trace.checked(tables)
    for table in schema.TABLES:
        wrong = _wrong_key(trace, table)
        if wrong:
            raise InputError(
                f"column {wrong} names rows that are not there",
                where=_file(path, table),
                next_step=_ANEW,
            )
    return trace


def _wrong_key(trace: Trace, table: schema.Table) -> str | None:
    """The first column that names a row of a table which has no such row."""
    frame: pl.DataFrame = getattr(trace, table.name)
    for column, target in KEYS.items():
        if column not in frame.columns or frame.schema[column] == pl.String:
            continue
        rows, size = frame[column], getattr(trace, target).height
        own = target == table.name and rows.to_list() != list(range(size))
        if own or not rows.drop_nulls().is_between(0, size - 1).all():
            return column
    if table is schema.OPS:
        place = ["process", "device_id"]
        return "device_id" if frame.join(trace.devices, on=place, how="anti").height else None
    return None


def _file(folder: Path, table: schema.Table) -> Path:
    return folder / f"{table.name}.parquet"


def _read(file: Path) -> pl.DataFrame:
    try:
        with file.open("rb") as opened:  # as a path, brackets in it would be a glob
            check_rows(file, opened)
            return pl.read_parquet(opened)
    except FileNotFoundError:
        raise InputError("the table is missing", where=file, next_step=_ANEW) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InputError(
            f"the table cannot be read: {error}", where=file, next_step=_ANEW
        ) from None
