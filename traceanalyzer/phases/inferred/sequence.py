"""One rank's ops in the order in which its main thread launched them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.phases.attribution import launched_by_graph_call
from traceanalyzer.phases.grouping import begins_anew
from traceanalyzer.phases.inferred.signs import OPAQUE, signs_of_ops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.phases.ranks import Ranks
    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LaunchedOps:
    """Ops of one lane and thread by launch, those of one replay by start; arrays of one length.

    Attributes:
        lane: The rank.
        thread: Row in `trace.threads` of the thread.
        launch: Row in `trace.launches` of each op's launch.
        call_start_ns: Start of that call.
        call_end_ns: Its end.
        start_ns: Start on the GPU.
        ns: Length on the GPU.
        name: Row in `trace.names` of each op.
        signs: What its name says, bits of `signs`.
        replayed: Whether a graph's replay ran it.
        graph: Id of its graph, else of its executable graph; -1 where the capture lacks both.
        lane_ns: Length of all ops of the lane, those of other threads and without launch included.
    """

    lane: int
    thread: int
    launch: Int64s
    call_start_ns: Int64s
    call_end_ns: Int64s
    start_ns: Int64s
    ns: Int64s
    name: Int64s
    signs: Int64s
    replayed: NDArray[np.bool_]
    graph: Int64s
    lane_ns: int

    def any_of(self, sign: int) -> NDArray[np.bool_]:
        """Which ops carry the sign, or any of several."""
        return (self.signs & sign) != 0

    def opens(self) -> NDArray[np.bool_]:
        """Which ops are the first of their launch."""
        return begins_anew(self.launch)


def launched_ops(trace: Trace, ranks: Ranks, launch: Int64s) -> Iterator[LaunchedOps]:
    """The ops of every lane, without those of other threads than the one that launched most.

    Args:
        trace: The tables; it has ops.
        ranks: Lane of each op.
        launch: Row in `trace.launches` of each op, -1 for none.
    """
    start, end = (trace.ops[column].to_numpy() for column in ("start_ns", "end_ns"))
    ns, signs = end - start, signs_of_ops(trace)
    lane_ns = np.bincount(ranks.lane_of_op, ns, ranks.size)
    order = _by_launch(trace, launch, start)
    lane = ranks.lane_of_op[order]
    graph = trace.ops.select(pl.coalesce("graph_id", "graph_exec_id").fill_null(-1))
    replayed = launched_by_graph_call(trace, launch) | (signs == OPAQUE)
    replayed |= trace.ops["graph_node_id"].is_not_null().to_numpy()
    call_start, call_end = (trace.launches[column].to_numpy() for column in ("start_ns", "end_ns"))
    thread_of = trace.launches["thread"].to_numpy()
    for number in range(ranks.size):
        rows = order[lane == number]
        if not rows.size:
            continue
        thread = int(np.argmax(np.bincount(thread_of[launch[rows]], ns[rows])))
        rows = rows[thread_of[launch[rows]] == thread]
        own = launch[rows]
        yield LaunchedOps(
            lane=number,
            thread=thread,
            launch=own,
            call_start_ns=call_start[own],
            call_end_ns=call_end[own],
            start_ns=start[rows],
            ns=ns[rows],
            name=trace.ops["name"].to_numpy()[rows].astype(np.int64),
            signs=signs[rows],
            replayed=replayed[rows],
            graph=graph.to_series().to_numpy()[rows],
            lane_ns=int(lane_ns[number]),
        )


def _by_launch(trace: Trace, launch: Int64s, start_ns: Int64s) -> Int64s:
    """Rows of the ops that have a launch and times, by the launch's start, then their own."""
    called = trace.launches["start_ns"].to_numpy()
    rank = np.empty(called.size, np.int64)
    rank[np.argsort(called, kind="stable")] = np.arange(called.size)
    timed = (start_ns != 0) | (trace.ops["end_ns"].to_numpy() != 0)
    rows = np.flatnonzero((launch >= 0) & timed)
    rows = rows[np.argsort(start_ns[rows], kind="stable")]
    return rows[np.argsort(rank[launch[rows]], kind="stable")]
