"""Whether the recorder wrote all there was, on one clock, at no cost and without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.analyses.trust import EVENTS_LOST
from traceanalyzer.capture.environment import looks_secret
from traceanalyzer.diagnosis.case import ERROR, INFO, WARNING, listed, many
from traceanalyzer.intervals import Intervals, total_by, union
from traceanalyzer.report import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.diagnosis.case import Case
    from traceanalyzer.trace import Trace

_CUT: Final = (
    r"breaks off|compressed data is damaged|compressed data ends|export is cut to times|"
    r"export was limited to"
)
# CUDA's own stalls, and loading that nsys only watches: not what recording costs.
_NOT_THE_RECORDER: Final = (
    r"(?i)command buffer full|lazy function loading|module loading|dlopen|dlclose|compil"
)
_MOST_OVERHEAD: Final = 0.05
_CLOCK_SLACK_NS: Final = 1_000
_MOST_EARLY_SHARE: Final = 0.001


def buffers_lost(case: Case) -> Finding | None:
    """The recorder's own words that events were lost."""
    said = case.trace.diagnostics.filter(
        (pl.col("source") == "recorder") & pl.col("text").str.contains(EVENTS_LOST)
    )
    if not said.height:
        return None
    return Finding(
        "buffers_lost",
        "the recorder lost events",
        "Record a shorter window (traceanalyzer capture --window time:DELAY_S:DURATION_S), flush "
        "buffers in time (nsys profile --cuda-flush-interval=10000), and stop collection before "
        "the program.",
        WARNING if said["text"].str.contains("NVTX").all() else ERROR,
        "; ".join(f"{text!r}" for text in said["text"].unique(maintain_order=True)[:4]),
        "counts and totals are too small, by an unknown amount",
    )


def truncated(case: Case) -> Finding | None:
    """A file that ends early, or an export that was told to leave out what is needed."""
    cut = case.trace.diagnostics.filter(
        (pl.col("source") == "importer") & pl.col("text").str.contains(_CUT)
    )
    if not cut.height:
        return None
    return Finding(
        "truncated",
        "a part of the capture is missing",
        "Copy or export the file again (nsys export --type sqlite without --times and --tables; "
        "torch.profiler writes at the end of `with`: let the program end by itself).",
        ERROR,
        "; ".join(cut["text"].unique(maintain_order=True)[:4]),
        "figures are right for what is there; totals lack the rest",
    )


def clocks_not_aligned(case: Case) -> Finding | None:
    """Ops before their launch, or files of one run that share no time."""
    early = _early_ops(case)
    if early is not None:
        return early
    apart = _apart(case)
    if not apart:
        return None
    return Finding(
        "clocks_not_aligned",
        "the files of this capture are not on one clock",
        "Record all ranks in one nsys session, or at the same time on machines whose clocks are "
        "synchronised (chrony, NTP); export with a schema that keeps the start "
        "(TARGET_INFO_SESSION_START_TIME).",
        INFO,
        apart,
        "figures of each rank are right; nothing can be said across ranks, such as who waits",
    )


def _early_ops(case: Case) -> Finding | None:
    if case.phased is None:
        return None
    launch = case.phased.attribution.launch
    rows = np.flatnonzero((launch >= 0) & case.phased.collected)
    called_ns = case.trace.launches["start_ns"].to_numpy()[launch[rows]]
    lead_ns = case.phased.ops.start_ns[rows] - called_ns
    early = int(np.count_nonzero(lead_ns < -_CLOCK_SLACK_NS))
    if not rows.size or early <= _MOST_EARLY_SHARE * rows.size:
        return None
    return Finding(
        "clocks_not_aligned",
        "kernels start before they were launched: the clocks of CPU and GPU are not aligned",
        "Take a newer nsys and driver (on virtual machines the time stamp counter has to be "
        "invariant: constant_tsc, nonstop_tsc), and record a shorter window.",
        WARNING,
        f"{early:,} of {rows.size:,} launched ops, by up to {-int(lead_ns.min()) / 1e3:,.1f} us",
        "host lead and the causes of gaps are wrong; times of phases on the GPU are right",
    )


def _apart(case: Case) -> str:
    """What tells that files share no time; empty when nothing does."""
    trace = case.trace
    if trace.files.height < 2:
        return ""
    unknown = trace.files["start_utc_ns"].null_count()
    if unknown:
        return f"{unknown} of {trace.files.height} files do not tell when they began"
    times = (
        trace.ops.join(trace.processes.select("process", "file"), on="process")
        .group_by("file")
        .agg(first_ns=pl.col("start_ns").min(), last_ns=pl.col("end_ns").max())
        .join(trace.files.select("file", "start_utc_ns"), on="file")
        .select(first=pl.col("first_ns") + pl.col("start_utc_ns"),
                last=pl.col("last_ns") + pl.col("start_utc_ns"))
    )  # fmt: skip
    if times.height < 2:
        return ""
    latest, earliest = int(times["first"].max()), int(times["last"].min())  # type: ignore[arg-type]
    if latest <= earliest:
        return ""
    return f"one file's GPU work ends {(latest - earliest) / 1e9:,.3f} s before another's begins"


def profiler_overhead(case: Case) -> Finding | None:
    """Time that recording took from the program while it worked."""
    trace = case.trace
    worst = _overhead_shares(trace, _work_times(case)).sort("share").tail(1)
    if not worst.height or worst["share"][0] <= _MOST_OVERHEAD:
        return None
    process, taken_ns, whole_ns, share, kinds = worst.row(0)
    return Finding(
        "profiler_overhead",
        f"recording itself took {share:.1%} of the time",
        "Record less: nsys profile -t cuda,nvtx -s none --cpuctxsw=none --cuda-event-trace=false "
        "--cuda-graph-trace=graph, or a later, shorter window; torch.profiler without with_stack, "
        "record_shapes and profile_memory.",
        WARNING,
        f"{taken_ns / 1e6:,.3f} ms of {whole_ns / 1e6:,.3f} ms in process "
        f"{trace.processes['process_id'][process]}: {listed(sorted(kinds), 4)}",
        "cycles look longer than they are without recording, gaps of the host above all; compare "
        "with untraced tokens/s (traceanalyzer capture --untraced-check)",
    )


def _overhead_shares(trace: Trace, work: pl.DataFrame) -> pl.DataFrame:
    """The recorder's own time while each process worked: process, ns, of ns, share, kinds."""
    own = (
        trace.overheads.with_columns(kind=trace.text("name"))
        .filter(~pl.col("kind").str.contains(_NOT_THE_RECORDER))
        .join(work, on="process")
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
        .agg(kinds=pl.col("kind").unique())
        .with_columns(taken_ns=pl.lit(pl.Series(taken_ns)).gather(pl.col("process")))
        .with_columns(share=pl.col("taken_ns") / pl.col("whole_ns"))
        .select("process", "taken_ns", "whole_ns", "share", "kinds")
    )


def _work_times(case: Case) -> pl.DataFrame:
    """First and last instant of each process's phase ranges, or else of its API calls."""
    trace = case.trace
    ranges = trace.ranges[case.phase_ranges()].select(
        "start_ns", "end_ns", process=trace.threads["process"].gather(
            trace.ranges[case.phase_ranges()]["thread"]
        ),
    )  # fmt: skip
    calls = trace.launches.select("start_ns", "end_ns", "process")
    calls = calls.join(ranges, on="process", how="anti")
    return (
        pl.concat([ranges, calls])
        .group_by("process")
        .agg(first_ns=pl.col("start_ns").min(), last_ns=pl.col("end_ns").max())
        .filter(pl.col("last_ns") > pl.col("first_ns"))
    )


def secrets_stored(variables: Sequence[str]) -> Finding | None:
    """Variables in a file whose names tell of secrets.

    Args:
        variables: Names of all variables that the files store; their values are not looked at.
    """
    names = [name for name in variables if looks_secret(name)]
    if not names:
        return None
    return Finding(
        "secrets_stored",
        f"the file stores the values of {many(len(names), 'variable')} that may be secret",
        "Before passing it on: traceanalyzer scrub IN OUT (the .nsys-rep stores them too); record "
        "with traceanalyzer capture, which passes on only what a server needs.",
        WARNING,
        listed(names, 20),
        "whoever gets the file gets the values; no output of traceanalyzer holds them",
    )
