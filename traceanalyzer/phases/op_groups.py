"""Ops of one cycle, phase and kernel as groups: what is asked by cycle is asked of them.

They are a third of the ops or fewer, and several tables are summed by the same keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.kernels.classification import kernels_of_ops
from traceanalyzer.phases.grouping import distinct, parted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OpGroups:
    """The groups of a trace's ops, none empty: those outside of cycles first, by lane.

    Attributes:
        of_op: Group of each op.
        lane: Lane of each group; groups are sorted by lane outside of cycles or else by cycle,
            then by label, class and name.
        cycle: Cycle in which its ops start, -1 outside.
        label: Their phase.
        kernel_class: Their class, a place in `CLASSES`.
        name: Row in `trace.names`.
        ops: How many there are.
    """

    of_op: Int64s
    lane: Int64s
    cycle: Int64s
    label: Int64s
    kernel_class: Int64s
    name: Int64s
    ops: Int64s

    @property
    def class_of_op(self) -> Int64s:
        """Class of each op."""
        return self.kernel_class[self.of_op]


def op_groups(phased: PhasedTrace) -> OpGroups:
    """Group the ops of a trace with settled phases."""
    kernels = kernels_of_ops(phased.trace)
    labels, lanes, size = len(phased.labels), phased.ranks.size, max(kernels.name.size, 1)
    key = phased.cycles.slots(phased.ops.lane, phased.cycle, lanes)
    key *= labels
    key += phased.label
    key *= size
    key += kernels.of_op
    groups, (of_op,) = distinct(key)
    rest, kernel = parted(groups, size)
    slot, label = parted(rest, labels)
    lane, cycle = phased.cycles.of_slots(slot, lanes)
    return OpGroups(
        of_op,
        lane,
        cycle,
        label,
        kernels.kernel_class[kernel],
        kernels.name[kernel],
        np.bincount(of_op, minlength=groups.size),
    )
