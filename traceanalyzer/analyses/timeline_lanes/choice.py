"""Which part of a large timeline is drawn in detail: whole windows of it, never a thinned whole.

Cycles and phases are always complete. Ops, calls and ranges outside the chosen windows are left
out, and the timeline says so.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.analyses.timeline_lanes.model import (
    COLLECTIVES,
    KINDS,
    OVERVIEW,
    STREAM,
    TimelineLanes,
)
from traceanalyzer.errors import InputError
from traceanalyzer.intervals import Intervals, union
from traceanalyzer.phases.cycles import KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

_ON_GPU: Final = frozenset({STREAM, COLLECTIVES})


def in_window(lanes: TimelineLanes, start_ns: int, end_ns: int) -> TimelineLanes:
    """Detail in one window only.

    Args:
        lanes: The whole timeline.
        start_ns: Start, from the timeline's beginning.
        end_ns: End, from there.

    Raises:
        InputError: The window holds nothing of the trace.
    """
    start, end = lanes.origin_ns + start_ns, lanes.origin_ns + end_ns
    if start >= lanes.end_ns or end <= lanes.origin_ns:
        length = (lanes.end_ns - lanes.origin_ns) / 1e6
        raise InputError(
            f"the trace is {length:,.3f} ms long and has nothing in this window",
            where="--window",
        )
    facts = lanes.cycles
    inside = (facts.start_ns < end) & (facts.end_ns > start)
    host = int(min(start, facts.host_start_ns[inside].min(initial=start)))
    window = (max(start, lanes.origin_ns), min(end, lanes.end_ns))
    return _restricted(lanes, [window], [(host, end)], "in the window asked for")


def in_cycles(lanes: TimelineLanes, first: int, last: int) -> TimelineLanes:
    """Detail from one cycle of the first rank to another, counted from 1.

    Raises:
        InputError: There are no such cycles.
    """
    own = np.flatnonzero(lanes.cycles.group == 0)
    if not 1 <= first <= last <= own.size:
        raise InputError(
            f"the first rank has {own.size:,} cycles, not {first} to {last}", where="--cycles"
        )
    rows = own[first - 1 : last]
    windows, host = _windows_of(lanes, rows)
    what = f"of cycles {first} to {last}" if last > first else f"of cycle {first}"
    return _restricted(lanes, [(windows[0][0], windows[-1][1])], host, what)


def within_limit(lanes: TimelineLanes, max_spans: int) -> TimelineLanes:
    """The timeline as it is, or with the detail of as many whole cycles as the limit allows.

    Cycles are taken in turns: the next first one, the next slowest, the next most usual.

    Raises:
        InputError: There are too many spans and no cycles to choose from, or one is too many.
    """
    size = lanes.spans.size
    if size <= max_spans:
        return lanes
    candidates = _candidates(lanes)
    if not candidates.size or lanes.shown_ns is not None:
        raise InputError(
            f"the timeline has {size:,} spans, more than the limit of {max_spans:,}",
            next_step="Choose a part with --window or --cycles, or raise --max-spans.",
        )
    taken = _estimate(lanes, candidates, max_spans)
    while taken:
        rows = np.sort(candidates[:taken])
        what = (
            f"of {taken:,} of {int((lanes.cycles.group == 0).sum()):,} cycles "
            "(the first, the slowest and the most usual)"
        )
        shown = _restricted(lanes, *_windows_of(lanes, rows), what)
        if shown.spans.size <= max_spans:
            return shown
        taken -= 1
    raise InputError(
        f"not even one cycle of this timeline fits {max_spans:,} spans",
        next_step="Raise --max-spans, or choose a part of a cycle with --window.",
    )


def _candidates(lanes: TimelineLanes) -> Int64s:
    """Cycles of the first rank in the order in which they are chosen."""
    facts = lanes.cycles
    own = np.flatnonzero(facts.group == 0)
    kept = own[facts.state[own] == KEPT]
    rows = kept if kept.size else own
    if not rows.size:
        return rows
    period = facts.end_ns[rows] - facts.start_ns[rows]
    usual = np.argsort(np.abs(period - np.median(period)), kind="stable")
    turns = np.stack((rows, rows[np.argsort(-period, kind="stable")], rows[usual]), axis=1).ravel()
    _, first = np.unique(turns, return_index=True)
    return turns[np.sort(first)]


def _estimate(lanes: TimelineLanes, candidates: Int64s, max_spans: int) -> int:
    """How many of the candidates fit, by the spans that start in their windows."""
    overview = sum(lane.end - lane.first for lane in lanes.lanes if lane.kind in OVERVIEW)
    on_gpu = np.sort(_starts(lanes, _ON_GPU))
    on_host = np.sort(_starts(lanes, frozenset(KINDS) - _ON_GPU - OVERVIEW))

    def size(taken: int) -> int:
        gpu, host = map(_disjoint, _windows_of(lanes, np.sort(candidates[:taken])))
        return overview + _starting_in(on_gpu, gpu) + _starting_in(on_host, host)

    return bisect_right(range(1, candidates.size + 1), max_spans, key=size)


def _windows_of(
    lanes: TimelineLanes, rows: Int64s
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    facts = lanes.cycles
    ends = facts.end_ns[rows].tolist()
    gpu = list(zip(facts.start_ns[rows].tolist(), ends, strict=True))
    return gpu, list(zip(facts.host_start_ns[rows].tolist(), ends, strict=True))


def _starts(lanes: TimelineLanes, kinds: frozenset[str]) -> Int64s:
    """Starts of the spans on lanes of some kinds."""
    chosen = np.zeros(lanes.spans.size, bool)
    for lane in lanes.lanes:
        chosen[lane.first : lane.end] = lane.kind in kinds
    return lanes.spans.start_ns[chosen]


def _starting_in(starts: Int64s, windows: Intervals) -> int:
    """How many sorted starts lie in disjoint windows."""
    below = np.searchsorted(starts, (windows.start_ns, windows.end_ns))
    return int((below[1] - below[0]).sum())


def _restricted(
    lanes: TimelineLanes,
    windows: Sequence[tuple[int, int]],
    host_windows: Sequence[tuple[int, int]],
    what: str,
) -> TimelineLanes:
    """Keep what overlaps the windows; the host's begin earlier, where the work was launched."""
    gpu, host = _disjoint(windows), _disjoint(host_windows)
    keep = np.ones(lanes.spans.size, bool)
    kept_lanes, first = [], 0
    for lane in lanes.lanes:
        own = slice(lane.first, lane.end)
        if lane.kind not in OVERVIEW:
            spans = lanes.spans
            chosen = gpu if lane.kind in _ON_GPU else host
            keep[own] = _overlaps(spans.start_ns[own], spans.end_ns[own], chosen)
        if count := int(keep[own].sum()):
            kept_lanes.append(replace(lane, first=first, end=first + count))
            first += count
    note = (
        f"Ops, API calls and ranges are drawn {what}: {first:,} of {keep.size:,} spans. "
        "Cycles and phases are complete; hatched parts are not in this file."
    )
    shown = tuple(zip(gpu.start_ns.tolist(), gpu.end_ns.tolist(), strict=True))
    return replace(
        lanes,
        lanes=tuple(kept_lanes),
        spans=lanes.spans.take(keep),
        shown_ns=shown,
        notes=(note, *lanes.notes),
    )


def _disjoint(windows: Sequence[tuple[int, int]]) -> Intervals:
    start, end = np.array(windows, np.int64).reshape(-1, 2).T
    return union(Intervals(np.zeros(start.size, np.int64), start, end))


def _overlaps(start: Int64s, end: Int64s, windows: Intervals) -> NDArray[np.bool_]:
    place = np.searchsorted(windows.end_ns, start, "right")
    inside = place < windows.size
    begins = windows.start_ns[np.minimum(place, windows.size - 1)]
    return inside & ((begins < end) | (begins <= start))
