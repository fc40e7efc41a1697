"""GPU idle time between ops: whose it is, and why the GPU had nothing to run.

A gap belongs to the phase of the op that ends it. Its cause is read from that op's launch: the
call came too late, was still on its way, or was there and the work had to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers, Intervals, Packing, earliest_at
from traceanalyzer.phases.attribution import launch_intervals
from traceanalyzer.phases.device_work import stream_lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.intervals import Segments
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

CAUSES: Final = ("host late", "launch latency", "dependency", "synchronisation", "unknown")
HOST_LATE, LAUNCH_LATENCY, DEPENDENCY, SYNCHRONISATION, UNKNOWN = range(5)

# Calls during which the host waits for the GPU. A plain cudaMemcpy blocks, its Async twin does not.
_SYNCHRONISES = r"^(?:cuda|cu|hip)\w*Synchronize"
_COPIES = r"^(?:cuda|cu|hip)Memcpy"
_ASYNC = "Async"


def explain_gaps(phased: PhasedTrace, segments: Segments) -> pl.DataFrame:
    """Find the gaps between ops and their causes.

    Args:
        phased: A trace with settled phases.
        segments: Its timeline, cut at cycle borders.

    Returns:
        One row a gap piece: lane, cycle (-1 outside), label, cause (place in `CAUSES`), ns.
    """
    idle = np.flatnonzero(segments.active == 0)
    pieces = segments.spans.take(idle)
    ender = earliest_at(phased.ops, _precedence(phased), pieces)
    cycle = phased.cycles.at(pieces)
    # What no op ends counts only inside a cycle, whose time has to be somebody's all the same.
    counted = (ender >= 0) | (cycle >= 0)
    pieces, cycle, ender, idle = pieces.take(counted), cycle[counted], ender[counted], idle[counted]
    nobody = len(phased.labels) - 1
    since = Intervals(pieces.lane, _idle_since(segments, idle), pieces.end_ns)
    return pl.DataFrame(
        {
            "lane": pieces.lane,
            "cycle": cycle,
            "label": np.where(ender >= 0, np.append(phased.label, nobody)[ender], nobody),
            "cause": _causes(phased, since, ender),
            "ns": pieces.duration_ns,
        }
    )


def _precedence(phased: PhasedTrace) -> Int64s:
    """Which of several ops that start together ends a gap: by phase, then by launch time."""
    launches = phased.trace.launches["start_ns"].to_numpy()
    launch = phased.attribution.launch
    start = np.append(launches, launches.min() if launches.size else 0)[launch]
    packing = Packing.covering(len(phased.labels), (start,))
    return packing.key(phased.label, start)


def _idle_since(segments: Segments, idle: Int64s) -> Int64s:
    """When the device went idle, for gap pieces that a cycle border cut off the gap's beginning."""
    spans = segments.spans
    continues = np.zeros(idle.size, bool)
    continues[1:] = (idle[1:] == idle[:-1] + 1) & (spans.lane[idle[1:]] == spans.lane[idle[:-1]])
    first = np.maximum.accumulate(np.where(continues, 0, np.arange(idle.size)))
    return spans.start_ns[idle][first]


def _causes(phased: PhasedTrace, gaps: Intervals, ender: Int64s) -> Int64s:
    launch = np.where(ender >= 0, np.append(phased.attribution.launch, -1)[ender], -1)
    cause = np.full(ender.size, UNKNOWN, np.int64)
    rows = np.flatnonzero(launch >= 0)
    if not rows.size:
        return cause
    calls = launch_intervals(phased.trace, launch[rows])
    idle_ns = gaps.start_ns[rows]
    is_late = calls.start_ns >= idle_ns
    found = np.where(is_late, HOST_LATE, LAUNCH_LATENCY)
    late, early = np.flatnonzero(is_late), np.flatnonzero(~is_late)
    instants = Intervals(calls.lane[late], idle_ns[late], idle_ns[late])
    found[late[_host_was_waiting(phased, instants)]] = SYNCHRONISATION
    ops = ender[rows[early]]
    waited = _told_to_wait(phased, ops)
    waited |= _after_other_graph_branch(phased, gaps.take(rows[early]), ops)
    found[early[waited]] = DEPENDENCY
    cause[rows] = found
    return cause


def _host_was_waiting(phased: PhasedTrace, instants: Intervals) -> NDArray[np.bool_]:
    """Whether the launching thread sat in a blocking call when the device went idle."""
    trace = phased.trace
    text = pl.col("text").str
    copies = text.contains(_COPIES) & ~text.contains(_ASYNC, literal=True)
    blocking = trace.names.select(text.contains(_SYNCHRONISES) | copies).to_series().to_numpy()
    rows = np.flatnonzero(blocking[trace.launches["name"].to_numpy()])
    return Containers(launch_intervals(trace, rows)).innermost(instants) >= 0


def _told_to_wait(phased: PhasedTrace, ops: Int64s) -> NDArray[np.bool_]:
    """Whether the op's stream was told to wait for an event just before the op's launch.

    The wait has to lie between the launch of the stream's previous op and this op's launch.
    """
    waits = _stream_waits(phased)
    if not waits.size:
        return np.zeros(ops.size, bool)
    launches = phased.trace.launches["start_ns"].to_numpy()
    stream, streams = stream_lanes(phased)
    launch, previous = phased.attribution.launch, _previous_in_stream(phased, stream, streams)[ops]
    called = launches[launch[ops]]
    before = np.where(previous >= 0, launch[previous], -1)
    since = np.where(before >= 0, launches[before], np.iinfo(np.int64).min)
    packing = Packing.covering(streams, (called, waits.start_ns))
    keys = packing.key(waits.lane, waits.start_ns)
    place = np.searchsorted(keys, packing.key(stream[ops], called), "right") - 1
    told = (place >= 0) & (waits.lane[place] == stream[ops])
    return np.asarray(told & (waits.start_ns[place] > since))


def _previous_in_stream(phased: PhasedTrace, stream: Int64s, streams: int) -> Int64s:
    """The op before each one on its stream, -1 for none; what was not collected is none."""
    rows = np.flatnonzero(phased.collected)
    packing = Packing.covering(streams, (phased.ops.start_ns,))
    key = packing.key(stream, phased.ops.start_ns)[rows]
    order = rows[np.argsort(key, kind="stable")]
    previous = np.full(stream.size, -1, np.int64)
    same = stream[order[1:]] == stream[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _stream_waits(phased: PhasedTrace) -> Intervals:
    """Stream-wait-event records, by the lane of the stream that was told to wait, then time."""
    waits = phased.trace.syncs.filter(pl.col("kind") == "stream_wait_event")
    if not waits.height or not phased.ops.size:
        return Intervals(*(np.zeros(0, np.int64),) * 3)
    # A record may leave out its device; a stream id alone is then all there is to go by.
    here = pl.col("device_id").is_null() | (pl.col("device_id") == pl.col("device_id_right"))
    rows = (
        waits.select("process", "device_id", "stream_id", "start_ns", "end_ns")
        .join(_streams(phased), on=["process", "stream_id"], how="inner")
        .filter(here)
        .sort("lane", "start_ns")
    )
    return Intervals(*(rows[column].to_numpy() for column in ("lane", "start_ns", "end_ns")))


def _streams(phased: PhasedTrace) -> pl.DataFrame:
    """The lane of each stream that has ops, with its process, device and id."""
    lane, lanes = stream_lanes(phased)
    one_op = np.full(lanes, -1, np.int64)
    one_op[lane] = np.arange(lane.size)
    rows = one_op[one_op >= 0]
    ids = phased.trace.ops[rows].select("process", "device_id", "stream_id")
    return ids.with_columns(lane=pl.Series(lane[rows]))


def _after_other_graph_branch(
    phased: PhasedTrace, gaps: Intervals, ops: Int64s
) -> NDArray[np.bool_]:
    """Whether the device went idle as another stream of the op's own graph replay ended."""
    launch, stream = phased.attribution.launch, phased.trace.ops["stream_id"].to_numpy()
    rows = np.flatnonzero(_on_several_streams(phased, launch, stream) & phased.collected)
    if not rows.size:
        return np.zeros(ops.size, bool)
    # One lane a replay: its ops that end at an instant lie side by side, by stream. Only replays
    # get a lane, so that long captures of many launches still fit a key.
    replays, lane = np.unique(launch[rows], return_inverse=True)
    place = np.minimum(np.searchsorted(replays, launch[ops]), replays.size - 1)
    packing = Packing.covering(replays.size, (phased.ops.end_ns[rows], gaps.start_ns))
    key = packing.key(lane, phased.ops.end_ns[rows])
    order = np.lexsort((stream[rows], key))
    key, streams = key[order], stream[rows][order]
    wanted = packing.key(place, gaps.start_ns)
    first, after = np.searchsorted(key, wanted, "left"), np.searchsorted(key, wanted, "right")
    lowest = streams[np.minimum(first, key.size - 1)]
    highest = streams[np.maximum(after - 1, 0)]
    own = replays[place] == launch[ops]
    return own & (after > first) & ((lowest != stream[ops]) | (highest != stream[ops]))


def _on_several_streams(phased: PhasedTrace, launch: Int64s, stream: Int64s) -> NDArray[np.bool_]:
    """Which ops belong to a launch whose ops ran on more than one stream."""
    size = phased.trace.launches.height
    one_op = np.zeros(size + 1, np.int64)
    one_op[launch] = np.arange(launch.size)
    several = np.zeros(size + 1, bool)
    several[launch[stream != stream[one_op[launch]]]] = True
    several[size] = False  # where -1 pointed
    return several[launch]
