"""Whether a capture can be trusted: what is missing in it, and how to record it whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer.phases.attribution import INFERRED, METHODS
from traceanalyzer.phases.lost_events import EVENTS_LOST
from traceanalyzer.phases.speakers import schedulers
from traceanalyzer.report import Check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.phases.alignment import Alignment
    from traceanalyzer.report import Coverage, InferenceReport, Instrumentation, RankReport
    from traceanalyzer.trace import Trace

OK: Final = "ok"
WARNING: Final = "warning"
FAILED: Final = "failed"

_GOOD_COVERAGE, _LEAST_COVERAGE = 0.95, 0.8
"""Whole-device synchronisations a cycle from which timers are suspected."""
SYNC_GAP_SHARE: Final = 0.05
"""Share of the cycles' time from which waits count as a trouble."""
_ENOUGH_CYCLES = 30
_NODE_MODE = "Record with: nsys profile --cuda-graph-trace=node (it slows graphs; compare totals)."
# Texts of Nsight Systems that say events were lost or tracing failed, among its many notices.
_LOSSES = rf"{EVENTS_LOST}|(?:cuda|nvtx) profiling might have not been started"


def check_capture(
    trace: Trace,
    counts: pl.DataFrame,
    ranks: Sequence[RankReport],
    instrumentation: Instrumentation | None = None,
) -> list[Check]:
    """Check what the figures rest on.

    Args:
        trace: The capture; ops, launches and ranges are told by the counts alone.
        counts: Of each process: process, ops, graph_rows, launches, ranges.
        ranks: What was found in it.
        instrumentation: Synchronisations in it; None without GPU work.

    Returns:
        One row a check, in the order in which they matter.
    """
    if not counts["ops"].sum():
        return [_no_gpu_work(counts), *_cycles(ranks), *_losses(trace)]
    return [
        _coverage(ranks),
        *_cycles(ranks),
        *(_synchronisation(instrumentation) if instrumentation else ()),
        *_whole_graphs(counts),
        *_without_launch(ranks),
        *_silent_processes(trace, counts),
        *_not_collected(ranks),
        *_losses(trace),
    ]


def check_alignment(alignment: Alignment) -> list[Check]:
    """Whether a scheduler's steps could be told apart in its workers; nothing without one."""
    if not alignment.steps:
        return []
    text = f"{alignment.matched:,} of {alignment.steps:,} worker steps are the scheduler's"
    if not alignment.failed:
        return [Check("alignment", OK, text)]
    return [
        Check(
            "alignment",
            WARNING,
            f"{text}: acceptance cannot be given by batch",
            "Record scheduler and workers in one session, from before the first request on.",
        )
    ]


def check_inference(inference: InferenceReport | None) -> list[Check]:
    """What phases rest on where no range means one; nothing where ranges do."""
    if inference is None:
        return []
    step = (
        "Record with ranges around the phases: traceanalyzer capture -- COMMAND sets the hooks; or "
        "name the phases of ranges with --phases."
    )
    if not inference.inferred:
        why = "; ".join(inference.declined_because)
        text = f"no range means a phase, and none could be inferred: {why}"
        return [Check("phases", WARNING, text, step)]
    told = "; ".join(inference.evidence)
    text = (
        f"inferred, not measured (score {inference.score:.2f}): {told}. Warm-up and dummy cycles "
        "cannot be told from others"
    )
    return [Check("phases", WARNING, text, step)]


def _no_gpu_work(counts: pl.DataFrame) -> Check:
    launches, ranges = (int(counts[column].sum()) for column in ("launches", "ranges"))
    text = "the capture holds no GPU work"
    if launches:
        text += f" although it holds {launches:,} CUDA API calls"
    if ranges:
        text += "; phases are timed on the host, which is not what the GPU needed"
    return Check(
        "GPU work",
        WARNING,
        text,
        "Record CUDA too: nsys profile -t cuda,nvtx, or torch.profiler's ProfilerActivity.CUDA.",
    )


def _coverage(ranks: Sequence[RankReport]) -> Check:
    worst = min(ranks, key=lambda rank: _with_phase_share(rank.coverage))
    if inferred := _inferred_share(worst.coverage):
        text = f"{inferred:.1%} of busy GPU time got its phase by inference, none by a range"
        return Check("coverage", WARNING if inferred >= _LEAST_COVERAGE else FAILED, text)
    share = worst.coverage.covered_share
    text = f"{share:.1%} of busy GPU time was launched inside phase ranges"
    if len(ranks) > 1:
        text += f" (rank {worst.rank}, the lowest)"
    if share >= _GOOD_COVERAGE:
        return Check("coverage", OK, text)
    # Without cycles nothing rests on it: such a capture may be of something else altogether.
    rests = any(rank.cycles.kept for rank in ranks)
    return Check(
        "coverage",
        FAILED if share < _LEAST_COVERAGE and rests else WARNING,
        text,
        "See what was launched outside with: traceanalyzer ranges TRACE; add rules with --phases.",
    )


def _inferred_share(coverage: Coverage) -> float:
    """Share of busy time that got its phase by inference."""
    return sum(each.share for each in coverage.by_method if each.method == METHODS[INFERRED])


def _with_phase_share(coverage: Coverage) -> float:
    return coverage.covered_share + _inferred_share(coverage)


def _cycles(ranks: Sequence[RankReport]) -> list[Check]:
    kept = [rank.cycles.kept for rank in ranks]
    if not any(kept):
        return [
            Check(
                "cycles",
                WARNING,
                "no complete decode cycle was found, so nothing is given per cycle",
                "A cycle needs two target forwards (verify or decode ranges): record longer, or "
                "name the ranges with --phases.",
            )
        ]
    fewest = min(kept)
    status = OK if fewest >= _ENOUGH_CYCLES else WARNING
    step = None if status == OK else "Record more cycles for figures that repeat."
    text = f"{fewest} complete cycles" + (" on the rank with fewest" if len(kept) > 1 else "")
    return [Check("cycles", status, text, step)]


def _synchronisation(found: Instrumentation) -> list[Check]:
    """Whether timers that wait for the GPU were patched in, or the engine itself waits a lot."""
    if not found.cycles:
        return []
    if found.synchronised:
        phases = [each.phase for each in found.sync_calls if each.scope == "device"]
        text = (
            f"{found.device_syncs_per_cycle:.1f} whole-device synchronisations a cycle, in "
            f"{', '.join(dict.fromkeys(phases))}: synchronising timers distort this capture; "
            f"without them a cycle would be about {found.host_gap_share:.1%} shorter, and host "
            "gaps hide inside the phases"
        )
        step = "Take the timers out and record with: traceanalyzer capture (its hooks never wait)."
        return [Check("instrumentation", FAILED, text, step)]
    if found.sync_gap_share > SYNC_GAP_SHARE:
        text = (
            "the engine waits for the GPU inside its cycles; without the waits a cycle could be "
            f"up to {found.sync_gap_share:.1%} shorter"
        )
        step = "Look for .item(), .cpu() or stream synchronisation in the phase with the gaps."
        return [Check("instrumentation", WARNING, text, step)]
    calls = "no whole-device synchronisation in cycles"
    if found.device_syncs_per_cycle:
        calls = f"{found.device_syncs_per_cycle:.2g} whole-device synchronisations a cycle"
    text = f"{calls}; waits cost {found.sync_gap_share:.1%}"
    return [Check("instrumentation", OK, text)]


def _whole_graphs(counts: pl.DataFrame) -> list[Check]:
    rows = int(counts["graph_rows"].sum())
    if not rows:
        return []
    text = f"{rows:,} graph replays are whole-graph rows: busy blocks that hide the gaps in them"
    return [Check("graphs", WARNING, text, _NODE_MODE)]


def _without_launch(ranks: Sequence[RankReport]) -> list[Check]:
    lost = sum(
        method.ops
        for rank in ranks
        for method in rank.coverage.by_method
        if method.method == "no launch row"
    )
    if not lost:
        return []
    text = f"{lost:,} ops have no launch row and belong to no phase: the recording was cut"
    return [Check("launches", WARNING, text, "Let recording start before the work that is timed.")]


def _silent_processes(trace: Trace, counts: pl.DataFrame) -> list[Check]:
    """Processes that opened ranges, but have no GPU work where others do.

    A scheduler beside its workers has none, and calls CUDA for nothing.
    """
    active = counts.filter(pl.col("ranges") > 0)
    silent = active.filter(pl.col("ops") == 0)
    if not silent.height:
        return []
    schedules = pl.col("process").is_in(schedulers(trace).implode())
    silent = silent.filter(~(schedules & (pl.col("launches") == 0)))
    if not silent.height:
        return []
    ids = trace.processes["process_id"].gather(silent["process"]).sort().to_list()
    text = f"{len(ids)} of {active.height} processes with ranges have no GPU work: " + ", ".join(
        map(str, ids[:8])
    )
    return [
        Check(
            "processes",
            WARNING,
            text,
            "Start workers with spawn and stop recording before they are killed "
            "(nsys profile --trace-fork-before-exec=true).",
        )
    ]


def _not_collected(ranks: Sequence[RankReport]) -> list[Check]:
    count = sum(rank.coverage.not_collected for rank in ranks)
    if not count:
        return []
    return [Check("times", WARNING, f"{count:,} ops were listed without times (0/0)")]


def _losses(trace: Trace) -> list[Check]:
    rows = trace.diagnostics.filter(
        (pl.col("source") == "importer") & (pl.col("severity") != "info")
        | (pl.col("source") == "recorder") & pl.col("text").str.contains(_LOSSES)
    )
    return [
        Check(source, WARNING, text if count == 1 else f"{text} ({count:,} times)")
        for source, text, count in rows.select("source", "text", "count").iter_rows()
    ]
