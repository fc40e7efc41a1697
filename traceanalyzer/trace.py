"""A Trace: what one capture recorded, as the declared tables of `schema`.

An importer builds one Trace a file with `Trace.checked`; `concatenate` joins the files of a run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceanalyzer import schema
from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


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
        """The text behind a column of name ids, for use in a `select` on any table.

        Null where the id is null, or no row of `names`.
        """
        row = pl.when(pl.col(name) >= 0).then(name)  # a negative one would count from the end
        return pl.lit(self.names["text"]).gather(row, null_on_oob=True).alias(name)

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
        if frame.schema != table.polars_schema:
            columns = (pl.col(column.name).cast(column.dtype) for column in table.columns)
            frame = frame.select(columns)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"a column has the wrong type: {error}", where=f"table {table.name}"
        ) from None
    # A column of one value in all rows stays that value, as looking at it by itself would not do.
    nulls = frame.null_count()
    for column in table.columns:
        if not column.nullable and nulls[column.name].item():
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


def of_kinds(ops: pl.DataFrame, *kinds: str) -> NDArray[np.bool_]:
    """Which ops are of one of some kinds, names in `schema.OP_KINDS`."""
    numbers = ops["kind"].to_physical().to_numpy()
    wanted = np.zeros(len(schema.OP_KINDS), bool)
    wanted[[schema.OP_KINDS.index(kind) for kind in kinds]] = True
    return wanted[numbers]


def concatenate(traces: Sequence[Trace], files: Sequence[int] | None = None) -> Trace:
    """Join traces into one, renumbering their keys.

    Args:
        traces: At least one trace.
        files: A number for each; those of equal ones are processes of one file and follow one
            another. None where each has its own files.

    Returns:
        One Trace with the rows of all, in order; texts that several files share appear once.
    """
    if len(traces) == 1:
        return traces[0]
    parts: dict[str, list[pl.DataFrame]] = {field.name: [] for field in fields(Trace)}
    texts = pl.concat([trace.names["text"] for trace in traces]).unique(maintain_order=True)
    names = pl.DataFrame({"text": texts}).with_row_index("name").cast(schema.NAMES.polars_schema)
    offsets, before = {"files": 0, "processes": 0, "threads": 0}, None
    for place, trace in enumerate(traces):
        again = files is not None and place > 0 and files[place] == files[place - 1]
        if not again:
            offsets["files"] += 0 if before is None else before.files.height
            before = trace
        new_ids = trace.names.select("text").join(names, on="text", maintain_order="left")["name"]
        for table_name, frames in parts.items():
            frame: pl.DataFrame = getattr(trace, table_name)
            counts = frame.height > 0 and not (again and table_name == "files")
            if counts or not frames:
                frames.append(frame.with_columns(_renumbered(table_name, frame, offsets, new_ids)))
        for table_name in ("processes", "threads"):
            offsets[table_name] += getattr(trace, table_name).height
    parts["names"] = [names.select("name", "text")]
    joined = {table_name: pl.concat(frames) for table_name, frames in parts.items()}
    if files is not None and len(set(files)) < len(files):
        joined["diagnostics"] = _once(joined["diagnostics"])
    return Trace(**joined)


def divisions(trace: Trace) -> list[tuple[int, int]]:
    """The processes of each part of a trace: the first, and the one after the last.

    Each part has GPU work of one process; processes without ops go with the one before. There is
    one part where a range crosses processes, and for several files.
    """
    working = trace.ops["process"].unique().sort().to_list()
    apart = trace.processes["file"].n_unique() > 1 or _crosses_processes(trace)
    if len(working) < 2 or apart:
        return [(0, trace.processes.height)]
    ends = [*working[1:], trace.processes.height]
    return list(zip([0, *working[1:]], ends, strict=True))


def _crosses_processes(trace: Trace) -> bool:
    """Whether a range was closed by a thread of another process."""
    crossing = trace.ranges.filter(pl.col("end_thread").is_not_null())
    opened, closed = (
        trace.threads["process"].gather(crossing[name]) for name in ("thread", "end_thread")
    )
    return not (opened == closed).all()


def taken(trace: Trace, first: int, end: int) -> Trace:
    """The processes of a trace from one row on up to another.

    Args:
        trace: One whose ranges do not cross processes.
        first: The first process; with 0 goes what the importer said of the file.
        end: The process after the last.
    """
    own = trace.threads["process"].is_between(first, end, closed="left").to_numpy()
    number = np.where(own, np.cumsum(own) - 1, -1)
    tables = {}
    for table in schema.TABLES:
        frame: pl.DataFrame = getattr(trace, table.name)
        if table.name == "diagnostics":
            frame = frame if first == 0 else frame.filter(pl.col("source") == "recorder")
        elif table.name not in ("files", "names"):
            frame = _own_rows(frame, (first, end), number)
        tables[table.name] = frame
    threads = tables["threads"]
    tables["threads"] = threads.with_columns(thread=pl.int_range(pl.len(), dtype=pl.Int32))
    return Trace(**tables)


def _own_rows(frame: pl.DataFrame, processes: tuple[int, int], number: Numbers) -> pl.DataFrame:
    """The rows of some processes, renumbered from 0; `number` is that of each of their threads."""
    first, end = processes
    if "process" in frame.columns:
        inside = frame["process"].is_between(first, end, closed="left")
    else:
        inside = pl.Series(number[frame["thread"].to_numpy()] >= 0)
    own = frame if inside.all() else frame.filter(inside)
    columns = [(own["process"] - first).alias("process")] if "process" in own.columns else []
    for name in ("thread", "end_thread"):
        if name in own.columns and own.height:
            rows = own[name].fill_null(0).to_numpy()
            known = own[name].is_not_null()
            new = pl.Series(name, number[rows], pl.Int32)
            columns.append(new if known.all() else pl.select(pl.when(known).then(new)).to_series())
    return own.with_columns(columns).rechunk()


def _once(diagnostics: pl.DataFrame) -> pl.DataFrame:
    """What several parts of a file say alike, once: the recorder's words are all of the file's."""
    said_by_all = pl.col("source") == "recorder"
    count = pl.when(said_by_all.first()).then(pl.col("count").max()).otherwise(pl.sum("count"))
    keys = [name for name in diagnostics.columns if name != "count"]
    return (
        diagnostics.group_by(keys, maintain_order=True)
        .agg(count.alias("count"))
        .select(diagnostics.columns)
    )


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
