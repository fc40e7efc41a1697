"""How many ops of each class a graph replayed node by node, in each cycle and phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.kernels.classification import CLASSES
from traceanalyzer.phases.grouping import distinct, parted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace


def replayed_ops(phased: PhasedTrace, class_of_op: NDArray[np.int64]) -> pl.DataFrame:
    """Graph nodes that start in each cycle.

    Args:
        phased: A trace with settled phases.
        class_of_op: Class of each op, see `class_of_ops`.

    Returns:
        One row a cycle, label and class that has any, in that order: cycle, label, class,
        replayed_ops. Whole-graph rows are no nodes.
    """
    nodes = (phased.trace.ops["kind"] != "graph").to_numpy() & (phased.cycle >= 0)
    nodes &= phased.attribution.by_graph_call
    rows, labels = np.flatnonzero(nodes), len(phased.labels)
    slot = (phased.cycle[rows] * labels + phased.label[rows]) * len(CLASSES) + class_of_op[rows]
    slots, (place,) = distinct(slot)
    outer, row = parted(slots, len(CLASSES))
    cycle, label = parted(outer, labels)
    count = np.bincount(place, minlength=slots.size)
    return pl.DataFrame({"cycle": cycle, "label": label, "class": row, "replayed_ops": count})
