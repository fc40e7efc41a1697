"""Where a replayed kernel was born: from its graph node along the clones to the captured node.

Instantiating a graph clones its nodes, and kernels carry the clone's id. Ids are told apart by
process and by time: when a destroyed graph's id is used again, the latest creation holds.
Source: Nsight Systems' export, CUDA_GRAPH_NODE_EVENTS (CUDA_GRAPH_EVENTS before 2024.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]


def origins_of_ops(trace: Trace, launch: Int64s) -> Int64s:
    """The captured node that each op's node descends from.

    Args:
        trace: Supplies the ops and the creations of graph nodes.
        launch: Row in `trace.launches` of each op, -1 for none; the op's own start stands in then.

    Returns:
        Row in `trace.graph_nodes` of each op, -1 when the op is no replayed node, when the
        creation of its node or of one it was cloned from is not recorded, or when clones of one
        another go round in a circle.
    """
    origin = np.full(launch.size, -1, np.int64)
    if not trace.graph_nodes.height:
        return origin
    node = trace.ops["graph_node_id"]
    rows = np.flatnonzero(node.is_not_null().to_numpy())
    if not rows.size:
        return origin
    known = _Creations(trace.graph_nodes)
    launched = launch[rows]
    called_ns = np.append(trace.launches["start_ns"].to_numpy(), 0)[launched]
    used_ns = np.where(launched >= 0, called_ns, trace.ops["start_ns"].to_numpy()[rows])
    process = trace.ops["process"].to_numpy()[rows].astype(np.int64)
    found = known.latest(process, node.fill_null(-1).to_numpy()[rows], used_ns)
    origin[rows] = np.append(known.origins(), -1)[found]
    return origin


class _Creations:
    """Creations of graph nodes, searchable by process, node and time."""

    def __init__(self, nodes: pl.DataFrame) -> None:
        self._process = nodes["process"].to_numpy().astype(np.int64)
        self._time_ns = nodes["time_ns"].to_numpy()
        self._original = nodes["original_id"]
        self._ids, code = np.unique(nodes["node_id"].to_numpy(), return_inverse=True)
        group = self._process * self._ids.size + code
        rows = np.arange(group.size)
        self._order = np.lexsort((rows, self._time_ns, group))
        self._groups, first = np.unique(group[self._order], return_index=True)
        self._last = np.append(first[1:], group.size) - 1
        self._first = first

    def latest(self, process: Int64s, node: Int64s, at_ns: Int64s) -> Int64s:
        """Row of the latest creation of each process's node up to an instant, -1 for none.

        Of equal times the later row counts.
        """
        code = np.minimum(np.searchsorted(self._ids, node), self._ids.size - 1)
        wanted = process * self._ids.size + code
        group = np.minimum(np.searchsorted(self._groups, wanted), self._groups.size - 1)
        known = (self._ids[code] == node) & (self._groups[group] == wanted)
        place = np.where(known, self._last[group], -1)
        first, time_ns = self._first[group], self._time_ns[self._order]
        pending = np.flatnonzero(place >= 0)
        while (pending := pending[time_ns[place[pending]] > at_ns[pending]]).size:
            place[pending] -= 1
            before = place[pending] < first[pending]
            place[pending[before]] = -1
            pending = pending[~before]
        return np.where(place >= 0, self._order[place], -1)

    def origins(self) -> Int64s:
        """The captured node at the end of each creation's chain of clones, -1 for none."""
        size = self._process.size
        cloned = self._original.is_not_null().to_numpy()
        above = np.append(np.arange(size), size)
        if cloned.any():
            original = self._original.fill_null(-1).to_numpy()[cloned]
            parent = self.latest(self._process[cloned], original, self._time_ns[cloned])
            above[:-1][cloned] = np.where(parent >= 0, parent, size)
        for _ in range(size.bit_length()):  # each time the distance doubles
            further = above[above]
            if (further == above).all():
                break
            above = further
        end = above[:-1]
        captured = np.append(~cloned, False)[end]  # what goes round in a circle ends at a clone
        return np.where(captured, end, -1)
