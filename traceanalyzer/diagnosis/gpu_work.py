"""Whether the GPU's side of a capture is whole: kernels, of every rank, each with its launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from nvtx_hooks import vocabulary
from traceanalyzer.capture.completeness import KERNELS, LAUNCHES
from traceanalyzer.diagnosis.case import ERROR, INFO, WARNING, listed, many
from traceanalyzer.phases.marks import read_marks
from traceanalyzer.report import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.capture.completeness import RankEvidence
    from traceanalyzer.diagnosis.case import Case

_NODE_MODE: Final = "Record with: nsys profile --cuda-graph-trace=node (it slows replays a little)."
_TORCH: Final = "torch-profiler"
_SMALL_SHARE: Final = 0.01
_ORDINARY_TAIL_PERIODS: Final = 2


def no_kernels(case: Case) -> Finding | None:
    """A capture without GPU work."""
    if case.count("kernels"):
        return None
    called = case.count("launches")
    if called:
        step = (
            "Let collection stop before the program does (traceanalyzer capture does), let no "
            "other tool trace the GPU meanwhile (torch.profiler, DCGM), and take an nsys that is "
            "as new as the driver; on MIG, vGPU or under MPS record with -t cuda-sw,nvtx."
        )
    else:
        step = (
            "Record CUDA too: nsys profile -t cuda,nvtx, or torch.profiler with "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]; start workers with spawn "
            "(VLLM_WORKER_MULTIPROC_METHOD=spawn)."
        )
    return Finding(
        "no_kernels",
        "the capture holds no kernels",
        step,
        ERROR,
        f"{many(called, 'CUDA API call')}, {many(case.count('ranges'), 'range')}, no kernel",
        "phases can be timed on the host only, which is not what the GPU needed",
    )


def kernels_on_some_ranks(case: Case) -> Finding | None:
    """Workers that called CUDA and left no kernels, or that are not in the capture at all."""
    silent = [rank for rank in _lacking(case, KERNELS) if rank.launches]
    if silent:
        return Finding(
            "kernels_on_some_ranks",
            f"{_processes(len(silent))} called CUDA but left no kernels",
            "Stop collection before the workers end, for buffers are flushed only then: "
            "traceanalyzer capture --window time:DELAY_S:DURATION_S, or nsys profile -d SECONDS "
            "--kill=none; do not kill workers while they are recorded.",
            ERROR,
            _told(silent),
            "these ranks are missing from every figure, and waits for them cannot be told",
        )
    expected, found = _stated_ranks(case), case.trace.devices.height
    if not case.count("kernels") or found + len(_lacking(case, LAUNCHES, KERNELS)) >= expected:
        return None
    return Finding(
        "kernels_on_some_ranks",
        f"kernels of {found} of {expected} ranks were recorded",
        "Name the files of all ranks; under nsys, record the command that starts the workers, "
        "with --trace-fork-before-exec=true and VLLM_WORKER_MULTIPROC_METHOD=spawn.",
        WARNING,
        f"the hooks' marks tell of {expected} ranks",
        "how long a rank waits for the others in collectives cannot be told",
    )


def _stated_ranks(case: Case) -> int:
    """How many ranks the hooks' marks say there are; 0 where they say nothing."""
    told = read_marks(case.trace, vocabulary.RANKS)
    if not told.height:
        return 0
    tensor, pipeline = told.select(pl.col("tp_size", "pp_size").max()).row(0)
    return max(tensor, 1) * max(pipeline, 1)


def forked_workers(case: Case) -> Finding | None:
    """Workers with ranges in which CUDA was not traced: a fork does not inherit that."""
    forked = [rank for rank in _lacking(case, LAUNCHES, KERNELS) if rank.ranges]
    if not forked:
        return None
    return Finding(
        "forked_workers",
        f"CUDA was not traced in {_processes(len(forked))} that opened phase ranges",
        "Start workers with spawn, not fork (VLLM_WORKER_MULTIPROC_METHOD=spawn; "
        "multiprocessing.set_start_method('spawn')), and record with "
        "nsys profile --trace-fork-before-exec=true.",
        ERROR,
        _told(forked),
        "these ranks have no phases on the GPU and are missing from every figure",
    )


def _lacking(case: Case, *parts: str) -> list[RankEvidence]:
    """Workers that lack these parts of the GPU's side, where others have kernels."""
    return [rank for rank in case.workers if set(parts) == set(rank.lacks) & {LAUNCHES, KERNELS}]


def _processes(number: int) -> str:
    return many(number, "process", "processes")


def _told(ranks: Sequence[RankEvidence]) -> str:
    return listed(
        [
            f"pid {rank.process_id} ({rank.ranges:,} ranges, {rank.launches:,} CUDA calls, "
            "no kernels)"
            for rank in ranks
        ],
        4,
    )


def graph_mode(case: Case) -> Finding | None:
    """Replays recorded as one row each."""
    rows = case.count("graph_rows")
    if not rows:
        return None
    return Finding(
        "graph_mode",
        f"{many(rows, 'graph replay is one row', 'graph replays are one row each')}",
        _NODE_MODE,
        WARNING,
        f"{rows:,} whole-graph rows beside {case.count('ops') - rows:,} single ops",
        "their kernels and the gaps inside are hidden: they tell no kernel classes, and busy time "
        "is too long; phases are right",
    )


def launches_without_kernels(case: Case) -> Finding | None:
    """Launches at the end whose kernels the recording did not wait for."""
    tail = case.count("tail_launches")
    if not case.count("kernels") or not tail:
        return None
    longest_ns = int(case.facts.processes["tail_ns"].max())  # type: ignore[arg-type]
    ordinary = longest_ns <= _ORDINARY_TAIL_PERIODS * max(_periods_ns(case), default=0)
    return Finding(
        "launches_without_kernels",
        f"the last {many(tail, 'launch', 'launches')} left no kernels",
        "Let the GPU finish before collection stops: end the load first, or stop with "
        "cudaProfilerStop after torch.cuda.synchronize(); with nsys, --flush-on-cudaprofilerstop"
        "=true.",
        INFO if ordinary else WARNING,
        f"{tail:,} of {case.count('working_launches'):,} launches, over the last "
        f"{longest_ns / 1e6:,.3f} ms of launching",
        "the cycles they belong to are left out as edge cycles",
    )


def _periods_ns(case: Case) -> list[int]:
    return [rank.cycles.period_ns.p50 for rank in case.report.ranks if rank.cycles.period_ns]


def kernels_without_launches(case: Case) -> Finding | None:
    """Ops whose API call is not in the capture."""
    orphans = case.count("orphans")
    if not orphans or case.report.coverage is None:
        return None
    share = sum(
        each.share for each in case.report.coverage.by_method if each.method == "no launch row"
    )
    if case.count("launches"):
        step = (
            "Let recording start before the work that is timed, and cut no times when exporting "
            "(nsys export without --times)."
        )
    elif case.report.capture.files[0].format == _TORCH:
        step = "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]."
    else:
        step = "Export the API calls too: nsys export without --tables."
    return Finding(
        "kernels_without_launches",
        f"{many(orphans, 'op has', 'ops have')} no launch row",
        step,
        WARNING if share >= _SMALL_SHARE else INFO,
        f"{share:.2%} of busy GPU time, {many(case.count('launches'), 'CUDA API call')} in "
        "the capture",
        "they belong to no phase and are listed as unattributed",
    )
