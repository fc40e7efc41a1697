"""Captures of CUDA streams into graphs: what a thread calls and opens while one lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers, Intervals
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
    begins = stream_captures(trace, "Begin")
    if not begins.height:
        return np.zeros(rows.size, bool)
    borders = pl.concat(
        [
            begins.with_columns(capturing=pl.lit(True)),
            stream_captures(trace, "End").with_columns(capturing=pl.lit(False)),
        ]
    ).sort("time_ns")
    calls = trace.launches[rows].select("thread", time_ns="start_ns", row=pl.lit(0))
    calls = calls.with_columns(row=pl.int_range(pl.len())).sort("time_ns")
    found = calls.join_asof(borders, on="time_ns", by="thread", check_sortedness=False)
    return found.sort("row")["capturing"].fill_null(False).to_numpy()


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
