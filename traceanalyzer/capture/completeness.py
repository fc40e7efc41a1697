"""Whether every rank of a recorded server left what a report needs: ranges, launches and kernels.

A report without one of them looks sound; the rank is then missing in it or has no phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.trace import of_kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace

RANGES: Final = "ranges"
LAUNCHES: Final = "launches"
KERNELS: Final = "kernels"

PROCESS_COUNTS: Final = (RANGES, LAUNCHES, KERNELS, "asking_launches", "phase_ranges")
"""Columns of `process_counts`: ranges, API calls, kernels and whole-graph rows, calls whose names
say that they launch, and ranges of a phase."""

_LAUNCHING: Final = r"(?i)launch"
_ADVICE: Final[dict[tuple[str, ...], str]] = {
    (RANGES,): "the hooks did not reach it: see `traceanalyzer hooks status`; Python started with "
    "-E or -I needs `traceanalyzer hooks install`, an older nsys nvtx 0.2.11",
    (LAUNCHES,): "its CUDA calls were cut off: record longer, and let the window close before the "
    "server ends (--window time:DELAY_S:DURATION_S)",
    (KERNELS,): "its GPU records were never flushed: let the window close before the server ends "
    "(--window time:DELAY_S:DURATION_S); or another tool (torch.profiler, MPS, MIG) held the GPU's "
    "tracing",
    (LAUNCHES, KERNELS): "CUDA was not traced in it: start workers with spawn, not fork "
    "(VLLM_WORKER_MULTIPROC_METHOD=spawn), and let the window close before they are killed",
    (RANGES, LAUNCHES): "its host side was never flushed: let the window close before the server "
    "ends (--window time:DELAY_S:DURATION_S)",
    (RANGES, KERNELS): "it launched work that left neither ranges nor kernels: let the window "
    "close before the server ends, and see `traceanalyzer hooks status`",
}


@dataclass(frozen=True, slots=True)
class RankEvidence:
    """What one process of a server left in a trace.

    Attributes:
        process_id: The operating system's.
        name: Its title; None when the trace has none.
        rank: Rank as the trace states it; None when it does not.
        ranges: Host ranges.
        launches: CUDA API calls.
        kernels: Kernels and whole graphs that ran.
        lacks: What is missing: of `RANGES`, `LAUNCHES`, `KERNELS`, in that order.
    """

    process_id: int
    name: str | None
    rank: int | None
    ranges: int
    launches: int
    kernels: int
    lacks: tuple[str, ...]

    def __str__(self) -> str:
        numbered = "a process" if self.rank is None else f"rank {self.rank}"
        who = f"{numbered} (pid {self.process_id}" + (f", {self.name})" if self.name else ")")
        counts = {RANGES: self.ranges, LAUNCHES: self.launches, KERNELS: self.kernels}
        has = ", ".join(f"{counts[part]:,} {part}" for part in counts if counts[part])
        if not self.lacks:
            return f"{who}: {has}"
        lacks = " and no ".join(self.lacks)
        return f"{who}: {has or 'nothing'}, but no {lacks}: {_ADVICE[self.lacks]}"


def process_counts(trace: Trace, phase_ranges: NDArray[np.int64]) -> pl.DataFrame:
    """What each process left.

    Args:
        trace: The capture.
        phase_ranges: Rows in `trace.ranges` of the ranges of a phase.

    Returns:
        One row a process: process and `PROCESS_COUNTS`.
    """
    of_thread = trace.threads["process"].to_numpy()
    opened = of_thread[trace.ranges["thread"].to_numpy()]
    runs = of_kinds(trace.ops, "kernel", "graph")
    asks = pl.col("text").str.contains(_LAUNCHING)
    asking = trace.names.select(asks).to_series().to_numpy()
    size = trace.processes.height
    called = trace.launches["process"].to_numpy() * np.int64(2)
    called += asking[trace.launches["name"].to_numpy()]
    calls = np.bincount(called, minlength=2 * size).reshape(size, 2)
    counts = (
        np.bincount(opened, minlength=size),
        calls.sum(axis=1),
        np.bincount(trace.ops["process"].to_numpy()[runs], minlength=size),
        calls[:, 1],
        np.bincount(opened[phase_ranges], minlength=size),
    )
    return pl.DataFrame(
        {
            "process": np.arange(size, dtype=np.int32),
            **dict(zip(PROCESS_COUNTS, counts, strict=True)),
        }
    )


def rank_evidence(
    processes: pl.DataFrame, counts: pl.DataFrame, *, cuda: bool
) -> list[RankEvidence]:
    """Look at each process that does a rank's work.

    That is a process that opened ranges of a phase, ran kernels, or asked for launches; others
    (an API server that asks for the number of GPUs, a scheduler that only marks) are left out.

    Args:
        processes: The trace's table of processes.
        counts: See `process_counts`.
        cuda: Whether CUDA was traced; if not, only ranges are looked for.

    Returns:
        One row a process, ordered by rank, then process id.
    """
    works = pl.any_horizontal(pl.col("phase_ranges", KERNELS, "asking_launches") > 0)
    table = processes.join(counts.filter(works), on="process", maintain_order="left")
    rows = table.sort("rank", "process_id", nulls_last=True, maintain_order=True).select(
        "process_id", "name", "rank", RANGES, LAUNCHES, KERNELS
    )
    needed = (RANGES, LAUNCHES, KERNELS) if cuda else (RANGES,)
    return [
        RankEvidence(**row, lacks=tuple(part for part in needed if not row[part]))
        for row in rows.iter_rows(named=True)
    ]


def completeness_lines(
    ranks: Sequence[RankEvidence], *, cuda: bool, expected: int | None = None
) -> list[str]:
    """What to tell the user: one line a rank that lacks something, else one line in all.

    Args:
        ranks: What `rank_evidence` found.
        cuda: Whether CUDA was traced.
        expected: How many ranks the engine itself says it has; None when it does not.
    """
    needed = "ranges, launches and kernels" if cuda else "ranges"
    lines = [str(each) for each in ranks if each.lacks]
    if expected is not None and len(ranks) < expected:
        lines.append(
            f"{len(ranks)} of {expected} ranks are in the report: a worker that is killed while it "
            "is recorded leaves nothing; let the window close before the server ends"
        )
    if not ranks:
        return [f"no process left {needed} of a phase: see `traceanalyzer hooks status`"]
    if lines:
        return lines
    return [f"{len(ranks)} {'rank' if len(ranks) == 1 else 'ranks'}, each with {needed}"]
