"""Cycles with the time in them, measured on the GPU or, without GPU work, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analyses.buckets import buckets_of, cycle_buckets, host_shapes
from traceanalyzer.analyses.gaps import CAUSES, explain_gaps
from traceanalyzer.analyses.host_time import BETWEEN_RANGES, time_between
from traceanalyzer.analyses.phase_time import (
    active_time,
    active_time_of_ops,
    cycle_time,
    phase_segments,
)
from traceanalyzer.assembly.timing import Timing
from traceanalyzer.phases.device_order import device_order
from traceanalyzer.phases.idle_time import idle_time
from traceanalyzer.phases.phased import OTHER

if TYPE_CHECKING:
    from traceanalyzer.analyses.host_time import HostWork
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace


def gpu_timing(phased: PhasedTrace) -> Timing:
    """Cycles of every rank of a trace with settled phases."""
    order = device_order(phased)
    gaps = explain_gaps(phased, order, idle_time(order, phased.cycles))
    shape = (len(phased.labels), len(CAUSES))
    active = active_time_of_ops(phased, order)
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
