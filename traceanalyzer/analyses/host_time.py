"""Phases timed on the host, for captures whose ranges have no GPU work to time.

At each instant of a thread the innermost phase range counts; time between phases is "other".
Host time says what the CPU did, not what the GPU would have needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers, Intervals, Packing
from traceanalyzer.phases.cycles import (
    Cycles,
    between_forwards,
    forward_of_span,
    is_prefill_span,
    with_states,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.intervals import Segments
    from traceanalyzer.phases.spans import Spans

BETWEEN_RANGES: Final = ("between ranges",)
"""The one cause of host time outside every phase range."""


@dataclass(frozen=True, slots=True)
class HostWork:
    """What threads did, by phase.

    Attributes:
        threads: Row in `trace.threads` of each lane: the threads that opened phase ranges.
        pieces: Stretches of a thread in one phase.
        label: Phase of each, place in the spans' phases.
        cycles: From the start of a target-forward range to the start of the thread's next.
    """

    threads: NDArray[np.int64]
    pieces: Intervals
    label: NDArray[np.int64]
    cycles: Cycles


def host_work(spans: Spans, closed: NDArray[np.bool_]) -> HostWork:
    """Cut the threads' time by innermost phase range and find the cycles.

    Args:
        spans: Meaning of the ranges.
        closed: Whether the capture states the end of each.
    """
    rows = spans.rows(spans.phase >= 0)
    threads, lane = np.unique(spans.intervals.lane[rows], return_inverse=True)
    ranges = replace(spans.intervals.take(rows), lane=lane)
    pieces = _elementary(ranges)
    found = Containers(ranges).innermost(pieces)
    held = found >= 0
    cycles = _cycles(spans, rows, ranges, closed[rows])
    return HostWork(threads, pieces.take(held), spans.phase[rows][found[held]], cycles)


def time_between(segments: Segments, cycles: Cycles, label: int) -> pl.DataFrame:
    """Stretches of the segments in which no phase range was open, as gaps of one label.

    Returns:
        One row each: lane, cycle (-1 outside), label, cause (0: between ranges), ns.
    """
    between = segments.spans.take(segments.active == 0)
    return pl.DataFrame(
        {
            "lane": between.lane,
            "cycle": cycles.at(between),
            "label": np.full(between.size, label),
            "cause": np.zeros(between.size, np.int64),
            "ns": between.duration_ns,
        }
    )


def _elementary(ranges: Intervals) -> Intervals:
    """Stretches between successive starts and ends on each lane."""
    if not ranges.size:
        return ranges
    lanes = int(ranges.lane.max()) + 1
    packing = Packing.covering(lanes, (ranges.start_ns, ranges.end_ns))
    keys = np.unique(
        np.concatenate(
            (
                packing.key(ranges.lane, ranges.start_ns),
                packing.key(ranges.lane, ranges.end_ns),
            )
        )
    )
    pieces = Intervals(packing.lane(keys[:-1]), packing.time(keys[:-1]), packing.time(keys[1:]))
    return pieces.take(packing.lane(keys[1:]) == pieces.lane)


def _cycles(
    spans: Spans, rows: NDArray[np.int64], ranges: Intervals, closed: NDArray[np.bool_]
) -> Cycles:
    """Cycles by lane and start; `ranges` are the phase ranges at `rows`, on dense lanes."""
    forward = forward_of_span(spans)[rows]
    first = np.flatnonzero(forward == rows)  # ranges that are a forward, not a part of one
    first = first[np.lexsort((ranges.start_ns[first], ranges.lane[first]))]
    cycles = between_forwards(ranges.take(first), rows[first], ranges)
    prefill = _holding(cycles, ranges.take(is_prefill_span(spans)[rows]))
    unclosed = _holding(cycles, ranges.take(~closed)) | ~closed[first]
    return with_states(cycles, spans, prefill, unclosed)


def _holding(cycles: Cycles, ranges: Intervals) -> NDArray[np.bool_]:
    """Which cycles one of the ranges begins in."""
    held = np.zeros(cycles.spans.size, bool)
    hit = cycles.at(ranges)
    held[hit[hit >= 0]] = True
    return held
