"""How many ops of each class a graph replayed node by node, in each cycle and phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.intervals import total_by
from traceanalyzer.kernels.classification import CLASSES, WHOLE_GRAPH
from traceanalyzer.phases.grouping import distinct, parted

if TYPE_CHECKING:
    from traceanalyzer.phases.op_groups import OpGroups
    from traceanalyzer.phases.phased import PhasedTrace


def replayed_ops(phased: PhasedTrace, groups: OpGroups) -> pl.DataFrame:
    """Graph nodes that start in each cycle.

    Args:
        phased: A trace with settled phases.
        groups: Its ops by cycle, phase and kernel.

    Returns:
        One row a cycle, label and class that has any, in that order: cycle, label, class,
        replayed_ops. Whole-graph rows are no nodes.
    """
    nodes = np.bincount(groups.of_op[phased.attribution.by_graph_call], minlength=groups.ops.size)
    found = np.flatnonzero((nodes > 0) & (groups.cycle >= 0) & (groups.kernel_class != WHOLE_GRAPH))
    labels = len(phased.labels)
    slot = groups.cycle[found] * labels + groups.label[found]
    slots, (place,) = distinct(slot * len(CLASSES) + groups.kernel_class[found])
    outer, row = parted(slots, len(CLASSES))
    cycle, label = parted(outer, labels)
    count = total_by(place, slots.size, nodes[found])
    return pl.DataFrame({"cycle": cycle, "label": label, "class": row, "replayed_ops": count})
