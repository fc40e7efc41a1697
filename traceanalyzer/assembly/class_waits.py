"""How much of a kernel class's time is only waiting for a late rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer.analyses.collective_wait import RESOLVABLE, SEPARATED
from traceanalyzer.analyses.kernel_classes import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.analyses.collective_wait import CollectiveWaits

CLASS_NAMES: Final = pl.Enum(ROWS)
"""Of a class in a table of all cycles: joined as numbers, read as texts."""

_SCHEMA: Final[dict[str, pl.DataType]] = {
    "cycle": pl.Int64(),
    "label": pl.Int64(),
    "class": CLASS_NAMES,
    "wait_ns": pl.Int64(),
    "untold": pl.Int64(),
}


def class_waits(waits: Iterable[CollectiveWaits]) -> pl.DataFrame:
    """Waiting in collectives by cycle, phase and class.

    Args:
        waits: See `collective_waits`, one a group.

    Returns:
        One row a cycle, label and class with collectives: cycle, label, class (its name), wait_ns
        (in which the device ran nothing else), untold (collectives whose waiting cannot be told
        from transfer, or not by these clocks).
    """
    parts = [_of_group(each) for each in waits]
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *parts])


def _of_group(waits: CollectiveWaits) -> pl.DataFrame:
    asked = ("cycle", "label", "class", "reason", "exposed_ns")
    ops = waits.ops.select(asked).filter(pl.col("cycle") >= 0)
    told = pl.col("reason") == SEPARATED
    least_ns = RESOLVABLE * (waits.clock_error_ns or 0)
    spread = waits.ops.filter(told).group_by("label").agg(pl.mean("spread_ns"))
    resolved = spread.filter(pl.col("spread_ns") >= least_ns)["label"]
    names = pl.Series("class", ROWS, CLASS_NAMES).gather(ops["class"])
    return (
        ops.with_columns(
            names,
            untold=(~(told & pl.col("label").is_in(resolved.implode()))).cast(pl.Int64),
        )
        .group_by("cycle", "label", "class")
        .agg(pl.col("exposed_ns").sum().alias("wait_ns"), pl.sum("untold"))
        .select(pl.col(name).cast(dtype) for name, dtype in _SCHEMA.items())
    )
