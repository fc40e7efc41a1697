"""A Trace's tables, and what an analysis adds to them, as a folder of parquet or CSV files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from traceanalyzer import schema
from traceanalyzer.assembly.derived_tables import ATTRIBUTED_OPS, CYCLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars as pl

    from traceanalyzer.trace import Trace

    Form = Literal["parquet", "csv"]

_MEANINGS: Final = "tables.md"
_HEAD: Final = (
    "# The tables in this folder\n\nTimes are int64 nanoseconds on the clock of the file that each "
    "row comes from.\n"
)
_TABLES: Final = (*schema.TABLES, ATTRIBUTED_OPS, CYCLES)


def file_names(form: Form) -> frozenset[str]:
    """The files that a folder of this form consists of."""
    return frozenset({_MEANINGS, *(f"{table.name}.{form}" for table in _TABLES)})


def write_tables(
    folder: Path, trace: Trace, derived: Mapping[str, pl.DataFrame], form: Form
) -> None:
    """Write one file a table, and `tables.md` with the meaning of every column.

    Args:
        folder: An empty folder.
        trace: The tables.
        derived: What the analysis adds, by name.
        form: Parquet files can be read again as a trace. In CSV files null is empty, and an
            empty text is "".
    """
    for table in _TABLES:
        name = table.name
        frame: pl.DataFrame = derived[name] if name in derived else getattr(trace, name)
        file = folder / f"{name}.{form}"
        if form == "parquet":
            frame.write_parquet(file)
        else:
            frame.write_csv(file)
    text = "\n".join([_HEAD, *map(schema.table_markdown, _TABLES)])
    (folder / _MEANINGS).write_text(text, encoding="utf-8", newline="\n")
