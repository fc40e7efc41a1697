"""Phases of a capture timed on its GPUs: every analysis once, in the order in which they build."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.analyses.acceptance import accepted_by_bucket, accepted_by_cycle
from traceanalyzer.analyses.collective_wait import collective_waits
from traceanalyzer.analyses.coverage import coverage_ledger
from traceanalyzer.analyses.cycle_launches import cycle_launches
from traceanalyzer.analyses.gaps import explain_gaps
from traceanalyzer.analyses.graph_table import graph_table
from traceanalyzer.analyses.idle_ranks import idle_cycles
from traceanalyzer.analyses.kernel_classes import ROWS, busy_pieces, class_time, kernel_totals
from traceanalyzer.analyses.kernel_slots import kernel_slots
from traceanalyzer.analyses.launch_lead import host_lead
from traceanalyzer.analyses.longest_kernels import longest_kernels
from traceanalyzer.analyses.phase_time import phase_segments, phase_totals
from traceanalyzer.analyses.replayed_ops import replayed_ops
from traceanalyzer.analyses.sub_phases import sub_phase_time
from traceanalyzer.analyses.synchronisations import synchronisations
from traceanalyzer.assembly.buckets import Evidence, bucket_order, bucket_reports
from traceanalyzer.assembly.class_waits import class_waits
from traceanalyzer.assembly.cycle_rows import KeptCycles, listed_cycles
from traceanalyzer.assembly.cycle_timing import gpu_timing
from traceanalyzer.assembly.graphs import graph_reports, phase_parts
from traceanalyzer.assembly.inference import inference_of
from traceanalyzer.assembly.instrumentation import instrumentation_of
from traceanalyzer.assembly.kernel_slots import SLOT_PHASES
from traceanalyzer.assembly.kernel_totals import KERNELS_LISTED, kernel_rows
from traceanalyzer.assembly.kernel_work import KernelTables, kernel_work
from traceanalyzer.assembly.ranks import LaneTables, coverage, lane_names, rank_report
from traceanalyzer.assembly.skew import SkewSources, group_skews
from traceanalyzer.phases.alignment import align_steps
from traceanalyzer.phases.carried_layers import with_carried_places
from traceanalyzer.phases.parallel_groups import parallel_groups
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.spans import classify_ranges
from traceanalyzer.pipeline.found import Found, kept_cycles

if TYPE_CHECKING:
    from traceanalyzer.analyses.collective_wait import CollectiveWaits
    from traceanalyzer.analyses.kernel_classes import BusyPieces
    from traceanalyzer.assembly.timing import Timing
    from traceanalyzer.intervals import Segments
    from traceanalyzer.phases.alignment import Alignment
    from traceanalyzer.phases.parallel_groups import ParallelGroup
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.progress import Progress
    from traceanalyzer.report import GroupSkew
    from traceanalyzer.trace import Trace


def on_gpu(
    trace: Trace,
    rules: Rules,
    progress: Progress,
    *,
    infer: bool,
    known: PhasedTrace | None = None,
) -> Found:
    """Measure every rank.

    Args:
        trace: What was recorded; it holds GPU work.
        rules: What names of ranges mean.
        progress: Told about each stage.
        infer: Whether to infer phases where no range means one.
        known: Another capture that tells draft steps and layers of the same server.
    """
    progress("attributing", 0.0)
    phased = with_carried_places(settle_phases(trace, rules, infer=infer), known)
    progress("measuring", 0.4)
    measured = _measured(phased)
    progress("measuring", 0.8)
    tables = _lane_tables(measured)
    inference = inference_of(phased)
    names = lane_names(trace, phased.ranks.number, phased.ranks.process, devices=True)
    found = Found(
        # What was inferred is no range of the recording.
        spans=classify_ranges(trace, rules) if inference and inference.inferred else phased.spans,
        ranks=[rank_report(name, measured.timing, tables) for name in names],
        buckets=bucket_reports(measured.timing, _evidence(measured)),
        alignment=measured.alignment,
        cycles=listed_cycles(measured.timing, _known_of_cycles(measured)),
        phased=phased,
        coverage=coverage(tables.coverage, int(tables.not_collected.sum())),
        instrumentation=instrumentation_of(measured.timing, synchronisations(phased)),
        graphs=graph_reports(
            graph_table(phased, measured.segments, measured.bucket),
            measured.timing,
            phased.ranks.number,
        ),
        parts=phase_parts(sub_phase_time(phased), measured.timing, bucket_order(measured.timing)),
        skew=_skew(measured),
        inference=inference,
        kernels=kernel_rows(
            kernel_totals(phased, KERNELS_LISTED, measured.pieces),
            phased.labels,
            phased.trace.names["text"],
        ),
    )
    progress("measuring", 1.0)
    return found


@dataclass(frozen=True)
class _Measured:
    """What several parts of the report are made of; each is computed once, when it is needed."""

    phased: PhasedTrace
    segments: Segments
    gaps: pl.DataFrame
    timing: Timing

    @property
    def bucket(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Bucket of each cycle."""
        return self.timing.buckets["bucket"].to_numpy()

    @cached_property
    def alignment(self) -> Alignment:
        """How the workers' cycle numbers translate into the scheduler's."""
        return align_steps(self.phased.trace, self.phased.spans)

    @cached_property
    def kept(self) -> pl.DataFrame:
        """The cycles that may be averaged."""
        process = np.array(self.phased.ranks.process)[self.phased.cycles.spans.lane]
        return kept_cycles(self.phased.spans, self.timing, process, self.alignment)

    @cached_property
    def pieces(self) -> BusyPieces:
        """Busy time, divided among the ops."""
        return busy_pieces(self.phased)

    @cached_property
    def classes(self) -> pl.DataFrame:
        """Busy time by cycle, phase and kernel class."""
        return _class_names(class_time(self.phased, self.pieces))

    @cached_property
    def groups(self) -> list[ParallelGroup]:
        """Tensor-parallel groups."""
        return parallel_groups(self.phased.trace, self.phased.ranks)

    @cached_property
    def waits(self) -> list[CollectiveWaits]:
        """Waiting in the collectives of each group."""
        return [collective_waits(self.phased, group) for group in self.groups]


def _measured(phased: PhasedTrace) -> _Measured:
    timed = phased.collected
    segments = phase_segments(phased.ops.take(timed), phased.label[timed], phased.cycles)
    gaps = explain_gaps(phased, segments)
    return _Measured(phased, segments, gaps, gpu_timing(phased, segments, gaps))


def _lane_tables(measured: _Measured) -> LaneTables:
    phased = measured.phased
    return LaneTables(
        phase_totals(phased, measured.segments),
        measured.gaps,
        host_lead(phased),
        coverage_ledger(phased),
        np.bincount(phased.ops.lane[~phased.collected], minlength=phased.ranks.size),
    )


def _evidence(measured: _Measured) -> Evidence:
    """What is known of cycles beside their times: acceptance, launches, kernel classes."""
    phased, timing = measured.phased, measured.timing
    kept_bucket = np.where(timing.kept(), measured.bucket.astype(np.int64), -1)
    class_of_op = measured.pieces.class_of_op
    tables = KernelTables(
        cycle_launches(phased),
        measured.classes,
        longest_kernels(phased, kept_bucket, class_of_op),
        _class_names(replayed_ops(phased, class_of_op)),
        kernel_slots(phased, kept_bucket, measured.pieces, np.isin(phased.labels, SLOT_PHASES)),
        class_waits(measured.waits, class_of_op),
    )
    accepted = accepted_by_bucket(phased.trace, measured.kept)
    return Evidence(accepted, kernel_work(timing, tables))


def _known_of_cycles(measured: _Measured) -> KeptCycles:
    phased = measured.phased
    return KeptCycles(
        phased.ranks.number,
        [group.lanes for group in measured.groups],
        measured.kept["number"].to_numpy(),
        accepted_by_cycle(phased.trace, measured.kept),
    )


def _skew(measured: _Measured) -> list[GroupSkew]:
    """Waiting between the ranks of each group."""
    phased = measured.phased
    idle = idle_cycles(phased)
    sources = SkewSources(measured.waits, phased.ranks.number, measured.classes, idle)
    return group_skews(measured.timing, sources)


def _class_names(table: pl.DataFrame) -> pl.DataFrame:
    """With the classes' names for their places."""
    return table.with_columns(
        pl.col("class").replace_strict(dict(enumerate(ROWS)), return_dtype=pl.String)
    )
