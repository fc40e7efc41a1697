"""Tables that parts timed on the GPU and on the host fill alike."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.analyses.phase_time import CycleTime
    from traceanalyzer.phases.cycles import Cycles


def cycle_tables(cycles: Cycles, shapes: pl.DataFrame, time: CycleTime) -> dict[str, pl.DataFrame]:
    """The tables `cycles` and `exclusive`.

    Args:
        cycles: The cycles.
        shapes: See `cycle_shapes`.
        time: The time in them.
    """
    exclusive = time.window - time.gap.sum(axis=2)
    cycle, label = np.nonzero(exclusive)
    return {
        "cycles": pl.DataFrame(
            {
                "lane": cycles.spans.lane,
                "start_ns": cycles.spans.start_ns,
                "end_ns": cycles.spans.end_ns,
                "state": cycles.state,
                "number": shapes["number"],
                "kind": shapes["kind"],
                "named_batch": shapes["named_batch"],
                "graph_text": shapes["graph"],
                "overlap_ns": time.overlap,
            }
        ),
        "exclusive": pl.DataFrame({"cycle": cycle, "label": label, "ns": exclusive[cycle, label]}),
    }


_Record = TypeVar("_Record")
_TYPES: Final[dict[str, Any]] = {
    "int": pl.Int64,
    "float": pl.Float64,
    "float | None": pl.Float64,
    "str": pl.String,
    "str | None": pl.String,
    "bool": pl.Boolean,
    "tuple[str, ...]": pl.List(pl.String),
}


def record_table(kind: Any, rows: Iterable[Any]) -> pl.DataFrame:
    """Small dataclasses of one kind as a table, a column a field."""
    columns = {field.name: _TYPES[str(field.type)] for field in fields(kind)}
    return pl.DataFrame(
        [tuple(getattr(row, name) for name in columns) for row in rows],
        schema=columns,
        orient="row",
    )


def records(kind: type[_Record], table: pl.DataFrame) -> list[_Record]:
    """The rows of such a table as what they were made of."""
    return [
        kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in row.items()})
        for row in table.iter_rows(named=True)
    ]
