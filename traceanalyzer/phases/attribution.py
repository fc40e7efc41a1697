"""Attribution: op -> the launch that caused it -> the phase range that launch lies in.

An op belongs to the launch with its correlation id in its own process; never to a range by time
overlap on the GPU, by stream, or across processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.errors import InputError
from traceanalyzer.intervals import Containers, Intervals
from traceanalyzer.schema import OP_KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

METHODS: Final = (
    "launch in range",
    "graph launch in range",
    "whole-graph row",
    "capture-time range",
    "inferred",
    "launched outside ranges",
    "no launch row",
)
IN_RANGE, GRAPH_IN_RANGE, WHOLE_GRAPH, CAPTURE_TIME, INFERRED, OUTSIDE, NO_LAUNCH = range(7)
_ROOM: Final = 4
_GRAPH_LAUNCH = r"^(?:cuda|cu|hip)GraphLaunch"


@dataclass(frozen=True, slots=True)
class Attribution:
    """Where each op comes from, as arrays as long as `trace.ops`.

    Attributes:
        launch: Row in `trace.launches`, -1 when there is none.
        span: Row in `trace.ranges` of the innermost phase range around the launch, -1 for none.
        method: Place in `METHODS`.
        by_graph_call: Whether the launch replays a graph.
    """

    launch: NDArray[np.int64]
    span: NDArray[np.int64]
    method: NDArray[np.int8]
    by_graph_call: NDArray[np.bool_]


def attribute_ops(trace: Trace, spans: Spans) -> Attribution:
    """Attribute every op of a trace."""
    launch = launches_of_ops(trace)
    phase_ranges = spans.rows(spans.phase >= 0)
    span = ranges_of_launches(trace, launch, spans.intervals, phase_ranges)
    kinds = trace.ops["kind"].to_physical().to_numpy()
    graph_kind = OP_KINDS.index("graph")
    method = np.full(launch.size, IN_RANGE, np.int8)
    is_node = trace.ops["graph_node_id"].is_not_null().to_numpy()
    by_graph_call = launched_by_graph_call(trace, launch)
    method[is_node | by_graph_call] = GRAPH_IN_RANGE
    method[kinds == graph_kind] = WHOLE_GRAPH
    method[span < 0] = OUTSIDE
    method[launch < 0] = NO_LAUNCH
    return Attribution(launch, span, method, by_graph_call)


def launches_of_ops(trace: Trace) -> NDArray[np.int64]:
    """Row in `trace.launches` of each op, -1 when no launch has its id.

    Where several launches of a process carry one id, the first row holds.
    """
    ops, launches = trace.ops, trace.launches
    bits = _id_bits(ops["correlation_id"], launches["correlation_id"])
    _check_width(bits, trace.processes.height)
    key, has_key = _correlation_keys(launches, bits)
    rows = np.flatnonzero(has_key)
    key = key[rows]
    if np.any(key[1:] < key[:-1]):
        order = np.argsort(key, kind="stable")
        key, rows = key[order], rows[order]
    wanted, wants = _correlation_keys(ops, bits)
    if not key.size:
        return np.full(wanted.size, -1, np.int64)
    low, room = int(key[0]), int(key[-1]) - int(key[0]) + 1
    if room <= _ROOM * (key.size + wanted.size):  # ids count up: a table of all beats searching
        of_key = np.full(room + 1, -1, np.int64)
        of_key[key[::-1] - low] = rows[::-1]  # of equal ids the first row is written last
        inside = wants & (wanted >= low) & (wanted < low + room)
        return of_key[np.where(inside, wanted - low, room)]
    place = np.minimum(np.searchsorted(key, wanted, side="left"), key.size - 1)
    return np.where(wants & (key[place] == wanted), rows[place], -1)


def has_ops(trace: Trace, launches: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether any op carries the id of each launch, be it the first row of that id or another."""
    if not launches.size:
        return np.zeros(0, bool)
    calls, ops = trace.launches.select("process", "correlation_id")[launches], trace.ops
    bits = _id_bits(calls["correlation_id"], ops["correlation_id"])
    _check_width(bits, trace.processes.height)
    called, has_id = _correlation_keys(calls, bits)
    left, known = _correlation_keys(ops, bits)
    return has_id & np.isin(called, left[known])


def _id_bits(*ids: pl.Series) -> int:
    return max(1, *(int(series.max() or 0).bit_length() for series in ids))  # type: ignore[arg-type]


def _check_width(bits: int, processes: int) -> None:
    if bits + processes.bit_length() > 63:
        raise InputError(
            f"correlation ids of {bits} bits in {processes} processes are too large to match",
            next_step="Look for a broken correlation id, or analyse fewer files at once.",
        )


def _correlation_keys(
    frame: pl.DataFrame, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Process and correlation id in one integer, and which rows have an id at all."""
    ids = frame["correlation_id"].fill_null(-1).to_numpy()
    return (frame["process"].to_numpy().astype(np.int64) << bits) + ids, ids >= 0


def ranges_of_launches(
    trace: Trace,
    launch: NDArray[np.int64],
    ranges: Intervals,
    candidates: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Row of the innermost candidate range that contains each launch's whole API call.

    Args:
        trace: Supplies the launches.
        launch: Rows in `trace.launches`; -1 stands for none and yields -1.
        ranges: All ranges, lane = thread.
        candidates: Rows of `ranges` that may be found.
    """
    used, place = _distinct(launch, trace.launches.height)
    calls = launch_intervals(trace, used)
    found = Containers(ranges.take(candidates)).innermost(calls)
    if not candidates.size:
        return np.full(launch.size, -1, np.int64)
    by_call = np.append(np.where(found >= 0, candidates[found], -1), -1)
    return by_call[place]


def launch_intervals(trace: Trace, rows: NDArray[np.int64]) -> Intervals:
    """API calls as intervals, lane = thread."""
    launches = trace.launches
    return Intervals(
        launches["thread"].to_numpy()[rows].astype(np.int64),
        launches["start_ns"].to_numpy()[rows],
        launches["end_ns"].to_numpy()[rows],
    )


def _distinct(rows: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that occur, sorted, and where each of `rows` stands among them (-1: nowhere)."""
    occurs = np.zeros(size + 1, bool)
    occurs[rows] = True
    occurs[size] = False  # where -1 pointed
    used = np.flatnonzero(occurs)
    place = np.full(size + 1, -1, np.int64)
    place[used] = np.arange(used.size)
    return used, place[rows]


def launched_by_graph_call(trace: Trace, launch: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which launches (rows; -1 is none) replay a graph, by the API's name."""
    if not trace.launches.height:
        return np.zeros(launch.size, bool)
    by_name = trace.names.select(pl.col("text").str.contains(_GRAPH_LAUNCH)).to_series().to_numpy()
    return (launch >= 0) & by_name[trace.launches["name"].to_numpy()[launch]]
