"""How many ops of each class a graph replayed node by node, in each cycle and phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.kernels.classification import CLASSES
from traceanalyzer.phases.attribution import launched_by_graph_call
from traceanalyzer.phases.grouping import distinct

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
    nodes &= launched_by_graph_call(phased.trace, phased.attribution.launch)
    rows, labels = np.flatnonzero(nodes), len(phased.labels)
    slot = (phased.cycle[rows] * labels + phased.label[rows]) * len(CLASSES) + class_of_op[rows]
    slots, (place,) = distinct(slot)
    outer, row = np.divmod(slots, len(CLASSES))
    cycle, label = np.divmod(outer, labels)
    count = np.bincount(place, minlength=slots.size)
    return pl.DataFrame({"cycle": cycle, "label": label, "class": row, "replayed_ops": count})
