"""Captures of CUDA streams into graphs: what a thread calls and opens while one lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers, Intervals, Packing, sorted_rows
from traceanalyzer.phases.attribution import launch_intervals
from traceanalyzer.phases.cycles import LAUNCHES_WORK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace


def stream_captures(trace: Trace, name: str) -> pl.DataFrame:
    """Calls that begin or end a stream capture, by thread and time.

    Args:
        trace: The tables.
        name: "Begin" or "End".

    Returns:
        One row a call: thread, time_ns (its start).
    """
    called = pl.col("text").str.contains(rf"^(?:cuda|cu|hip)Stream{name}Capture")
    of_name = trace.names.select(called).to_series().to_numpy()
    rows = np.flatnonzero(of_name[trace.launches["name"].to_numpy()])
    return trace.launches[rows].select("thread", time_ns="start_ns").sort("thread", "time_ns")


def working_launches(trace: Trace) -> NDArray[np.int64]:
    """Rows of the API calls that launch kernels or graphs, those inside a capture left out."""
    if not trace.launches.height:
        return np.zeros(0, np.int64)
    text = pl.col("text").str
    works = trace.names.select(text.contains(LAUNCHES_WORK)).to_series().to_numpy()
    rows = np.flatnonzero(works[trace.launches["name"].to_numpy()])
    return rows[~_while_capturing(trace, rows)]


def _while_capturing(trace: Trace, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which launches a thread makes between the begin and the end of a stream capture."""
    begins, ends = stream_captures(trace, "Begin"), stream_captures(trace, "End")
    if not begins.height:
        return np.zeros(rows.size, bool)
    calls = launch_intervals(trace, rows)
    both = pl.concat([begins, ends])
    borders = _times(both, both["time_ns"])
    packing = Packing.covering(trace.threads.height, (borders.start_ns, calls.start_ns))
    keys = packing.key(borders.lane, borders.start_ns)
    order = sorted_rows(keys)
    last = np.searchsorted(keys[order], packing.key(calls.lane, calls.start_ns), "right") - 1
    border = np.append(order, -1)[last]
    return (last >= 0) & (borders.lane[border] == calls.lane) & (border < begins.height)


def captured_phases(trace: Trace, spans: Spans) -> NDArray[np.int64]:
    """Places in `spans.phases` of the phases with ranges around or inside a stream capture."""
    rows = spans.rows(spans.phase >= 0)
    begins, ends = stream_captures(trace, "Begin"), stream_captures(trace, "End")
    if not rows.size or not begins.height:
        return np.zeros(0, np.int64)
    ranges = spans.intervals.take(rows)
    points = _times(begins, begins["time_ns"])
    _, around = Containers(ranges).all_of(points)
    paired = begins.join_asof(
        ends.with_columns(end_ns="time_ns"),
        on="time_ns",
        by="thread",
        strategy="forward",
        check_sortedness=False,
    ).drop_nulls("end_ns")
    inside = np.zeros(0, np.int64)
    if paired.height:
        captures = Containers(_times(paired, paired["end_ns"]))
        inside = np.flatnonzero(captures.innermost(ranges) >= 0)
    return np.unique(spans.phase[rows[np.union1d(around, inside).astype(np.int64)]])


def _times(calls: pl.DataFrame, end_ns: pl.Series) -> Intervals:
    return Intervals(
        calls["thread"].to_numpy().astype(np.int64),
        calls["time_ns"].to_numpy(),
        end_ns.to_numpy(),
    )
