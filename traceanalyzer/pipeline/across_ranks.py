"""What is told from the measurements of all ranks together; each is computed once, when needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from traceanalyzer.allocator import give_back_freed_memory
from traceanalyzer.analyses.acceptance import accepted_by_bucket, accepted_by_cycle
from traceanalyzer.analyses.buckets import buckets_of
from traceanalyzer.analyses.collective_wait import Collectives, collective_waits
from traceanalyzer.analyses.gaps import CAUSES
from traceanalyzer.analyses.graph_table import Graphs, graph_table
from traceanalyzer.analyses.host_time import BETWEEN_RANGES
from traceanalyzer.analyses.kernel_classes import longest_names
from traceanalyzer.analyses.kernel_slots import KernelRuns, kernel_slots
from traceanalyzer.analyses.longest_kernels import longest_kernels
from traceanalyzer.analyses.phase_time import CycleTime
from traceanalyzer.analyses.synchronisations import SCOPES
from traceanalyzer.assembly.buckets import Evidence, bucket_order, bucket_reports
from traceanalyzer.assembly.class_waits import all_class_waits, class_waits
from traceanalyzer.assembly.cycle_rows import KeptCycles, listed_cycles
from traceanalyzer.assembly.graphs import graph_reports, phase_parts
from traceanalyzer.assembly.instrumentation import instrumentation_of
from traceanalyzer.assembly.kernel_totals import KERNELS_LISTED, kernel_rows
from traceanalyzer.assembly.kernel_work import KernelTables, kernel_work
from traceanalyzer.assembly.ranks import (
    LaneTables,
    coverage,
    host_rank_report,
    lane_names,
    rank_report,
)
from traceanalyzer.assembly.shared_cycles import lost_elsewhere
from traceanalyzer.assembly.skew import SkewSources, group_skew
from traceanalyzer.assembly.timing import Timing
from traceanalyzer.intervals import Intervals, total_by
from traceanalyzer.phases.alignment import align_steps, translated
from traceanalyzer.phases.attribution import INFERRED, METHODS
from traceanalyzer.phases.cycles import EDGE, Cycles
from traceanalyzer.phases.parallel_groups import parallel_groups
from traceanalyzer.phases.ranks import find_ranks
from traceanalyzer.pipeline.measured import GPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.analyses.collective_wait import CollectiveWaits
    from traceanalyzer.phases.alignment import Alignment
    from traceanalyzer.phases.parallel_groups import ParallelGroup
    from traceanalyzer.phases.ranks import Ranks
    from traceanalyzer.pipeline.measured import Measured
    from traceanalyzer.report import GroupSkew, RankReport

    Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class AcrossRanks:
    """The measurement of a whole capture, and what follows from it."""

    measured: Measured

    @cached_property
    def ranks(self) -> Ranks:
        """The lanes: ranks, or on the host threads."""
        return find_ranks(self.measured.trace)

    @cached_property
    def process(self) -> Int64s:
        """Process of each lane."""
        return _ints(self.measured.tables.lanes["process"])

    @cached_property
    def timing(self) -> Timing:
        """Cycles with the time in them."""
        cycles = self.measured.tables.cycles
        lane, start, end, state = (
            _ints(cycles[name]) for name in ("lane", "start_ns", "end_ns", "state")
        )
        nowhere = np.full(lane.size, -1)  # ranges are not joined
        causes = CAUSES if self.measured.time_base == GPU else BETWEEN_RANGES
        return Timing(
            self.measured.labels,
            causes,
            Cycles(Intervals(lane, start, end), nowhere, state),
            self._time(lane.size, len(causes)),
            buckets_of(self.measured.trace, self._shapes()),
        )

    def _shapes(self) -> pl.DataFrame:
        cycles = self.measured.tables.cycles
        return cycles.select(
            pl.Series("process", self.process[_ints(cycles["lane"])], pl.Int32),
            *("number", "kind", "named_batch"),
            graph="graph_text",
        )

    def _time(self, cycles: int, causes: int) -> CycleTime:
        tables, labels = self.measured.tables, len(self.measured.labels)
        inside = tables.gaps.filter(pl.col("cycle") >= 0)
        cycle, label, cause = (_ints(inside[name]) for name in ("cycle", "label", "cause"))
        place = (cycle * labels + label) * causes + cause
        gap = total_by(place, cycles * labels * causes, _ints(inside["ns"]))
        gap = gap.reshape(cycles, labels, causes)
        place = _ints(tables.exclusive["cycle"]) * labels + _ints(tables.exclusive["label"])
        alone = total_by(place, cycles * labels, _ints(tables.exclusive["ns"]))
        window = alone.reshape(cycles, labels) + gap.sum(axis=2)
        return CycleTime(window, _ints(tables.cycles["overlap_ns"]), gap)

    @cached_property
    def bucket(self) -> Int64s:
        """Bucket of each cycle."""
        return _ints(self.timing.buckets["bucket"])

    @cached_property
    def alignment(self) -> Alignment:
        """How the workers' cycle numbers translate into the scheduler's."""
        return align_steps(self.measured.trace, self.measured.tables.steps)

    @cached_property
    def kept(self) -> pl.DataFrame:
        """Process, number and bucket of the cycles that may be averaged."""
        cycles = self._shapes().select("process", "number", bucket=self.timing.buckets["bucket"])
        return translated(cycles.filter(pl.Series(self.timing.kept())), self.alignment)

    @cached_property
    def averaged(self) -> Timing:
        """The timing, in which only cycles that their whole replica kept count as kept."""
        kept, cycles = np.flatnonzero(self.timing.kept()), self.timing.cycles
        lost = lost_elsewhere(
            self.bucket[kept], cycles.spans.lane[kept], _ints(self.kept["number"]), self._replicas()
        )
        state = cycles.state.copy()
        state[kept[lost]] = EDGE
        return replace(self.timing, cycles=replace(cycles, state=state))

    def _replicas(self) -> Int64s:
        """Of each lane: the data-parallel rank, whose tensor ranks and stages run its cycles."""
        replica = np.zeros(self.process.size, np.int64)
        for group in self.groups:
            replica[list(group.lanes)] = group.dp_rank or 0
        return replica

    @cached_property
    def groups(self) -> list[ParallelGroup]:
        """Tensor-parallel groups."""
        return parallel_groups(self.measured.trace, self.ranks)

    def _waits(self) -> Iterator[CollectiveWaits]:
        """Waiting in the collectives of each group."""
        beside = self.measured.tables.beside
        found = Collectives(
            self.measured.tables.collectives,
            Intervals(*(_ints(beside[name]) for name in ("lane", "start_ns", "end_ns"))),
        )
        files = self.measured.trace.processes["file"].gather(self.process).to_list()
        for group in self.groups:
            give_back_freed_memory()
            yield collective_waits(found, group, files)

    def found(self) -> dict[str, Any]:
        """The fields of the report that tell of ranks and cycles, by name."""
        listed = listed_cycles(self.timing, self._known_of_cycles())
        return {
            **(self._gpu() if self.measured.time_base == GPU else self._host()),
            "cycle_phases": listed.phases,
            "cycle_rows": listed.rows,
            "cycle_rows_of": listed.of,
        }

    def _known_of_cycles(self) -> KeptCycles:
        numbers: Sequence[int] = range(self.process.size)
        groups: Sequence[Sequence[int]] = [range(self.process.size)]
        if self.measured.time_base == GPU:
            numbers, groups = self.ranks.number, [group.lanes for group in self.groups]
        accepted = accepted_by_cycle(self.measured.trace, self.kept)
        return KeptCycles(numbers, groups, self.kept["number"].to_numpy(), accepted)

    def _host(self) -> dict[str, Any]:
        totals, lanes = self.measured.tables.totals, range(self.process.size)
        labels = len(self.measured.labels)
        place = _ints(totals["lane"]) * labels + _ints(totals["label"])
        host_ns = total_by(place, len(lanes) * labels, _ints(totals["busy_ns"]))
        host_ns = host_ns.reshape(len(lanes), labels)
        names = lane_names(self.measured.trace, lanes, self.process.tolist(), devices=False)
        accepted = accepted_by_bucket(self.measured.trace, self.kept)
        return {
            "coverage": None,
            "ranks": [host_rank_report(name, self.timing, host_ns[name.lane]) for name in names],
            "buckets": bucket_reports(self.timing, Evidence(accepted), bucket_order(self.timing)),
        }

    def _gpu(self) -> dict[str, Any]:
        tables, timing = self.measured.tables, self.timing
        graphs = graph_table(Graphs(tables.graphs, tables.replays), self.bucket)
        texts = self.measured.trace.names["text"]
        kernels = longest_names(tables.kernels, texts, KERNELS_LISTED)
        ledger = _ledger(tables.coverage)
        skew, waits = self._waited()
        give_back_freed_memory()
        return {
            "coverage": coverage(ledger, int(tables.lanes["not_collected"].sum())),
            "ranks": self._rank_reports(ledger),
            "buckets": bucket_reports(self.averaged, self._evidence(waits), bucket_order(timing)),
            "graphs": graph_reports(graphs, timing, self.ranks.number),
            "parts": phase_parts(tables.parts, timing, bucket_order(timing)),
            "skew": skew,
            "instrumentation": instrumentation_of(timing, _calls(tables.syncs)),
            "kernels": kernel_rows(kernels, timing.labels, texts),
        }

    def _rank_reports(self, ledger: pl.DataFrame) -> list[RankReport]:
        tables = self.measured.tables
        lost = _ints(tables.lanes["not_collected"])
        of_lanes = LaneTables(tables.totals, tables.gaps, tables.leads, ledger, lost)
        names = lane_names(self.measured.trace, self.ranks.number, self.ranks.process, devices=True)
        return [rank_report(name, self.timing, of_lanes) for name in names]

    def _evidence(self, waits: pl.DataFrame) -> Evidence:
        """What is known of cycles beside their times: acceptance, launches, kernel classes."""
        tables, texts = self.measured.tables, self.measured.trace.names["text"]
        bucket = np.where(self.averaged.kept(), self.bucket, -1)
        runs = KernelRuns(tables.run_cycles, tables.runs, tables.run_times, tables.late)
        kernels = KernelTables(
            tables.launches,
            tables.classes,
            longest_kernels(tables.cycle_kernels, bucket, texts),
            tables.replayed,
            kernel_slots(runs, bucket, texts),
            waits,
        )
        accepted = accepted_by_bucket(self.measured.trace, self.kept)
        return Evidence(accepted, kernel_work(self.averaged, kernels))

    def _waited(self) -> tuple[list[GroupSkew], pl.DataFrame]:
        """Waiting between the ranks of each group, and in each class; see `class_waits`."""
        idle = _ints(self.measured.tables.lanes["idle_cycles"])
        sources = SkewSources(self.ranks.number, self.measured.tables.classes, idle)
        skews, of_classes = [], []
        for waits in self._waits():  # one group's ops at a time
            of_classes.append(class_waits(waits))
            skews.append(group_skew(self.timing, sources, waits))
            del waits
        return [skew for skew in skews if skew is not None], all_class_waits(of_classes)


def _ints(column: pl.Series) -> Int64s:
    return column.cast(pl.Int64).to_numpy()


def _ledger(coverage: pl.DataFrame) -> pl.DataFrame:
    """The coverage ledgers of all parts: with "inferred" on every lane if it is on any."""
    method = pl.Enum(METHODS)
    if not (coverage["method"] == METHODS[INFERRED]).any():
        return coverage
    whole = coverage.select("lane").unique().join(pl.DataFrame({"method": METHODS}), how="cross")
    found = whole.join(coverage, on=["lane", "method"], how="left").fill_null(0)
    return found.sort("lane", pl.col("method").cast(method))


def _calls(syncs: pl.DataFrame) -> pl.DataFrame:
    """The calls of all parts, see `synchronisations`."""
    keys = ("label", "scope")
    summed = syncs.group_by(keys).agg(pl.sum("calls", "host_ns"))
    return summed.sort("label", pl.col("scope").cast(pl.Enum(SCOPES)))
