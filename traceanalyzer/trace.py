"""A Trace: what one capture recorded, as the declared tables of `schema`.

An importer builds one Trace a file with `Trace.checked`; `concatenate` joins the files of a run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceanalyzer import schema
from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Trace:
    """The tables of one capture; `schema` declares their columns.

    Row numbers in `files`, `processes`, `threads` and `names` are the keys that other tables use.
    Rows of `ops`, `launches` and `ranges` keep the order of the file.
    """

    files: pl.DataFrame
    processes: pl.DataFrame
    threads: pl.DataFrame
    devices: pl.DataFrame
    names: pl.DataFrame
    ops: pl.DataFrame
    launches: pl.DataFrame
    ranges: pl.DataFrame
    marks: pl.DataFrame
    syncs: pl.DataFrame
    overheads: pl.DataFrame
    graph_nodes: pl.DataFrame
    diagnostics: pl.DataFrame

    @classmethod
    def checked(cls, tables: Mapping[str, pl.DataFrame]) -> Trace:
        """Build a Trace; a table left out is empty.

        Args:
            tables: Frames by table name. Columns may come in any order and in any integer width.

        Raises:
            InputError: A table is unknown, lacks a column, has one of another type, or holds a
                null where `schema` allows none.
        """
        unknown = set(tables) - {table.name for table in schema.TABLES}
        if unknown:
            raise InputError(f"unknown tables: {', '.join(sorted(unknown))}")
        return cls(
            **{
                table.name: _checked(table, tables[table.name])
                if table.name in tables
                else table.empty()
                for table in schema.TABLES
            }
        )

    def text(self, name: str) -> pl.Expr:
        """The text behind a column of name ids, for use in a `select` on any table."""
        return pl.col(name).replace_strict(
            self.names["name"], self.names["text"], default=None, return_dtype=pl.String
        )

    def timeline_figure(
        self, window_ns: tuple[int, int], *, infer: bool = True, dark: bool = False
    ) -> Any:
        """A window for a notebook: `traceanalyzer.timeline_figure` of this trace."""
        from traceanalyzer.renderers.timeline_figure import timeline_figure

        return timeline_figure(self, window_ns, infer=infer, dark=dark)


def _checked(table: schema.Table, frame: pl.DataFrame) -> pl.DataFrame:
    missing = [column.name for column in table.columns if column.name not in frame.columns]
    if missing:
        raise InputError(f"column {missing[0]} is missing", where=f"table {table.name}")
    try:
        frame = frame.select(pl.col(column.name).cast(column.dtype) for column in table.columns)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"a column has the wrong type: {error}", where=f"table {table.name}"
        ) from None
    for column in table.columns:
        if not column.nullable and frame[column.name].null_count():
            raise InputError(f"column {column.name} holds nulls", where=f"table {table.name}")
    return frame.rechunk()  # one piece a column, which numpy then reads without a copy


KEYS: Final = {
    "file": "files",
    "process": "processes",
    "thread": "threads",
    "end_thread": "threads",
    "name": "names",
    "domain": "names",
}
"""The table whose row number each column holds; names that are texts are no keys."""
_TEXT_NAME_TABLES = ("processes", "threads", "devices")


def concatenate(traces: Sequence[Trace]) -> Trace:
    """Join the traces of several files into one, renumbering their keys.

    Args:
        traces: At least one trace.

    Returns:
        One Trace with the rows of all, in order; texts that several files share appear once.
    """
    if len(traces) == 1:
        return traces[0]
    parts: dict[str, list[pl.DataFrame]] = {field.name: [] for field in fields(Trace)}
    texts = pl.concat([trace.names["text"] for trace in traces]).unique(maintain_order=True)
    names = pl.DataFrame({"text": texts}).with_row_index("name").cast(schema.NAMES.polars_schema)
    offsets = {"files": 0, "processes": 0, "threads": 0}
    for trace in traces:
        new_ids = trace.names.select("text").join(names, on="text", maintain_order="left")["name"]
        for table_name, frames in parts.items():
            frame: pl.DataFrame = getattr(trace, table_name)
            frames.append(frame.with_columns(_renumbered(table_name, frame, offsets, new_ids)))
        for table_name in offsets:
            offsets[table_name] += getattr(trace, table_name).height
    parts["names"] = [names.select("name", "text")]
    return Trace(**{table_name: pl.concat(frames) for table_name, frames in parts.items()})


def _renumbered(
    table_name: str, frame: pl.DataFrame, offsets: Mapping[str, int], new_ids: pl.Series
) -> list[pl.Series]:
    """The key columns of one file's table, as they read in the joined one."""
    renumbered = []
    for column, target in KEYS.items():
        if column not in frame.columns or (column == "name" and table_name in _TEXT_NAME_TABLES):
            continue
        old = frame[column]
        new = new_ids.gather(old) if target == "names" else old + offsets[target]
        renumbered.append(new.cast(pl.Int32).alias(column))
    return renumbered
