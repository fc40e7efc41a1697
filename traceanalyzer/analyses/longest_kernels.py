"""The kernel with most time of each class in each phase and bucket: what a class table names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import total_by
from traceanalyzer.kernels.classification import CLASSES
from traceanalyzer.phases.cycles import KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.phases.op_groups import OpGroups
    from traceanalyzer.phases.phased import PhasedTrace

_ROWS_AT_ONCE: Final = 1 << 19


def kernels_by_cycle(phased: PhasedTrace, groups: OpGroups) -> pl.DataFrame:
    """Summed time of each kernel in each kept cycle.

    Args:
        phased: A trace with settled phases.
        groups: Its ops by cycle, phase and kernel.

    Returns:
        One row a cycle, label, class (place in `CLASSES`) and name (row in `trace.names`) that
        has ops: these, and ns.
    """
    kept = np.append(phased.cycles.state == KEPT, False)[groups.cycle]
    ns = total_by(groups.of_op, groups.ops.size, phased.ops.duration_ns)
    columns = {
        "cycle": groups.cycle,
        "label": groups.label,
        "class": groups.kernel_class,
        "name": groups.name,
        "ns": ns,
    }
    return pl.DataFrame({name: column[kept] for name, column in columns.items()})


def longest_kernels(
    by_cycle: pl.DataFrame, bucket: NDArray[np.int64], texts: pl.Series
) -> pl.DataFrame:
    """The kernel of most summed time.

    Args:
        by_cycle: See `kernels_by_cycle`.
        bucket: Bucket of each cycle, -1 for cycles to leave out.
        texts: The text of each name.

    Returns:
        One row a bucket, label and class with a named op: bucket, label, class (its name), kernel
        (its name). Of equal ones the first by name.
    """
    keys = ["bucket", "label", "class"]
    pieces = [
        _summed(piece, bucket[piece["cycle"].to_numpy()], [*keys, "name"])
        for piece in by_cycle.iter_slices(_ROWS_AT_ONCE)
    ]
    summed = pl.concat([_summed(by_cycle.clear(), bucket[:0], [*keys, "name"]), *pieces])
    summed = summed.group_by(*keys, "name").agg(pl.sum("ns"))
    named = summed.with_columns(kernel=texts.gather(summed["name"]))
    return (
        named.drop_nulls("kernel")
        .sort(*keys, "ns", "kernel", descending=[False, False, False, True, False])
        .unique(keys, keep="first", maintain_order=True)
        .with_columns(pl.col("class").replace_strict(dict(enumerate(CLASSES)), default=None))
        .select(*keys, "kernel")
    )


def _summed(by_cycle: pl.DataFrame, bucket: NDArray[np.int64], keys: Sequence[str]) -> pl.DataFrame:
    table = by_cycle.drop("cycle").with_columns(bucket=pl.Series(bucket, dtype=pl.Int64))
    return table.filter(pl.col("bucket") >= 0).group_by(keys).agg(pl.sum("ns"))
