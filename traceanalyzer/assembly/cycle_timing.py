"""Cycles with the time in them, measured on the GPU or, without GPU work, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analyses.buckets import buckets_of, cycle_buckets, host_shapes
from traceanalyzer.analyses.gaps import CAUSES
from traceanalyzer.analyses.host_time import BETWEEN_RANGES, time_between
from traceanalyzer.analyses.phase_time import active_time, cycle_time, phase_segments
from traceanalyzer.assembly.timing import Timing
from traceanalyzer.phases.phased import OTHER

if TYPE_CHECKING:
    import polars as pl

    from traceanalyzer.analyses.host_time import HostWork
    from traceanalyzer.intervals import Segments
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace


def gpu_timing(phased: PhasedTrace, segments: Segments, gaps: pl.DataFrame) -> Timing:
    """Cycles of every rank.

    Args:
        phased: A trace with settled phases.
        segments: Its timeline by the set of phases that run.
        gaps: Its idle time by cause.
    """
    shape = (len(phased.labels), len(CAUSES))
    active = active_time(phased.cycles, segments)
    time = cycle_time(phased.cycles.spans.size, active, gaps, shape)
    return Timing(phased.labels, CAUSES, phased.cycles, time, cycle_buckets(phased))


def host_timing(trace: Trace, spans: Spans, work: HostWork) -> Timing:
    """Cycles of every thread that opened phase ranges.

    Args:
        trace: The tables.
        spans: Meaning of the ranges.
        work: What the threads did.
    """
    labels = (*spans.phases, OTHER)
    segments = phase_segments(work.pieces, work.label, work.cycles)
    between = time_between(segments, work.cycles, len(labels) - 1)
    active = active_time(work.cycles, segments)
    shape = (len(labels), len(BETWEEN_RANGES))
    time = cycle_time(work.cycles.spans.size, active, between, shape)
    process = trace.threads["process"].to_numpy()[work.threads][work.cycles.spans.lane]
    buckets = buckets_of(trace, host_shapes(spans, work.cycles, process))
    return Timing(labels, BETWEEN_RANGES, work.cycles, time, buckets)
