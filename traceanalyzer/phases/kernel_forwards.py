"""Forwards: the kernels that one range of a phase launched on one rank, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.intervals import Containers
from traceanalyzer.phases.grouping import begins_anew, ordered
from traceanalyzer.trace import of_kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.spans import Spans

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Forwards:
    """Forwards: the kernels of one phase in one outermost range of that phase, on one lane.

    Attributes:
        rows: Rows of ops, those of a forward together and by start.
        first: Place in `rows` of each forward's first, and their number at the end.
        label: Phase of each forward.
        lane: Lane of each forward.
        places: Highest draft step and layer that is known of each forward, as two rows.
        replayed: Which forwards hold a replayed kernel.
    """

    rows: Int64s
    first: Int64s
    label: Int64s
    lane: Int64s
    places: Int64s
    replayed: NDArray[np.bool_]

    def of(self, forward: int) -> Int64s:
        """Rows of one forward's kernels."""
        return self.rows[self.first[forward] : self.first[forward + 1]]


def forwards_of(phased: PhasedTrace) -> Forwards:
    """Every forward of every phase."""
    chosen = of_kinds(phased.trace.ops, "kernel") & phased.collected
    rows = np.flatnonzero(chosen & (phased.attribution.span >= 0))
    group = _outermost(phased.spans)[phased.attribution.span[rows]]
    label, lane = phased.label[rows], phased.ops.lane[rows]
    lanes, groups = phased.ranks.size, phased.spans.phase.size
    slot = (label * lanes + lane) * groups + group
    order = ordered(slot, phased.ops.start_ns[rows])
    rows, slot = rows[order], slot[order]
    begins = np.flatnonzero(begins_anew(slot))
    outer = slot[begins] // groups
    is_node = phased.trace.ops["graph_node_id"].is_not_null().to_numpy()
    is_node = is_node | phased.attribution.by_graph_call
    places = np.stack((phased.places.step[rows], phased.places.layer[rows])).astype(np.int64)
    return Forwards(
        rows=rows,
        first=np.append(begins, rows.size),
        label=outer // lanes,
        lane=outer % lanes,
        places=np.maximum.reduceat(places, begins, axis=1) if begins.size else places,
        replayed=np.logical_or.reduceat(is_node[rows], begins) if begins.size else is_node[rows],
    )


def _outermost(spans: Spans) -> Int64s:
    """The outermost range of the same phase around each range, itself for none."""
    found = np.arange(spans.phase.size)
    for code in range(len(spans.phases)):
        own = spans.rows(spans.phase == code)
        inside = spans.intervals.take(own)
        inner, outer = Containers(inside).all_of(inside)
        # Containers come innermost first, so the last assignment of each is its outermost.
        found[own[inner]] = own[outer]
    return found
