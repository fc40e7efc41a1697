"""The kernel with most time of each class in each phase and bucket: what a class table names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.kernels.classification import CLASSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace


def longest_kernels(
    phased: PhasedTrace, bucket: NDArray[np.int64], class_of_op: NDArray[np.int64]
) -> pl.DataFrame:
    """The kernel of most summed time.

    Args:
        phased: A trace with settled phases.
        bucket: Bucket of each cycle, -1 for cycles to leave out.
        class_of_op: Place in `CLASSES` of each op.

    Returns:
        One row a bucket, label and class with a named op: bucket, label, class (its name), kernel
        (its name). Of equal ones the first by name.
    """
    of_op = np.append(bucket, -1)[phased.cycle]
    rows = np.flatnonzero(of_op >= 0)
    table = pl.DataFrame(
        {
            "bucket": of_op[rows],
            "label": phased.label[rows],
            "class": class_of_op[rows],
            "name": phased.trace.ops["name"].gather(rows),
            "ns": phased.ops.duration_ns[rows],
        }
    )
    keys = ["bucket", "label", "class"]
    summed = table.group_by(*keys, "name").agg(pl.sum("ns"))
    named = summed.with_columns(kernel=phased.trace.names["text"].gather(summed["name"]))
    return (
        named.drop_nulls("kernel")
        .sort(*keys, "ns", "kernel", descending=[False, False, False, True, False])
        .unique(keys, keep="first", maintain_order=True)
        .with_columns(pl.col("class").replace_strict(dict(enumerate(CLASSES)), default=None))
        .select(*keys, "kernel")
    )
