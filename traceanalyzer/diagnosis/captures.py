"""Captures of CUDA streams into graphs: what a thread calls and opens while one lasts."""

from __future__ import annotations

from dataclasses import dataclass
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

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StreamCaptures:
    """Calls that begin and end captures of streams.

    Attributes:
        begins: One row a call, by thread and time: thread, time_ns (its start).
        ends: The same.
    """

    begins: pl.DataFrame
    ends: pl.DataFrame

    def borders(self) -> tuple[Intervals, NDArray[np.bool_]]:
        """All of them by thread and time, and which of them begin one."""
        both = pl.concat([self.begins, self.ends])
        order = np.lexsort((both["time_ns"].to_numpy(), both["thread"].to_numpy()))
        return _times(both, both["time_ns"]).take(order), order < self.begins.height


def stream_captures(trace: Trace) -> StreamCaptures:
    """Find them by the names of the calls."""
    text = pl.col("text").str
    begins, ends = (
        trace.names.select(text.contains(rf"^(?:cuda|cu|hip)Stream{name}Capture"))
        .to_series()
        .to_numpy()
        for name in ("Begin", "End")
    )
    name = trace.launches["name"].to_numpy()
    rows = np.flatnonzero((begins | ends)[name])
    calls = trace.launches.select("thread", time_ns="start_ns")[rows]
    return StreamCaptures(
        *(
            calls.filter(pl.Series(each[name[rows]])).sort("thread", "time_ns")
            for each in (begins, ends)
        )
    )


def working_launches(trace: Trace, captures: StreamCaptures) -> Int64s:
    """Rows of the API calls that launch kernels or graphs, those inside a capture left out."""
    if not trace.launches.height:
        return np.zeros(0, np.int64)
    text = pl.col("text").str
    works = trace.names.select(text.contains(LAUNCHES_WORK)).to_series().to_numpy()
    rows = np.flatnonzero(works[trace.launches["name"].to_numpy()])
    if not captures.begins.height:
        return rows
    return rows[~_while_capturing(trace, rows, captures)]


def _while_capturing(trace: Trace, rows: Int64s, captures: StreamCaptures) -> NDArray[np.bool_]:
    """Which launches a thread makes between the begin and the end of a stream capture."""
    borders, begins = captures.borders()
    last = np.append(borders.lane[1:] != borders.lane[:-1], True)
    until = np.where(last, np.iinfo(np.int64).max, np.append(borders.start_ns[1:], 0))
    start = trace.launches["start_ns"].to_numpy()[rows]
    near = _within(start, borders.start_ns[begins], until[begins])  # on whatever thread
    calls = launch_intervals(trace, rows[near])
    packing = Packing.covering(trace.threads.height, (borders.start_ns, calls.start_ns))
    keys = packing.key(borders.lane, borders.start_ns)
    border = np.searchsorted(keys, packing.key(calls.lane, calls.start_ns), "right") - 1
    near[near] = (border >= 0) & (borders.lane[border] == calls.lane) & begins[border]
    return near


def _within(times: Int64s, since: Int64s, until: Int64s) -> NDArray[np.bool_]:
    """Which of many times lie in one of a few stretches, ends included."""
    order = sorted_rows(times)
    in_order = times[order]
    change = np.zeros(times.size + 1, np.int64)
    np.add.at(change, np.searchsorted(in_order, since, "left"), 1)
    np.add.at(change, np.searchsorted(in_order, until, "right"), -1)
    found = np.empty(times.size, bool)
    found[order] = np.cumsum(change[:-1]) > 0
    return found


def captured_phases(spans: Spans, captures: StreamCaptures) -> Int64s:
    """Places in `spans.phases` of the phases with ranges around or inside a stream capture."""
    begins, ends = captures.begins, captures.ends
    if not begins.height:
        return np.zeros(0, np.int64)
    times, _ = captures.borders()
    near = (spans.intervals.start_ns <= times.start_ns.max()) & (spans.phase >= 0)
    rows = spans.rows(near & (spans.intervals.end_ns >= times.start_ns.min()))
    if not rows.size:
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
        whole = Containers(_times(paired, paired["end_ns"]))
        inside = np.flatnonzero(whole.innermost(ranges) >= 0)
    return np.unique(spans.phase[rows[np.union1d(around, inside).astype(np.int64)]])


def _times(calls: pl.DataFrame, end_ns: pl.Series) -> Intervals:
    return Intervals(
        calls["thread"].to_numpy().astype(np.int64),
        calls["time_ns"].to_numpy(),
        end_ns.to_numpy(),
    )
