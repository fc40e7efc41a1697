"""The CPU side of a timeline: ranges by depth, graph launches, and the other API calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analyses.timeline_lanes.model import (
    CALLS,
    GRAPH_LAUNCHES,
    NONE,
    RANGES,
    Spans,
    Tracks,
)
from traceanalyzer.phases.attribution import launched_by_graph_call

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.analyses.timeline_lanes.texts import Texts
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]


def call_tracks(phased: PhasedTrace, group_of_thread: Int64s, texts: Texts) -> list[Tracks]:
    """API calls of every thread, with the phase and cycle of the first op that each launched."""
    launches = phased.trace.launches
    phase, cycle = _of_first_op(phased)
    thread = launches["thread"].to_numpy().astype(np.int64)
    spans = Spans(
        launches["start_ns"].to_numpy(),
        launches["end_ns"].to_numpy(),
        texts.of_host(launches["name"].to_numpy().astype(np.int64)),
        phase,
        cycle,
        launches["correlation_id"].fill_null(NONE).to_numpy(),
    )
    calls = Tracks(CALLS, group_of_thread[thread], thread, spans)
    is_graph = launched_by_graph_call(phased.trace, np.arange(launches.height))
    graphs = calls.take(is_graph)
    return [
        Tracks(GRAPH_LAUNCHES, graphs.group, graphs.track, graphs.spans),
        calls.take(~is_graph),
    ]


def _of_first_op(phased: PhasedTrace) -> tuple[Int64s, Int64s]:
    """Phase and cycle that a launch hands to its ops, `NONE` for calls that launched nothing."""
    launch = phased.attribution.launch
    phase = np.full(phased.trace.launches.height, NONE)
    cycle = np.full(phase.size, NONE)
    rows = np.flatnonzero(launch >= 0)[::-1]  # of several assignments the last one holds
    phase[launch[rows]] = phased.label[rows]
    cycle[launch[rows]] = phased.cycle[rows]
    return phase, cycle


def range_tracks(phased: PhasedTrace, group_of_thread: Int64s, texts: Texts) -> Tracks:
    """Ranges of every thread; those that another thread closed lie on a track of their own."""
    ranges, spans = phased.trace.ranges, phased.spans
    thread = ranges["thread"].to_numpy().astype(np.int64)
    drawn = Spans(
        ranges["start_ns"].to_numpy(),
        ranges["end_ns"].to_numpy(),
        texts.of_host(ranges["name"].to_numpy().astype(np.int64)),
        spans.phase,
        _cycle_of_ranges(phased, thread),
        np.full(ranges.height, NONE),
    )
    return Tracks(RANGES, group_of_thread[thread], 2 * thread + ~spans.same_thread, drawn)


def _cycle_of_ranges(phased: PhasedTrace, thread: Int64s) -> Int64s:
    """The cycle that carries a range's number in its process, `NONE` where there is none."""
    number, cycles = phased.spans.number, phased.cycles
    found = np.full(number.size, NONE)
    known = number[cycles.forward]
    rows = np.flatnonzero(known >= 0)
    if not rows.size or number.max(initial=-1) < 0:
        return found
    width = int(number.max()) + 1
    process_of_lane = np.array(phased.ranks.process, np.int64)
    key = process_of_lane[cycles.spans.lane[rows]] * width + known[rows]
    order = np.argsort(key, kind="stable")
    key, rows = key[order], rows[order]
    process = phased.trace.threads["process"].to_numpy().astype(np.int64)[thread]
    wanted = process * width + number
    place = np.minimum(np.searchsorted(key, wanted), key.size - 1)
    held = (number >= 0) & (key[place] == wanted)
    found[held] = rows[place[held]]
    return found
