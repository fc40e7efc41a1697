"""How much of a kernel class's time is only waiting for a late rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer.analyses.collective_wait import RESOLVABLE, SEPARATED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.analyses.collective_wait import CollectiveWaits

_SCHEMA: Final[dict[str, pl.DataType]] = {
    "cycle": pl.Int32(),
    "label": pl.Int8(),
    "class": pl.Int8(),
    "wait_ns": pl.Int64(),
    "untold": pl.Int64(),
}


def class_waits(waits: CollectiveWaits) -> pl.DataFrame:
    """Waiting in the collectives of a group by cycle, phase and class.

    Args:
        waits: See `collective_waits`.

    Returns:
        One row a cycle, label and class (place in `ROWS`) with collectives: these, wait_ns (in
        which the device ran nothing else), untold (collectives whose waiting cannot be told from
        transfer, or not by these clocks).
    """
    asked = ("cycle", "label", "class", "reason", "exposed_ns")
    ops = waits.ops.select(asked).filter(pl.col("cycle") >= 0)
    told = pl.col("reason") == SEPARATED
    least_ns = RESOLVABLE * (waits.clock_error_ns or 0)
    spread = waits.ops.filter(told).group_by("label").agg(pl.mean("spread_ns"))
    resolved = spread.filter(pl.col("spread_ns") >= least_ns)["label"]
    untold = ~(told & pl.col("label").is_in(resolved.implode()))
    return (
        ops.with_columns(untold=untold)
        .group_by("cycle", "label", "class")
        .agg(pl.sum("exposed_ns").alias("wait_ns"), pl.sum("untold"))
        .select(pl.col(name).cast(dtype) for name, dtype in _SCHEMA.items())
    )


def all_class_waits(found: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Those of all groups, one after another."""
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *found])
