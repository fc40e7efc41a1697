"""What findings need of a trace's large tables: counts by process, by phase and by name.

They are found for any processes alone and, one after another, are those of all: a finding sees
no op, launch or range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.capture.completeness import PROCESS_COUNTS, process_counts
from traceanalyzer.diagnosis.captures import captured_phases, stream_captures, working_launches
from traceanalyzer.diagnosis.open_ranges import ranges_left_open
from traceanalyzer.intervals import Intervals, total_by, union
from traceanalyzer.phases.attribution import has_ops
from traceanalyzer.phases.recorder_stalls import own_overheads

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

CLOCK_SLACK_NS: Final = 1_000
"""An op may start so much before its launch without telling of clocks that are not aligned."""

_STRAGGLER_WEIGHT: Final = 3
"""Among launches without op at the end, one in four may have left an op."""

_MORE_COUNTS: Final = (
    *("ops", "graph_rows", "marks", "captures", "orphans", "launched_ops", "early_ops"),
    *("working_launches", "tail_launches", "tail_ns"),
)
_TIMES: Final = ("earliest_lead_ns", "first_op_ns", "last_op_ns")


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of any number of processes.

    Attributes:
        processes: One row a process: process, ranges, launches, kernels (whole-graph rows
            included), asking_launches (whose names say that they launch), phase_ranges, ops,
            graph_rows, marks, captures (begins of stream captures), orphans (ops without launch
            row), launched_ops (with times and launch row), early_ops (of those, by more than
            `CLOCK_SLACK_NS` before their launch), working_launches (of kernels and graphs, outside
            captures), tail_launches (those at the end that left no op, where any did), tail_ns
            (from the first to the last of them), and, null without: earliest_lead_ns (least time
            from launch to op), first_op_ns, last_op_ns.
        overheads: One row a process whose recorder took time while it worked: process, taken_ns, of
            whole_ns, kinds (what was done).
        phases: One row a phase that occurs: phase, ranges, captured (whether one holds the begin
            of a stream capture or lies inside one).
        names: One row a name of ranges: name, ranges, left_open (how many of a phase or cycle
            lasted to their thread's end although the same began again in them).
    """

    processes: pl.DataFrame
    overheads: pl.DataFrame
    phases: pl.DataFrame
    names: pl.DataFrame


def facts_of(trace: Trace, spans: Spans, phased: PhasedTrace | None = None) -> Facts:
    """Look at a trace.

    Args:
        trace: The tables.
        spans: Meaning of the host ranges.
        phased: Every op's launch; None without GPU work.
    """
    return Facts(
        _processes(trace, spans, phased),
        _overheads(trace, spans),
        _phases(trace, spans),
        _names(trace, spans),
    )


def _processes(trace: Trace, spans: Spans, phased: PhasedTrace | None) -> pl.DataFrame:
    size = trace.processes.height
    table = process_counts(trace, np.flatnonzero(spans.phase >= 0))
    thread_process = trace.threads["process"].to_numpy()
    begins = stream_captures(trace, "Begin")["thread"].to_numpy()
    counts = {
        "ops": trace.ops["process"],
        "graph_rows": trace.ops.filter(pl.col("kind") == "graph")["process"],
        "marks": thread_process[trace.marks["thread"].to_numpy()],
        "captures": thread_process[begins],
    }
    table = table.with_columns(
        pl.Series(name, np.bincount(rows, minlength=size)) for name, rows in counts.items()
    )
    times = trace.ops.group_by("process").agg(
        first_op_ns=pl.col("start_ns").min(), last_op_ns=pl.col("end_ns").max()
    )
    parts = [times, _tails(trace), *([] if phased is None else [_launched(phased)])]
    for part in parts:
        table = table.join(part, on="process", how="left", maintain_order="left")
    missing = [name for name in (*_MORE_COUNTS, *_TIMES) if name not in table.columns]
    return table.with_columns(pl.lit(None, pl.Int64).alias(name) for name in missing).select(
        "process",
        *PROCESS_COUNTS,
        *(pl.col(name).cast(pl.Int64).fill_null(0) for name in _MORE_COUNTS),
        *_TIMES,
    )


def _launched(phased: PhasedTrace) -> pl.DataFrame:
    """How ops lie to their launches, by process."""
    launch, process = phased.attribution.launch, phased.trace.ops["process"]
    rows = np.flatnonzero((launch >= 0) & phased.collected)
    called_ns = phased.trace.launches["start_ns"].to_numpy()[launch[rows]]
    lead = pl.col("lead_ns")
    leads = pl.DataFrame(
        {"process": process.gather(rows), "lead_ns": phased.ops.start_ns[rows] - called_ns}
    )
    told = leads.group_by("process").agg(
        launched_ops=pl.len().cast(pl.Int64),
        early_ops=(lead < -CLOCK_SLACK_NS).sum().cast(pl.Int64),
        earliest_lead_ns=lead.min(),
    )
    orphans = pl.DataFrame({"process": process.filter(pl.Series(launch < 0))})
    counted = orphans.group_by("process").agg(orphans=pl.len().cast(pl.Int64))
    return told.join(counted, on="process", how="full", coalesce=True)


def _tails(trace: Trace) -> pl.DataFrame:
    """The last launches of each process that left no op.

    Work on another stream may still have run: a tail is the end of a process in which launches
    without op outweigh the others most, `_STRAGGLER_WEIGHT` of them one that left an op.
    """
    working = working_launches(trace)
    lost = pl.Series(~has_ops(trace, working))
    table = trace.launches[working].select("process", "start_ns", lost=lost)
    counted = table.group_by("process").agg(
        working_launches=pl.len().cast(pl.Int64),
        some_lost=pl.col("lost").any() & ~pl.col("lost").all(),
    )
    weight = pl.when("lost").then(1).otherwise(-_STRAGGLER_WEIGHT)
    most = pl.col("weight").max()
    in_tail = (pl.col("weight").cum_max(reverse=True) == most) & (most > 0)
    tail = (
        table.join(counted.filter("some_lost"), on="process", how="semi")
        .sort("start_ns", descending=True)
        .with_columns(weight=weight.cum_sum().over("process"))
        .filter(pl.col("lost") & in_tail.over("process"))
    )
    spans = tail.group_by("process").agg(
        tail_launches=pl.len().cast(pl.Int64),
        tail_ns=pl.col("start_ns").max() - pl.col("start_ns").min(),
    )
    return counted.drop("some_lost").join(spans, on="process", how="left")


def _overheads(trace: Trace, spans: Spans) -> pl.DataFrame:
    """The recorder's own time while each process worked."""
    own = (
        own_overheads(trace)
        .join(_work_times(trace, spans), on="process")
        .with_columns(
            start_ns=pl.max_horizontal("start_ns", "first_ns"),
            end_ns=pl.min_horizontal("end_ns", "last_ns"),
        )
        .filter(pl.col("end_ns") > pl.col("start_ns"))
    )
    lanes = own["process"].to_numpy().astype(np.int64)
    covered = union(Intervals(lanes, own["start_ns"].to_numpy(), own["end_ns"].to_numpy()))
    taken_ns = total_by(covered.lane, trace.processes.height, covered.duration_ns)
    whole_ns = pl.col("last_ns") - pl.col("first_ns")
    return (
        own.group_by("process", whole_ns=whole_ns)
        .agg(kinds=pl.col("kind").unique().sort())
        .with_columns(taken_ns=pl.lit(pl.Series(taken_ns)).gather(pl.col("process")))
        .select("process", "taken_ns", "whole_ns", "kinds")
        .sort("process")
    )


def _work_times(trace: Trace, spans: Spans) -> pl.DataFrame:
    """First and last instant of each process's phase ranges, or else of its API calls."""
    of_phase = trace.ranges[np.flatnonzero(spans.phase >= 0)]
    process = trace.threads["process"].gather(of_phase["thread"])
    borders = (pl.col("start_ns").min().alias("first_ns"), pl.col("end_ns").max().alias("last_ns"))
    ranges = of_phase.select("start_ns", "end_ns", process=process).group_by("process").agg(borders)
    calls = trace.launches.group_by("process").agg(borders).join(ranges, on="process", how="anti")
    return pl.concat([ranges, calls]).filter(pl.col("last_ns") > pl.col("first_ns"))


def _phases(trace: Trace, spans: Spans) -> pl.DataFrame:
    ranges = np.bincount(spans.phase[spans.phase >= 0], minlength=len(spans.phases))
    captured = np.zeros(len(spans.phases), bool)
    captured[captured_phases(trace, spans)] = True
    columns = {"phase": pl.Series(spans.phases, dtype=pl.String), "ranges": ranges}
    return pl.DataFrame({**columns, "captured": pl.Series(captured, dtype=pl.Boolean)})


def _names(trace: Trace, spans: Spans) -> pl.DataFrame:
    """Of all names while no range means a phase, else of those left open."""
    left_open = np.zeros(trace.ranges.height, bool)
    left_open[ranges_left_open(trace, spans)] = True
    table = trace.ranges.select("name", left_open=pl.Series(left_open))
    if (spans.phase >= 0).any():
        table = table.filter("left_open")
    return (
        table.group_by("name")
        .agg(ranges=pl.len().cast(pl.Int64), left_open=pl.col("left_open").sum().cast(pl.Int64))
        .sort("name")
    )
