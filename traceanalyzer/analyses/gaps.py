"""GPU idle time between ops: whose it is, and why the GPU had nothing to run.

A gap belongs to the phase of the op that ends it. Its cause is read from that op's launch: the
call came too late, was still on its way, or was there and the work had to wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers, Intervals, Packing, earliest_at, places_in, total_by
from traceanalyzer.phases.attribution import launch_intervals
from traceanalyzer.phases.device_work import stream_lanes
from traceanalyzer.phases.grouping import distinct, parted

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
_AT_ONCE: Final = 1 << 17
"""Gaps whose causes are looked up together."""


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
    if not counted.all():
        pieces, cycle = pieces.take(counted), cycle[counted]
        ender, idle = ender[counted], idle[counted]
    since_ns = _idle_since(segments, idle)
    del idle
    nobody = len(phased.labels) - 1
    label = np.where(ender >= 0, np.append(phased.label, nobody)[ender], nobody)
    table = {
        "lane": pieces.lane.astype(np.int32),
        "cycle": cycle,
        "label": label.astype(np.int8),
        "ns": pieces.duration_ns,
    }
    del pieces, cycle, label
    return pl.DataFrame({**table, "cause": _causes(phased, since_ns, ender)})


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


def _causes(phased: PhasedTrace, since_ns: Int64s, ender: Int64s) -> NDArray[np.int8]:
    """Cause of each gap, some at a time: what is looked up for each then takes little memory."""
    known = _Known.of(phased)
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
        waits: See `_stream_waits`.
        stream: Lane of the stream of each op, and how many there may be; None without waits.
        previous: See `_previous_in_stream`; None without waits.
        replays: See `_Replays`; None where none ran on several streams.
    """

    blocking: Containers
    waits: Intervals
    stream: tuple[Int64s, int] | None
    previous: Int64s | None
    replays: _Replays | None

    @classmethod
    def of(cls, phased: PhasedTrace) -> _Known:
        """Look it up."""
        told = phased.trace.syncs.filter(pl.col("kind") == "stream_wait_event")
        stream = stream_lanes(phased) if told.height and phased.ops.size else None
        waits = _stream_waits(phased, told, stream)
        stream = stream if waits.size else None
        previous = None if stream is None else _previous_in_stream(phased, *stream)
        return cls(_blocking_calls(phased), waits, stream, previous, _Replays.of(phased))


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
    waited = _told_to_wait(phased, known, ops)
    if known.replays is not None:
        launch, stream = phased.attribution.launch[ops], phased.trace.ops["stream_id"].gather(ops)
        waited |= known.replays.after_other_branch(idle_ns[early], launch, stream.to_numpy())
    found[early[waited]] = DEPENDENCY
    return found


def _blocking_calls(phased: PhasedTrace) -> Containers:
    trace = phased.trace
    text = pl.col("text").str
    copies = text.contains(_COPIES) & ~text.contains(_ASYNC, literal=True)
    blocking = trace.names.select(text.contains(_SYNCHRONISES) | copies).to_series().to_numpy()
    rows = np.flatnonzero(blocking[trace.launches["name"].to_numpy()])
    return Containers(launch_intervals(trace, rows))


def _told_to_wait(phased: PhasedTrace, known: _Known, ops: Int64s) -> NDArray[np.bool_]:
    """Whether the op's stream was told to wait for an event just before the op's launch.

    The wait has to lie between the launch of the stream's previous op and this op's launch.
    """
    if known.stream is None or known.previous is None:
        return np.zeros(ops.size, bool)
    waits, (stream, streams) = known.waits, known.stream
    launches = phased.trace.launches["start_ns"].to_numpy()
    launch, previous = phased.attribution.launch, known.previous[ops]
    called, lane = launches[launch[ops]], stream[ops]
    before = np.where(previous >= 0, launch[previous], -1)
    since = np.where(before >= 0, launches[before], np.iinfo(np.int64).min)
    packing = Packing.covering(streams, (called, waits.start_ns))
    keys = packing.key(waits.lane, waits.start_ns)
    place = places_in(keys, packing.key(lane, called), "right") - 1
    told = (place >= 0) & (waits.lane[place] == lane)
    return np.asarray(told & (waits.start_ns[place] > since))


def _previous_in_stream(phased: PhasedTrace, stream: Int64s, streams: int) -> Int64s:
    """The op before each one on its stream, -1 for none; what was not collected is none."""
    packing = Packing.covering(streams, (phased.ops.start_ns,))
    order = np.argsort(packing.key(stream, phased.ops.start_ns), kind="stable")
    if not phased.collected.all():
        order = order[phased.collected[order]]
    own = stream[order]
    same = own[1:] == own[:-1]
    del own
    previous = np.full(stream.size, -1, np.int64)
    previous[order[1:]] = np.where(same, order[:-1], -1)
    return previous


def _stream_waits(
    phased: PhasedTrace, waits: pl.DataFrame, stream: tuple[Int64s, int] | None
) -> Intervals:
    """Stream-wait-event records, by the lane of the stream that was told to wait, then time."""
    if stream is None:
        return Intervals(*(np.zeros(0, np.int64),) * 3)
    # A record may leave out its device; a stream id alone is then all there is to go by.
    here = pl.col("device_id").is_null() | (pl.col("device_id") == pl.col("device_id_right"))
    rows = (
        waits.select("process", "device_id", "stream_id", "start_ns", "end_ns")
        .join(_streams(phased, *stream), on=["process", "stream_id"], how="inner")
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
