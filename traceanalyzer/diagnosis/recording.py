"""Whether the recorder wrote all there was, on one clock, at no cost and without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer.capture.environment import looks_secret
from traceanalyzer.diagnosis.case import ERROR, INFO, WARNING, listed, many
from traceanalyzer.phases.lost_events import EVENTS_LOST
from traceanalyzer.report import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.diagnosis.case import Case

_CUT: Final = (
    r"breaks off|compressed data is damaged|compressed data ends|export is cut to times|"
    r"export was limited to"
)
_MOST_OVERHEAD: Final = 0.05
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
    early, launched = case.count("early_ops"), case.count("launched_ops")
    if not launched or early <= _MOST_EARLY_SHARE * launched:
        return None
    least_ns = int(case.facts.processes["earliest_lead_ns"].min())  # type: ignore[arg-type]
    return Finding(
        "clocks_not_aligned",
        "kernels start before they were launched: the clocks of CPU and GPU are not aligned",
        "Take a newer nsys and driver (on virtual machines the time stamp counter has to be "
        "invariant: constant_tsc, nonstop_tsc), and record a shorter window.",
        WARNING,
        f"{early:,} of {launched:,} launched ops, by up to {-least_ns / 1e3:,.1f} us",
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
        case.facts.processes.drop_nulls("first_op_ns")
        .join(trace.processes.select("process", "file"), on="process")
        .group_by("file")
        .agg(first_ns=pl.col("first_op_ns").min(), last_ns=pl.col("last_op_ns").max())
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
    shares = case.facts.overheads.with_columns(share=pl.col("taken_ns") / pl.col("whole_ns"))
    worst = shares.sort("share", "process").tail(1)
    if not worst.height or worst["share"][0] <= _MOST_OVERHEAD:
        return None
    columns = ("process", "taken_ns", "whole_ns", "share", "kinds")
    process, taken_ns, whole_ns, share, kinds = worst.select(columns).row(0)
    return Finding(
        "profiler_overhead",
        f"recording itself took {share:.1%} of the time",
        "Record less: nsys profile -t cuda,nvtx -s none --cpuctxsw=none --cuda-event-trace=false "
        "--cuda-graph-trace=graph, or a later, shorter window; torch.profiler without with_stack, "
        "record_shapes and profile_memory.",
        WARNING,
        f"{taken_ns / 1e6:,.3f} ms of {whole_ns / 1e6:,.3f} ms in process "
        f"{trace.processes['process_id'][process]}: {listed(sorted(kinds), 4)}",
        "cycles that it stopped are left out of means while they are at most half; the others look "
        "longer than they are, gaps of the host above all; compare with untraced tokens/s "
        "(traceanalyzer capture --untraced-check)",
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
