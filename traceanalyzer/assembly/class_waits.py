"""How much of a kernel class's time is only waiting for a late rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.analyses.collective_wait import RESOLVABLE, SEPARATED
from traceanalyzer.analyses.kernel_classes import ROWS
from traceanalyzer.intervals import total_by
from traceanalyzer.phases.grouping import distinct, parted

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
    told = pl.col("reason") == SEPARATED
    least_ns = RESOLVABLE * (waits.clock_error_ns or 0)
    spread = waits.ops.filter(told).group_by("label").agg(pl.mean("spread_ns"))
    resolved = spread.filter(pl.col("spread_ns") >= least_ns)["label"]
    untold = ~(told & pl.col("label").is_in(resolved.implode()))
    ops = waits.ops.select(
        "cycle", "label", "class", untold=untold, wait_ns=pl.col("exposed_ns").fill_null(0)
    ).filter(pl.col("cycle") >= 0)
    labels = 1 + int(ops["label"].max() or 0)  # type: ignore[arg-type]
    cycle, label, row = (
        ops[name].cast(pl.Int64).to_numpy() for name in ("cycle", "label", "class")
    )
    keys, (place,) = distinct((cycle * labels + label) * len(ROWS) + row)
    rest, row = parted(keys, len(ROWS))
    cycle, label = parted(rest, labels)
    table = {
        "cycle": cycle,
        "label": label,
        "class": row,
        "wait_ns": total_by(place, keys.size, ops["wait_ns"].to_numpy()),
        "untold": np.bincount(place[ops["untold"].to_numpy()], minlength=keys.size),
    }
    return pl.DataFrame(table).cast(pl.Schema(_SCHEMA))


def all_class_waits(found: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Those of all groups, one after another."""
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *found])
