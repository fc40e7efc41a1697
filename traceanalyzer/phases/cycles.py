"""Decode cycles: on each rank, from the first op of a target forward to the first op of the next.

The engine's own cycle ranges identify cycles but do not border them: the GPU runs behind the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers, Intervals, Packing, places_in
from traceanalyzer.phases.attribution import has_ops, ranges_of_launches
from traceanalyzer.phases.grouping import distinct, least_of, parted
from traceanalyzer.phases.lost_events import in_short_replays
from traceanalyzer.phases.recorder_stalls import Stalls, in_stalls, stalls_of
from traceanalyzer.phases.rules import has_target_forward, is_prompt_work
from traceanalyzer.trace import of_kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.attribution import Attribution
    from traceanalyzer.phases.ranks import Ranks
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

STATES: Final = ("kept", "warm_up", "dummy", "edge", "interrupted")
KEPT, WARM_UP, DUMMY, EDGE, INTERRUPTED = range(5)
LAUNCHES_WORK = (
    r"^(?:cuda|cu|hip)(?:GraphLaunch|Launch(?:Cooperative)?Kernel|(?:Ext)?(?:Module)?LaunchKernel)"
)
"""Names of API calls that run kernels or graphs."""


@dataclass(frozen=True, slots=True)
class Stalling:
    """What the recorder did to cycles.

    Attributes:
        stalls: See `stalls_of`.
        usable: Which cycles would be kept but for it.
        stretched: Which it stretched.
    """

    stalls: pl.DataFrame
    usable: NDArray[np.bool_]
    stretched: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles by lane and start.

    Attributes:
        spans: Lane, first instant, and the next cycle's first instant (the end of the rank's
            phase work for the last one).
        forward: Row in `trace.ranges` of the target forward.
        state: Place in `STATES`.
        stalling: What the recorder did to them; None on the host.
    """

    spans: Intervals
    forward: NDArray[np.int64]
    state: NDArray[np.int64]
    stalling: Stalling | None = None

    def borders(self, packing: Packing) -> NDArray[np.int64]:
        """Where cycles start and end, as keys in order, each once."""
        spans = self.spans
        times = (spans.start_ns, spans.end_ns)
        return np.unique(np.concatenate([packing.key(spans.lane, time) for time in times]))

    def slots(
        self, lane: NDArray[np.int64], cycle: NDArray[np.int64], lanes: int
    ) -> NDArray[np.int64]:
        """A number for each cycle, after one for what each of `lanes` does outside of cycles."""
        return np.where(cycle >= 0, cycle + lanes, lane)

    def of_slots(
        self, slot: NDArray[np.int64], lanes: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lane and cycle (-1 outside) of each slot."""
        cycle = np.maximum(slot - lanes, -1)
        return np.where(cycle >= 0, np.append(self.spans.lane, 0)[cycle], slot), cycle

    def at(self, points: Intervals) -> NDArray[np.int64]:
        """The cycle in which each interval starts, -1 for none."""
        if not self.spans.size:
            return np.full(points.size, -1, np.int64)
        lanes = 1 + int(max(self.spans.lane.max(), points.lane.max(initial=0)))
        times = (self.spans.start_ns, self.spans.end_ns, points.start_ns)
        packing = Packing.covering(lanes, times)
        starts = packing.key(self.spans.lane, self.spans.start_ns)
        at = packing.key(points.lane, points.start_ns)
        place = places_in(starts, at, "right") - 1
        ends = np.append(packing.key(self.spans.lane, self.spans.end_ns), -1)
        place[at >= ends[place]] = -1  # as on a later lane
        return place


@dataclass(frozen=True, slots=True)
class CycleSources:
    """What cycles are found from: the trace's GPU side as arrays, one element an op.

    `part` is the place in `spans.phases` of the part of a fused phase that an op is known to
    belong to, -1 for none.
    """

    trace: Trace
    spans: Spans
    attribution: Attribution
    ranks: Ranks
    ops: Intervals
    collected: NDArray[np.bool_]
    part: NDArray[np.int64]


def find_cycles(
    sources: CycleSources, stretched: NDArray[np.bool_] | None = None
) -> tuple[Cycles, NDArray[np.int64]]:
    """Find the cycles of every rank and tell which of them can be averaged.

    Args:
        sources: What they are found from.
        stretched: Which of them the recorder stretched, where ranks beside those of the sources
            tell too; None to find it.

    Returns:
        The cycles, and the one of each op, -1 outside.
    """
    forward = forward_of_span(sources.spans)
    borders = _first_ops(sources, forward)
    starts = Intervals(*(borders[name].to_numpy() for name in ("lane", "start_ns", "start_ns")))
    cycles = between_forwards(starts, borders["forward"].to_numpy(), _phase_work(sources))
    cycle = np.where(sources.collected, cycles.at(sources.ops), -1)
    prefill = _marked(cycle, _in_spans(sources, is_prefill_span(sources.spans)), cycles.spans.size)
    incomplete = _incomplete(sources, cycles, cycle)
    usable = (cycles.state == KEPT) & ~prefill & ~incomplete
    stalls = stalls_of(sources)
    if stretched is None:
        files = sources.trace.processes["file"].to_numpy().astype(np.int64)
        file = files[np.asarray(sources.ranks.process, np.int64)][cycles.spans.lane]
        stretched = in_stalls(Stalls.of(sources.trace, stalls), cycles.spans, file, usable)
    settled = with_states(cycles, sources.spans, prefill | stretched, incomplete)
    return replace(settled, stalling=Stalling(stalls, usable, stretched)), cycle


def between_forwards(starts: Intervals, forward: NDArray[np.int64], work: Intervals) -> Cycles:
    """Cycles from each target forward's start to the next one's on its lane.

    Args:
        starts: First instants of the forwards, by lane and time.
        forward: Row in `trace.ranges` of each.
        work: All phase work; a lane's last cycle lasts until its end.
    """
    lane, start = starts.lane, starts.start_ns
    last = np.ones(lane.size, bool)
    last[:-1] = lane[1:] != lane[:-1]
    lanes = 1 + int(max(lane.max(initial=0), work.lane.max(initial=0)))
    work_end = np.full(lanes, np.iinfo(np.int64).min)
    np.maximum.at(work_end, work.lane, work.end_ns)
    end = np.maximum(work_end[lane], start)
    end[:-1][~last[:-1]] = start[1:][~last[:-1]]
    return Cycles(Intervals(lane, start, end), forward, np.where(last, EDGE, KEPT))


def with_states(
    cycles: Cycles, spans: Spans, interrupted: NDArray[np.bool_], incomplete: NDArray[np.bool_]
) -> Cycles:
    """Say why cycles are not kept; of several reasons the strongest holds.

    Args:
        cycles: Kept or edge so far.
        spans: Flags of the forwards' ranges.
        interrupted: Cycles into which prompt work fell, or the recorder's own.
        incomplete: Cycles that lack rows.
    """
    state = cycles.state.copy()
    state[interrupted & (state == KEPT)] = INTERRUPTED
    state[incomplete] = EDGE
    for number, flags in ((DUMMY, ("dummy", "idle")), (WARM_UP, ("warm-up", "capture"))):
        state[spans.flagged(*flags)[cycles.forward]] = number
    return Cycles(cycles.spans, cycles.forward, state)


def forward_of_span(spans: Spans) -> NDArray[np.int64]:
    """The outermost target-forward range around each one (itself at least), -1 for others.

    An engine's own range inside ours is the same forward, not a second one.
    """
    forward = np.full(spans.phase.size, -1, np.int64)
    targets = spans.rows(spans.is_target_forward())
    if targets.size:
        own = spans.intervals.take(targets)
        inner, outer = Containers(own).all_of(own)
        # Containers come innermost first, so the last assignment of each is its outermost.
        forward[targets[inner]] = targets[outer]
    return forward


def _first_ops(sources: CycleSources, forward: NDArray[np.int64]) -> pl.DataFrame:
    """First kernel or whole-graph row of each target forward, by lane and start."""
    kinds = of_kinds(sources.trace.ops, "kernel", "graph")
    span = sources.attribution.span
    of_op = np.append(forward, -1)[span]
    of_op[_in_other_part(sources)] = -1
    rows = np.flatnonzero((of_op >= 0) & kinds & sources.collected)
    ranges = max(forward.size, 1)
    keys, (place,) = distinct(sources.ops.lane[rows] * ranges + of_op[rows])
    first_ns = least_of(place, keys.size, sources.ops.start_ns[rows])
    lane, found = parted(keys, ranges)
    table = pl.DataFrame({"start_ns": first_ns, "lane": lane, "forward": found})
    return table.sort("lane", "start_ns", "forward")


def _in_other_part(sources: CycleSources) -> NDArray[np.bool_]:
    """Which ops belong to a part of a fused phase that holds no forward of the target."""
    targets = [has_target_forward(phase) for phase in sources.spans.phases]
    return ~np.append(targets, True).astype(bool)[sources.part]


def _phase_work(sources: CycleSources) -> Intervals:
    """The ops that were launched in a phase range."""
    return sources.ops.take((sources.attribution.span >= 0) & sources.collected)


def is_prefill_span(spans: Spans) -> NDArray[np.bool_]:
    """Ranges of prompt work that are no target forward of their own."""
    codes = [is_prompt_work(phase) for phase in spans.phases]
    return np.append(codes, False).astype(bool)[spans.phase]


def _in_spans(sources: CycleSources, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which ops were launched in one of the chosen ranges."""
    span = sources.attribution.span
    return (span >= 0) & np.append(chosen, False)[span]


def _marked(cycle: NDArray[np.int64], ops: NDArray[np.bool_], cycles: int) -> NDArray[np.bool_]:
    """Which cycles hold one of the marked ops."""
    marked = np.zeros(cycles, bool)
    marked[cycle[ops & (cycle >= 0)]] = True
    return marked


def _incomplete(
    sources: CycleSources, cycles: Cycles, cycle: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which cycles lack rows.

    They hold an unclosed range, an op without launch, a launch without op, or a replay that lacks
    nodes.
    """
    size = cycles.spans.size
    unclosed = ~sources.trace.ranges["closed"].to_numpy()
    lost = np.zeros(sources.spans.phase.size, bool)
    lost[_spans_with_lost_ops(sources)] = True
    launch = sources.attribution.launch
    incomplete = _marked(cycle, launch < 0, size) | _with_short_replays(sources, cycles, cycle)
    incomplete |= _marked(cycle, _in_spans(sources, unclosed | lost), size)
    incomplete |= unclosed[cycles.forward]
    placed = np.zeros(lost.size + 1, bool)
    placed[sources.attribution.span[cycle >= 0]] = True
    return incomplete | _launched_after(sources.spans, cycles, np.flatnonzero(lost & ~placed[:-1]))


def _with_short_replays(
    sources: CycleSources, cycles: Cycles, cycle: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Cycles with replays that lack nodes, and those before them, whose ends may be among these."""
    short = in_short_replays(sources.trace, sources.attribution.launch)
    found = _marked(cycle, short, cycles.spans.size)
    lane = cycles.spans.lane
    found[:-1] |= found[1:] & (lane[1:] == lane[:-1])
    return found


def _launched_after(spans: Spans, cycles: Cycles, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The cycles whose forward was launched last before each range that left no op at all."""
    forwards = np.unique(cycles.forward)
    if not rows.size or not forwards.size:
        return np.zeros(cycles.spans.size, bool)
    known, lost = spans.intervals.take(forwards), spans.intervals.take(rows)
    lanes = 1 + int(max(known.lane.max(), lost.lane.max()))
    packing = Packing.covering(lanes, (known.start_ns, lost.start_ns))
    keys = packing.key(known.lane, known.start_ns)
    order = np.argsort(keys)
    place = np.searchsorted(keys[order], packing.key(lost.lane, lost.start_ns), "right") - 1
    before = order[np.maximum(place, 0)]
    held = (place >= 0) & (known.lane[before] == lost.lane)
    return np.isin(cycles.forward, forwards[before[held]])


def _spans_with_lost_ops(sources: CycleSources) -> NDArray[np.int64]:
    """Phase ranges in which a call that launches work has left no op.

    While a graph is captured no call leaves one, so ranges around captures are no evidence.
    """
    trace, spans = sources.trace, sources.spans
    if not trace.launches.height:
        return np.zeros(0, np.int64)
    works = trace.names.select(pl.col("text").str.contains(LAUNCHES_WORK)).to_series().to_numpy()
    lost = works[trace.launches["name"].to_numpy()]
    launched = sources.attribution.launch
    lost[launched[launched >= 0]] = False
    rows = np.flatnonzero(lost)
    rows = rows[~has_ops(trace, rows)]
    found = ranges_of_launches(trace, rows, spans.intervals, spans.rows(spans.phase >= 0))
    found = np.unique(found[found >= 0])
    return found[~spans.flagged("capture")[found]]
