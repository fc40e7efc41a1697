"""GPU idle time between ops: whose it is, and why the GPU had nothing to run.

A gap belongs to the phase of the op that ends it. Its cause is read from that op's launch: the
call came too late, was still on its way, or was there and the work had to wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import (
    Containers,
    Intervals,
    Packing,
    lowest_of_equals,
    places_in,
    total_by,
)
from traceanalyzer.phases.attribution import launch_intervals
from traceanalyzer.phases.device_work import stream_lanes
from traceanalyzer.phases.grouping import distinct, parted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.idle_time import IdleTime
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

CAUSES: Final = ("host late", "launch latency", "dependency", "synchronisation", "unknown")
HOST_LATE, LAUNCH_LATENCY, DEPENDENCY, SYNCHRONISATION, UNKNOWN = range(5)

# Calls during which the host waits for the GPU. A plain cudaMemcpy blocks, its Async twin does not.
_SYNCHRONISES = r"^(?:cuda|cu|hip)\w*Synchronize"
_COPIES = r"^(?:cuda|cu|hip)Memcpy"
_ASYNC = "Async"
_AT_ONCE: Final = 1 << 17
"""Gaps whose causes are looked up together."""


def explain_gaps(phased: PhasedTrace, order: DeviceOrder, idle: IdleTime) -> pl.DataFrame:
    """Find the gaps between ops and their causes.

    Args:
        phased: A trace with settled phases.
        order: Its ops in the order of their starts.
        idle: Its idle time.

    Returns:
        One row a gap piece: lane, cycle (-1 outside), label, cause (place in `CAUSES`), ns.
    """
    known = _Known(_blocking_calls(phased), _told_to_wait(phased, order), _Replays.of(phased))
    ender = _enders(phased, idle)
    cycle = phased.cycles.at(idle.spans)
    # What no op ends counts only inside a cycle, whose time has to be somebody's all the same.
    counted = np.flatnonzero((ender >= 0) | (cycle >= 0))
    pieces, since_ns = idle.spans, idle.since_ns
    if counted.size < ender.size:
        pieces, cycle = pieces.take(counted), cycle[counted]
        ender, since_ns = ender[counted], since_ns[counted]
    nobody = len(phased.labels) - 1
    label = np.where(ender >= 0, np.append(phased.label, nobody)[ender], nobody)
    table = {
        "lane": pieces.lane.astype(np.int32),
        "cycle": cycle,
        "label": label.astype(np.int8),
        "ns": pieces.duration_ns,
    }
    del pieces, cycle, label
    return pl.DataFrame({**table, "cause": _causes(phased, known, since_ns, ender)})


def gap_sums(gaps: pl.DataFrame, labels: int) -> pl.DataFrame:
    """Summed gaps, see `explain_gaps`: one row a lane, cycle, label and cause, in that order."""
    columns = ("lane", "cycle", "label", "cause", "ns")
    lane, cycle, label, cause, ns = (gaps[name].cast(pl.Int64).to_numpy() for name in columns)
    cycles, causes = 2 + int(cycle.max(initial=-1)), len(CAUSES)
    keys, (place,) = distinct(((lane * cycles + cycle + 1) * labels + label) * causes + cause)
    rest, cause = parted(keys, causes)
    rest, label = parted(rest, labels)
    lane, cycle = parted(rest, cycles)
    summed = (lane, cycle - 1, label, cause, total_by(place, keys.size, ns))
    return pl.DataFrame(dict(zip(columns, summed, strict=True)))


def _enders(phased: PhasedTrace, idle: IdleTime) -> Int64s:
    """The op that ends each idle stretch, -1 for none."""
    ender = np.full(idle.next_op.size, -1, np.int64)
    ended = np.flatnonzero(idle.next_op >= 0)
    ops = idle.ops
    ender[ended] = lowest_of_equals(ops.start, _precedence(phased), ops.op, idle.next_op[ended])
    return ender


def _precedence(phased: PhasedTrace) -> Int64s:
    """Which of several ops that start together ends a gap: by phase, then by launch time."""
    launches = phased.trace.launches["start_ns"].to_numpy()
    launch = phased.attribution.launch
    start = np.append(launches, launches.min() if launches.size else 0)[launch]
    packing = Packing.covering(len(phased.labels), (start,))
    return packing.key(phased.label, start)


def _causes(
    phased: PhasedTrace, known: _Known, since_ns: Int64s, ender: Int64s
) -> NDArray[np.int8]:
    """Cause of each gap, some at a time: what is looked up for each then takes little memory."""
    cause = np.full(ender.size, UNKNOWN, np.int8)
    for first in range(0, ender.size, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        launch = np.where(ender[some] >= 0, phased.attribution.launch[ender[some]], -1)
        rows = first + np.flatnonzero(launch >= 0)
        if rows.size:
            cause[rows] = _cause_of_launched(phased, known, since_ns[rows], ender[rows])
    return cause


@dataclass(frozen=True, slots=True)
class _Known:
    """What is looked up for every gap.

    Attributes:
        blocking: Calls during which the host waits for the GPU.
        waited: Whether each op's stream was told to wait; None without such records.
        replays: See `_Replays`; None where none ran on several streams.
    """

    blocking: Containers
    waited: NDArray[np.bool_] | None
    replays: _Replays | None


def _cause_of_launched(
    phased: PhasedTrace, known: _Known, idle_ns: Int64s, ender: Int64s
) -> Int64s:
    """The same for gaps that ended with ops whose launch is known."""
    calls = launch_intervals(phased.trace, phased.attribution.launch[ender])
    is_late = calls.start_ns >= idle_ns
    found = np.where(is_late, HOST_LATE, LAUNCH_LATENCY)
    late, early = np.flatnonzero(is_late), np.flatnonzero(~is_late)
    instants = Intervals(calls.lane[late], idle_ns[late], idle_ns[late])
    found[late[known.blocking.innermost(instants) >= 0]] = SYNCHRONISATION
    ops = ender[early]
    if known.waited is not None:
        found[early[known.waited[ops]]] = DEPENDENCY
    if known.replays is not None:
        launch, stream = phased.attribution.launch[ops], phased.trace.ops["stream_id"].gather(ops)
        joined = known.replays.after_other_branch(idle_ns[early], launch, stream.to_numpy())
        found[early[joined]] = DEPENDENCY
    return found


def _blocking_calls(phased: PhasedTrace) -> Containers:
    trace = phased.trace
    text = pl.col("text").str
    copies = text.contains(_COPIES) & ~text.contains(_ASYNC, literal=True)
    blocking = trace.names.select(text.contains(_SYNCHRONISES) | copies).to_series().to_numpy()
    rows = np.flatnonzero(blocking[trace.launches["name"].to_numpy()])
    return Containers(launch_intervals(trace, rows))


def _told_to_wait(phased: PhasedTrace, order: DeviceOrder) -> NDArray[np.bool_] | None:
    """Whether each op's stream was told to wait for an event just before the op's launch.

    The wait has to lie between the launch of the stream's previous op and this op's launch. None
    where no stream was told to wait.
    """
    told = phased.trace.syncs.filter(pl.col("kind") == "stream_wait_event")
    called = phased.trace.launches["start_ns"].to_numpy()
    if not told.height or not order.op.size or not called.size:
        return None
    lane, lanes = stream_lanes(phased)
    waits = _stream_waits(phased, told, lane, lanes)
    if not waits.size:
        return None
    stream = lane[order.op].astype(np.min_scalar_type(lanes))  # small numbers sort in no time
    by_stream = order.op[np.argsort(stream, kind="stable")]
    lane, launch = lane[by_stream], phased.attribution.launch[by_stream]
    called_ns = called[launch]
    since_ns = np.full(lane.size, np.iinfo(np.int64).min)
    follows = (lane[1:] == lane[:-1]) & (launch[:-1] >= 0)
    np.copyto(since_ns[1:], called_ns[:-1], where=follows)
    rows = np.flatnonzero(launch >= 0)
    del launch, follows
    lane = lane[rows]  # one column after another, so that one of them is held twice
    called_ns = called_ns[rows]
    since_ns = since_ns[rows]
    packing = Packing.covering(lanes, (called_ns, waits.start_ns))
    keys = packing.key(waits.lane, waits.start_ns)
    place = places_in(keys, packing.key(lane, called_ns), "right") - 1
    held = (place >= 0) & (waits.lane[place] == lane) & (waits.start_ns[place] > since_ns)
    waited = np.zeros(phased.ops.size, bool)
    waited[by_stream[rows]] = held
    return waited


def _stream_waits(phased: PhasedTrace, waits: pl.DataFrame, lane: Int64s, lanes: int) -> Intervals:
    """Stream-wait-event records, by the lane of the stream that was told to wait, then time."""
    # A record may leave out its device; a stream id alone is then all there is to go by.
    here = pl.col("device_id").is_null() | (pl.col("device_id") == pl.col("device_id_right"))
    rows = (
        waits.select("process", "device_id", "stream_id", "start_ns", "end_ns")
        .join(_streams(phased, lane, lanes), on=["process", "stream_id"], how="inner")
        .filter(here)
        .sort("lane", "start_ns")
    )
    return Intervals(*(rows[column].to_numpy() for column in ("lane", "start_ns", "end_ns")))


def _streams(phased: PhasedTrace, lane: Int64s, lanes: int) -> pl.DataFrame:
    """The lane of each stream that has ops, with its process, device and id."""
    one_op = np.full(lanes, -1, np.int64)
    one_op[lane] = np.arange(lane.size)
    rows = one_op[one_op >= 0]
    ids = phased.trace.ops[rows].select("process", "device_id", "stream_id")
    return ids.with_columns(lane=pl.Series(lane[rows]))


@dataclass(frozen=True, slots=True)
class _Replays:
    """Graph replays that ran on several streams: when their ops ended, and on which.

    Attributes:
        launch: Their launches, sorted.
        lane: Place in `launch` of each of their ops, by end and stream.
        end_ns: End of each op.
        stream: Stream id of each op.
    """

    launch: Int64s
    lane: Int64s
    end_ns: Int64s
    stream: Int64s

    @classmethod
    def of(cls, phased: PhasedTrace) -> _Replays | None:
        """Find them; None where there are none."""
        launch, stream = phased.attribution.launch, phased.trace.ops["stream_id"].to_numpy()
        rows = np.flatnonzero(_on_several_streams(phased, launch, stream) & phased.collected)
        if not rows.size:
            return None
        replays, (lane,) = distinct(launch[rows])
        order = np.lexsort((stream[rows], phased.ops.end_ns[rows], lane))
        rows = rows[order]
        return cls(replays, lane[order], phased.ops.end_ns[rows], stream[rows])

    def after_other_branch(
        self, idle_ns: Int64s, launch: Int64s, stream: Int64s
    ) -> NDArray[np.bool_]:
        """Whether the device went idle as another stream of the op's own graph replay ended.

        Args:
            idle_ns: When the device went idle.
            launch: Launch of the op that ended the gap.
            stream: Stream of that op.
        """
        # One lane a replay: its ops that end at an instant lie side by side, by stream. Only
        # replays get a lane, so that long captures of many launches still fit a key.
        place = np.minimum(places_in(self.launch, launch, "left"), self.launch.size - 1)
        own = np.flatnonzero(self.launch[place] == launch)
        packing = Packing.covering(self.launch.size, (self.end_ns, idle_ns))
        key, wanted = packing.key(self.lane, self.end_ns), packing.key(place[own], idle_ns[own])
        first = np.searchsorted(key, wanted, "left")
        ended = np.flatnonzero(np.append(key, -1)[first] == wanted)
        own, first = own[ended], first[ended]
        last = np.searchsorted(key, wanted[ended], "right") - 1
        after = np.zeros(idle_ns.size, bool)
        after[own] = (self.stream[first] != stream[own]) | (self.stream[last] != stream[own])
        return after


def _on_several_streams(phased: PhasedTrace, launch: Int64s, stream: Int64s) -> NDArray[np.bool_]:
    """Which ops belong to a launch whose ops ran on more than one stream."""
    size = phased.trace.launches.height
    one_op = np.zeros(size + 1, np.int64)
    one_op[launch] = np.arange(launch.size)
    several = np.zeros(size + 1, bool)
    several[launch[stream != stream[one_op[launch]]]] = True
    several[size] = False  # where -1 pointed
    return several[launch]
