"""Graph replays that lack nodes because the recorder lost events.

A replay with some of its nodes looks whole to itself: its launch has left ops. Only where the
recorder says that events are missing are replays of one graph compared, for graphs whose nodes
run conditionally have fewer of them at times, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace

EVENTS_LOST: Final = r"(?i)not all (?:cuda|nvtx) events|size limit|couldn't allocate"
"""Texts of Nsight Systems that say that events of a process were lost."""


def files_with_lost_events(trace: Trace) -> pl.Series:
    """Files whose recorder says so."""
    if not trace.diagnostics.height:
        return trace.diagnostics["file"]
    return trace.diagnostics.filter(pl.col("text").str.contains(EVENTS_LOST))["file"].unique()


def in_short_replays(trace: Trace, launch: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which ops belong to a replay with fewer nodes than another one of the same graph.

    Args:
        trace: The capture.
        launch: Row in `trace.launches` of each op, -1 for none.

    Returns:
        One element an op; false in files whose recorder says nothing of lost events.
    """
    files = files_with_lost_events(trace)
    if not files.len():
        return np.zeros(trace.ops.height, bool)
    lossy = trace.processes.filter(pl.col("file").is_in(files.implode()))["process"]
    nodes = trace.ops.select("process", node="graph_node_id").with_row_index("op")
    nodes = nodes.with_columns(launch=pl.Series(launch, dtype=pl.Int64)).filter(
        pl.col("node").is_not_null()
        & (pl.col("launch") >= 0)
        & pl.col("process").is_in(lossy.implode())
    )
    counted = nodes.with_columns(ran=pl.len().over("launch"))
    of_node = counted.with_columns(most=pl.col("ran").max().over("process", "node"))
    of_graph = of_node.with_columns(most=pl.col("most").max().over("launch"))
    short = np.zeros(trace.ops.height, bool)
    short[of_graph.filter(pl.col("ran") < pl.col("most"))["op"].to_numpy()] = True
    return short
