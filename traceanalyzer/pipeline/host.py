"""Processes without GPU work, measured by the host's ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.analyses.buckets import host_shapes
from traceanalyzer.analyses.host_time import BETWEEN_RANGES, host_work, time_between
from traceanalyzer.analyses.phase_time import active_time, cycle_time, phase_segments
from traceanalyzer.intervals import total_by
from traceanalyzer.pipeline.figures import cycle_tables

if TYPE_CHECKING:
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace


def measured_on_host(trace: Trace, spans: Spans) -> dict[str, pl.DataFrame]:
    """The tables of every thread that opened phase ranges, by their names in `Tables`."""
    work = host_work(spans, trace.ranges["closed"].to_numpy())
    processes = trace.threads["process"].to_numpy()[work.threads].astype(np.int64)
    labels, cycles = len(spans.phases) + 1, work.cycles
    segments = phase_segments(work.pieces, work.label, cycles)
    between = time_between(segments, cycles, labels - 1)
    active = active_time(cycles, segments)
    time = cycle_time(cycles.spans.size, active, between, (labels, len(BETWEEN_RANGES)))
    place = work.pieces.lane * labels + work.label
    busy_ns = total_by(place, processes.size * labels, work.pieces.duration_ns)
    lane, label = np.divmod(np.arange(busy_ns.size), labels)
    shapes = host_shapes(spans, cycles, processes[cycles.spans.lane])
    return {
        "lanes": pl.DataFrame({"process": processes}),
        **cycle_tables(cycles, shapes, time),
        "gaps": between.group_by("lane", "cycle", "label", "cause")
        .agg(pl.sum("ns"))
        .sort("lane", "cycle", "label", "cause"),
        "totals": pl.DataFrame({"lane": lane, "label": label, "busy_ns": busy_ns}),
    }
