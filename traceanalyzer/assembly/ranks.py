"""Each rank of the report, and what was captured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.assembly.timing import gaps_by_cause, mean_of, spread
from traceanalyzer.intervals import total_by
from traceanalyzer.phases.cycles import DUMMY, EDGE, INTERRUPTED, KEPT, WARM_UP
from traceanalyzer.phases.rules import is_prompt_work
from traceanalyzer.report import (
    Capture,
    CaptureFile,
    Coverage,
    CyclesReport,
    Device,
    Dropped,
    HostLead,
    MethodShare,
    PhaseReport,
    RankReport,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.assembly.timing import Timing
    from traceanalyzer.trace import Trace


@dataclass(frozen=True, slots=True)
class LaneTables:
    """Per-lane results of the GPU analyses: totals, gaps, host lead, coverage."""

    totals: pl.DataFrame
    gaps: pl.DataFrame
    lead: pl.DataFrame
    coverage: pl.DataFrame
    not_collected: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LaneName:
    """Who a lane is."""

    lane: int
    rank: int
    process_id: int
    process_name: str | None
    device: Device | None


def capture_of(trace: Trace, counts: pl.DataFrame, time_base: str) -> Capture:
    """The files of a trace and the number of rows in them, which are counted by process."""
    rows = trace.files.drop("file").iter_rows(named=True)
    return Capture(
        files=[CaptureFile(**row) for row in rows],
        time_base=time_base,
        ops=int(counts["ops"].sum()),
        launches=int(counts["launches"].sum()),
        ranges=int(counts["ranges"].sum()),
    )


def rank_report(name: LaneName, timing: Timing, tables: LaneTables) -> RankReport:
    """One rank timed on the GPU."""
    lane = pl.col("lane") == name.lane
    kept = timing.kept() & (timing.cycles.spans.lane == name.lane)
    gaps = _gap_totals(timing, tables.gaps.filter(lane))
    leads = {
        row["label"]: HostLead(row["p5_ns"], row["p50_ns"])
        for row in tables.lead.filter(lane).iter_rows(named=True)
    }
    phases = []
    for row in tables.totals.filter(lane).drop("lane").iter_rows(named=True):
        label = row.pop("label")
        phases.append(
            PhaseReport(
                phase=timing.labels[label],
                **row,
                window_ns_per_cycle=spread(timing.time.window[kept, label]),
                gaps=gaps_by_cause(timing, gaps[label], mean_of(timing.time.gap[kept, label])),
                host_lead_ns=leads.get(label),
            )
        )
    own = coverage(tables.coverage.filter(lane), int(tables.not_collected[name.lane]))
    return _rank(name, timing, own, phases)


def host_rank_report(name: LaneName, timing: Timing, host_ns: NDArray[np.int64]) -> RankReport:
    """One thread timed on the host; `host_ns` is the time in each label over the whole trace."""
    kept = timing.kept() & (timing.cycles.spans.lane == name.lane)
    phases = [
        PhaseReport(
            phase=timing.labels[label],
            **dict.fromkeys(_OP_COUNTS, 0),
            summed_ns=int(total),
            busy_ns=int(total),
            exclusive_ns=int(total),
            overlap_ns=0,
            window_ns_per_cycle=spread(timing.time.window[kept, label]),
            gaps=[],
            host_lead_ns=None,
        )
        for label, total in enumerate(host_ns)
        if total or timing.time.window[kept, label].any()
    ]
    return _rank(name, timing, Coverage(0, 0.0, 0, []), phases)


_OP_COUNTS = (
    "ops",
    "kernels",
    "kernel_ns",
    "graph_rows",
    "graph_row_ns",
    "launches",
    "graph_launches",
)


def _rank(
    name: LaneName, timing: Timing, ledger: Coverage, phases: list[PhaseReport]
) -> RankReport:
    return RankReport(
        rank=name.rank,
        process_id=name.process_id,
        process_name=name.process_name,
        device=name.device,
        coverage=ledger,
        cycles=_cycles(name.lane, timing),
        phases=phases,
    )


def _cycles(lane: int, timing: Timing) -> CyclesReport:
    own = timing.cycles.spans.lane == lane
    count = np.bincount(timing.cycles.state[own], minlength=5)
    period = timing.cycles.spans.duration_ns
    interrupted = own & (timing.cycles.state == INTERRUPTED)
    prefill = [place for place, label in enumerate(timing.labels) if is_prompt_work(label)]
    return CyclesReport(
        kept=int(count[KEPT]),
        dropped=Dropped(
            warm_up=int(count[WARM_UP]),
            edge=int(count[EDGE]),
            interrupted=int(count[INTERRUPTED]),
            dummy=int(count[DUMMY]),
        ),
        period_ns=spread(period[own & timing.kept()]),
        prefill_stall_ns=int(timing.time.window[np.ix_(interrupted, prefill)].sum()),
    )


def _gap_totals(timing: Timing, gaps: pl.DataFrame) -> NDArray[np.int64]:
    """Gap time over the whole trace by label and cause."""
    labels, causes = len(timing.labels), len(timing.causes)
    place = gaps.select(pl.col("label") * causes + pl.col("cause")).to_series().to_numpy()
    return total_by(place, labels * causes, gaps["ns"].to_numpy()).reshape(labels, causes)


def coverage(rows: pl.DataFrame, not_collected: int) -> Coverage:
    """The ledger of one rank, or of several together; `rows` as `coverage_ledger` gives them."""
    methods = rows.group_by("method", maintain_order=True).agg(
        pl.col("busy_ns").sum(), pl.col("ops").sum()
    )
    busy = int(methods["busy_ns"].sum())
    shares = [
        MethodShare(method, busy_ns, busy_ns / busy if busy else 0.0, ops)
        for method, busy_ns, ops in methods.select("method", "busy_ns", "ops").iter_rows()
    ]
    covered = sum(each.busy_ns for each in shares if each.method in IN_RANGE_METHODS)
    return Coverage(busy, covered / busy if busy else 0.0, not_collected, shares)


IN_RANGE_METHODS = frozenset(
    {"launch in range", "graph launch in range", "whole-graph row", "capture-time range"}
)


def lane_names(
    trace: Trace, numbers: Sequence[int], processes: Sequence[int], *, devices: bool
) -> list[LaneName]:
    """Who each lane is: a row of `trace.devices`, or a process alone."""
    rows = trace.processes.select("process_id", "name").rows()
    gpus: list[Device | None] = [
        Device(index, name) for index, name in trace.devices.select("device_id", "name").iter_rows()
    ]
    return [
        LaneName(
            lane=lane,
            rank=number,
            process_id=rows[process][0],
            process_name=rows[process][1],
            device=gpus[lane] if devices else None,
        )
        for lane, (number, process) in enumerate(zip(numbers, processes, strict=True))
    ]
