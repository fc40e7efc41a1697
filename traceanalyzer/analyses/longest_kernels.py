"""The kernel with most time of each class in each phase and bucket: what a class table names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import total_by
from traceanalyzer.kernels.classification import CLASSES
from traceanalyzer.phases.cycles import KEPT
from traceanalyzer.phases.grouping import distinct, parted

if TYPE_CHECKING:
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
    pieces = [_summed(piece, bucket, texts.len()) for piece in by_cycle.iter_slices(_ROWS_AT_ONCE)]
    summed = pl.concat([_summed(by_cycle.clear(), bucket, texts.len()), *pieces])
    summed = summed.group_by(*keys, "name").agg(pl.sum("ns"))
    named = summed.with_columns(kernel=texts.gather(summed["name"]))
    return (
        named.drop_nulls("kernel")
        .sort(*keys, "ns", "kernel", descending=[False, False, False, True, False])
        .unique(keys, keep="first", maintain_order=True)
        .with_columns(pl.col("class").replace_strict(dict(enumerate(CLASSES)), default=None))
        .select(*keys, "kernel")
    )


def _summed(by_cycle: pl.DataFrame, bucket: NDArray[np.int64], names: int) -> pl.DataFrame:
    """Time by bucket, label, class and name."""
    numbers = ("cycle", "label", "class", "name")
    cycle, label, row, name = (by_cycle[each].cast(pl.Int64).to_numpy() for each in numbers)
    outer = bucket[cycle]
    counts = outer >= 0
    labels, classes, names = 1 + int(label.max(initial=0)), len(CLASSES), max(names, 1)
    key = ((outer * labels + label) * classes + row) * names + name
    groups, (place,) = distinct(key[counts])
    ns = total_by(place, groups.size, by_cycle["ns"].to_numpy()[counts])
    rest, name = parted(groups, names)
    rest, row = parted(rest, classes)
    outer, label = parted(rest, labels)
    return pl.DataFrame({"bucket": outer, "label": label, "class": row, "name": name, "ns": ns})
