"""Phases of a capture without GPU work, timed by the host's ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analyses.acceptance import accepted_by_bucket, accepted_by_cycle
from traceanalyzer.analyses.host_time import host_work
from traceanalyzer.assembly.buckets import Evidence, bucket_reports
from traceanalyzer.assembly.cycle_rows import KeptCycles, listed_cycles
from traceanalyzer.assembly.cycle_timing import host_timing
from traceanalyzer.assembly.ranks import host_rank_report, lane_names
from traceanalyzer.intervals import total_by
from traceanalyzer.phases.alignment import align_steps
from traceanalyzer.phases.spans import classify_ranges
from traceanalyzer.pipeline.found import Found, kept_cycles

if TYPE_CHECKING:
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.trace import Trace


def on_host(trace: Trace, rules: Rules) -> Found:
    """Measure every thread that opened phase ranges."""
    spans = classify_ranges(trace, rules)
    work = host_work(spans, trace.ranges["closed"].to_numpy())
    processes = trace.threads["process"].to_numpy()[work.threads]
    timing = host_timing(trace, spans, work)
    labels, lanes = len(timing.labels), range(processes.size)
    names = lane_names(trace, lanes, processes.tolist(), devices=False)
    place = work.pieces.lane * labels + work.label
    totals = total_by(place, processes.size * labels, work.pieces.duration_ns)
    host_ns = totals.reshape(processes.size, labels)
    alignment = align_steps(trace, spans)
    cycles = kept_cycles(spans, timing, processes[work.cycles.spans.lane], alignment)
    known = KeptCycles(
        lanes, [lanes], cycles["number"].to_numpy(), accepted_by_cycle(trace, cycles)
    )
    return Found(
        spans=spans,
        ranks=[host_rank_report(name, timing, host_ns[name.lane]) for name in names],
        buckets=bucket_reports(timing, Evidence(accepted_by_bucket(trace, cycles))),
        alignment=alignment,
        cycles=listed_cycles(timing, known),
    )
