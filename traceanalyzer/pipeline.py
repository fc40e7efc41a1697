"""From a Trace to a Report: the readable list of steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import traceanalyzer
from traceanalyzer.analyses.acceptance import acceptance_of, accepted_by_bucket
from traceanalyzer.analyses.buckets import cycle_buckets, host_buckets
from traceanalyzer.analyses.coverage import coverage_ledger
from traceanalyzer.analyses.cycle_launches import cycle_launches
from traceanalyzer.analyses.gaps import CAUSES, explain_gaps
from traceanalyzer.analyses.host_time import BETWEEN_RANGES, host_work, time_between
from traceanalyzer.analyses.kernel_classes import ROWS, busy_pieces, class_time
from traceanalyzer.analyses.launch_lead import host_lead
from traceanalyzer.analyses.longest_kernels import longest_kernels
from traceanalyzer.analyses.phase_time import cycle_time, phase_segments, phase_totals
from traceanalyzer.analyses.synchronisations import synchronisations
from traceanalyzer.analyses.trust import check_alignment, check_capture
from traceanalyzer.assembly.buckets import Evidence, bucket_reports
from traceanalyzer.assembly.instrumentation import instrumentation_of
from traceanalyzer.assembly.ranks import (
    LaneTables,
    capture_of,
    coverage,
    host_rank_report,
    lane_names,
    rank_report,
)
from traceanalyzer.assembly.timing import Timing
from traceanalyzer.intervals import total_by
from traceanalyzer.phases.alignment import align_steps, translated
from traceanalyzer.phases.phased import OTHER, settle_phases
from traceanalyzer.phases.rules import Rules
from traceanalyzer.phases.spans import classify_ranges
from traceanalyzer.progress import Progress, silent
from traceanalyzer.report import Clock, Report, Tool
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from traceanalyzer.phases.alignment import Alignment
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.report import BucketReport, Coverage, Instrumentation, RankReport
    from traceanalyzer.trace import Trace


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """What a user may choose: a file of phase rules, and what is known beside the capture."""

    phases_file: Path | None = None
    known: Known = field(default_factory=Known)

    def rules(self) -> Rules:
        """The phase rules to use.

        Raises:
            InputError: The rule file is wrong.
        """
        return Rules.shipped() if self.phases_file is None else Rules.from_file(self.phases_file)


def analyze(
    trace: Trace, options: AnalysisOptions | None = None, *, progress: Progress = silent
) -> Report:
    """Analyse one capture.

    Args:
        trace: What was recorded.
        options: Choices; the shipped phase rules when None.
        progress: Told about each stage.

    Returns:
        The report, timed on the GPU, or on the host when the capture holds no GPU work.
    """
    options = options or AnalysisOptions()
    rules = options.rules()
    on_gpu = trace.ops.height > 0
    found = _on_gpu(trace, rules, progress) if on_gpu else _on_host(trace, rules)
    report = Report(
        tool=Tool("traceanalyzer", traceanalyzer.__version__),
        capture=capture_of(trace, "gpu" if on_gpu else "host"),
        clock=Clock("ns", "each file's own clock; no figure compares times of two files"),
        coverage=found.coverage,
        ranks=found.ranks,
        buckets=found.buckets,
        acceptance=acceptance_of(trace),
        instrumentation=found.instrumentation,
        trust=[
            *check_capture(trace, found.ranks, found.instrumentation),
            *check_alignment(found.alignment),
        ],
    )
    return judged(report, options.known)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the analyses of one time base found."""

    ranks: list[RankReport]
    buckets: list[BucketReport]
    alignment: Alignment
    coverage: Coverage | None = None
    instrumentation: Instrumentation | None = None


def _on_gpu(trace: Trace, rules: Rules, progress: Progress) -> _Found:
    progress("attributing", 0.0)
    phased = settle_phases(trace, rules)
    progress("measuring", 0.4)
    collected = phased.collected
    segments = phase_segments(phased.ops.take(collected), phased.label[collected], phased.cycles)
    gaps = explain_gaps(phased, segments)
    shape = (len(phased.labels), len(CAUSES))
    timing = Timing(
        phased.labels,
        CAUSES,
        phased.cycles,
        cycle_time(phased.cycles, segments, gaps, shape),
        cycle_buckets(phased),
    )
    progress("measuring", 0.8)
    tables = LaneTables(
        phase_totals(phased, segments),
        gaps,
        host_lead(phased),
        coverage_ledger(phased),
        np.bincount(phased.ops.lane[~phased.collected], minlength=phased.ranks.size),
    )
    names = lane_names(trace, phased.ranks.number, phased.ranks.process, devices=True)
    process = np.array(phased.ranks.process)[phased.cycles.spans.lane]
    alignment = align_steps(trace, phased.spans)
    evidence = Evidence(
        accepted_by_bucket(trace, _kept_cycles(phased.spans, timing, process, alignment)),
        cycle_launches(phased),
        _class_names(class_time(phased, busy_pieces(phased))),
        longest_kernels(phased, np.where(timing.kept(), timing.buckets["bucket"].to_numpy(), -1)),
    )
    progress("measuring", 1.0)
    return _Found(
        [rank_report(name, timing, tables) for name in names],
        bucket_reports(timing, evidence),
        alignment,
        coverage(tables.coverage, int(tables.not_collected.sum())),
        instrumentation_of(timing, synchronisations(phased)),
    )


def _class_names(table: pl.DataFrame) -> pl.DataFrame:
    """With the classes' names for their places."""
    return table.with_columns(
        pl.col("class").replace_strict(dict(enumerate(ROWS)), return_dtype=pl.String)
    )


def _kept_cycles(
    spans: Spans, timing: Timing, process: NDArray[np.int64], alignment: Alignment
) -> pl.DataFrame:
    """Process, number and bucket of the cycles that may be averaged; `process` is of each cycle."""
    cycles = pl.DataFrame(
        {
            "process": pl.Series(process, dtype=pl.Int32),
            "number": spans.number[timing.cycles.forward],
            "bucket": timing.buckets["bucket"],
        }
    )
    return translated(cycles.filter(pl.Series(timing.kept())), alignment)


def _on_host(trace: Trace, rules: Rules) -> _Found:
    spans = classify_ranges(trace, rules)
    work = host_work(spans, trace.ranges["closed"].to_numpy())
    labels = (*spans.phases, OTHER)
    processes = trace.threads["process"].to_numpy()[work.threads]
    segments = phase_segments(work.pieces, work.label, work.cycles)
    between = time_between(segments, work.cycles, len(labels) - 1)
    process = processes[work.cycles.spans.lane]
    timing = Timing(
        labels,
        BETWEEN_RANGES,
        work.cycles,
        cycle_time(work.cycles, segments, between, (len(labels), len(BETWEEN_RANGES))),
        host_buckets(trace, spans, work.cycles, process),
    )
    names = lane_names(trace, range(processes.size), processes.tolist(), devices=False)
    totals = total_by(
        work.pieces.lane * len(labels) + work.label,
        len(processes) * len(labels),
        work.pieces.duration_ns,
    ).reshape(len(processes), len(labels))
    ranks = [host_rank_report(name, timing, totals[name.lane]) for name in names]
    alignment = align_steps(trace, spans)
    cycles = _kept_cycles(spans, timing, process, alignment)
    evidence = Evidence(accepted_by_bucket(trace, cycles))
    return _Found(ranks, bucket_reports(timing, evidence), alignment)
