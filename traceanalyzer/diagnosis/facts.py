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
from traceanalyzer.phases.grouping import begins_anew, least_of
from traceanalyzer.phases.recorder_stalls import own_overheads
from traceanalyzer.schema import OP_KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.diagnosis.captures import StreamCaptures
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
    captures = stream_captures(trace)
    return Facts(
        _processes(trace, spans, phased, captures),
        _overheads(trace, spans),
        _phases(spans, captures),
        _names(trace, spans),
    )


def _processes(
    trace: Trace, spans: Spans, phased: PhasedTrace | None, captures: StreamCaptures
) -> pl.DataFrame:
    size = trace.processes.height
    table = process_counts(trace, np.flatnonzero(spans.phase >= 0))
    thread_process = trace.threads["process"].to_numpy()
    of_op, kinds = trace.ops["process"].to_numpy(), trace.ops["kind"].to_physical().to_numpy()
    counts = {
        "ops": _counted(of_op, size),
        "graph_rows": _counted(of_op[kinds == OP_KINDS.index("graph")], size),
        "marks": _counted(thread_process[trace.marks["thread"].to_numpy()], size),
        "captures": _counted(thread_process[captures.begins["thread"].to_numpy()], size),
    }
    table = table.with_columns(pl.Series(name, count) for name, count in counts.items())
    parts = [_tails(trace, phased, captures)]
    parts += [] if phased is None else [_ops(trace), _launched(phased)]
    for part in parts:
        table = table.join(part, on="process", how="left", maintain_order="left")
    missing = [name for name in (*_MORE_COUNTS, *_TIMES) if name not in table.columns]
    return table.with_columns(pl.lit(None, pl.Int64).alias(name) for name in missing).select(
        "process",
        *PROCESS_COUNTS,
        *(pl.col(name).cast(pl.Int64).fill_null(0) for name in _MORE_COUNTS),
        *_TIMES,
    )


def _counted(process: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """How often each process occurs; mostly rows of one stand together."""
    first = _first_rows(process)
    return total_by(process[first].astype(np.int64), size, np.diff(np.append(first, process.size)))


def _first_rows(process: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where rows of another process begin."""
    return np.flatnonzero(begins_anew(process))


def _ops(trace: Trace) -> pl.DataFrame:
    """First and last instant of the ops of each process."""
    process = trace.ops["process"].to_numpy()
    start, end = trace.ops["start_ns"].to_numpy(), trace.ops["end_ns"].to_numpy()
    known, first_ns = _least(process, start)
    _, last_ns = _least(process, -end)
    return pl.DataFrame({"process": known, "first_op_ns": first_ns, "last_op_ns": -last_ns})


def _launched(phased: PhasedTrace) -> pl.DataFrame:
    """How ops lie to their launches, by process."""
    launch, process = phased.attribution.launch, phased.trace.ops["process"].to_numpy()
    size = phased.trace.processes.height
    rows = np.flatnonzero((launch >= 0) & phased.collected)
    lead_ns = phased.ops.start_ns[rows]
    lead_ns -= phased.trace.launches["start_ns"].to_numpy()[launch[rows]]
    of_lead = process[rows]
    known, earliest_ns = _least(of_lead, lead_ns)
    earliest = pl.DataFrame({"process": known, "earliest_lead_ns": earliest_ns})
    counts = {
        "launched_ops": of_lead,
        "early_ops": of_lead[lead_ns < -CLOCK_SLACK_NS],
        "orphans": process[launch < 0],
    }
    counted = {name: _counted(rows, size) for name, rows in counts.items()}
    table = pl.DataFrame({"process": np.arange(size, dtype=np.int32), **counted})
    return table.join(earliest, on="process", how="left", maintain_order="left")


def _least(
    process: NDArray[np.int32], values: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The processes that have values, and the least of each."""
    first = _first_rows(process)
    if not first.size:
        return process, values
    known, place = np.unique(process[first], return_inverse=True)
    return known, least_of(place, known.size, np.minimum.reduceat(values, first))


def _tails(trace: Trace, phased: PhasedTrace | None, captures: StreamCaptures) -> pl.DataFrame:
    """The last launches of each process that left no op.

    Work on another stream may still have run: a tail is the end of a process in which launches
    without op outweigh the others most, `_STRAGGLER_WEIGHT` of them one that left an op.
    """
    working = working_launches(trace, captures)
    lost = _without_op(trace, working, phased)
    process, size = trace.launches["process"].to_numpy()[working], trace.processes.height
    counts, lost_counts = _counted(process, size), _counted(process[lost], size)
    rows = np.flatnonzero(((lost_counts > 0) & (lost_counts < counts))[process])
    start_ns = trace.launches["start_ns"].to_numpy()[working[rows]]
    weight = pl.when("lost").then(1).otherwise(-_STRAGGLER_WEIGHT)
    most = pl.col("weight").max()
    in_tail = (pl.col("weight").cum_max(reverse=True) == most) & (most > 0)
    tail = (
        pl.DataFrame({"process": process[rows], "start_ns": start_ns, "lost": lost[rows]})
        .sort("start_ns", descending=True)
        .with_columns(weight=weight.cum_sum().over("process"))
        .filter(pl.col("lost") & in_tail.over("process"))
    )
    spans = tail.group_by("process").agg(
        tail_launches=pl.len().cast(pl.Int64),
        tail_ns=pl.col("start_ns").max() - pl.col("start_ns").min(),
    )
    table = pl.DataFrame({"process": np.arange(size, dtype=np.int32), "working_launches": counts})
    return table.join(spans, on="process", how="left")


def _without_op(
    trace: Trace, launches: NDArray[np.int64], phased: PhasedTrace | None
) -> NDArray[np.bool_]:
    """Which launches left no op; most that did are the launch of one."""
    lost = np.ones(trace.launches.height + 1, bool)
    if phased is not None:
        lost[phased.attribution.launch] = False  # of ops without a launch the one beyond the last
    lost = lost[launches]
    if lost.any():
        lost[lost] = ~has_ops(trace, launches[lost])
    return lost


def _overheads(trace: Trace, spans: Spans) -> pl.DataFrame:
    """The recorder's own time while each process worked."""
    own = own_overheads(trace)
    if not own.height:
        return pl.DataFrame(schema=_NO_OVERHEADS)
    own = (
        own.join(_work_times(trace, spans), on="process")
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


_NO_OVERHEADS: Final = {
    "process": pl.Int32(),
    "taken_ns": pl.Int64(),
    "whole_ns": pl.Int64(),
    "kinds": pl.List(pl.String),
}


def _work_times(trace: Trace, spans: Spans) -> pl.DataFrame:
    """First and last instant of each process's phase ranges, or else of its API calls."""
    of_phase = trace.ranges[np.flatnonzero(spans.phase >= 0)]
    process = trace.threads["process"].gather(of_phase["thread"])
    borders = (pl.col("start_ns").min().alias("first_ns"), pl.col("end_ns").max().alias("last_ns"))
    ranges = of_phase.select("start_ns", "end_ns", process=process).group_by("process").agg(borders)
    calls = trace.launches.group_by("process").agg(borders).join(ranges, on="process", how="anti")
    return pl.concat([ranges, calls]).filter(pl.col("last_ns") > pl.col("first_ns"))


def _phases(spans: Spans, captures: StreamCaptures) -> pl.DataFrame:
    ranges = np.bincount(spans.phase[spans.phase >= 0], minlength=len(spans.phases))
    captured = np.zeros(len(spans.phases), bool)
    captured[captured_phases(spans, captures)] = True
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
