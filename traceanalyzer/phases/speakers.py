"""Which process speaks for which: one rank of a tensor-parallel group writes its marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nvtx_hooks.vocabulary import ACCEPT, ACCEPT_COUNT, BATCH, RANKS, SIGNATURE, TOKENS
from traceanalyzer.phases.marks import read_marks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.trace import Trace


def speakers(trace: Trace, marks: Iterable[str]) -> pl.DataFrame:
    """The process whose marks of some names hold for each process.

    A lone speaker speaks for everybody. Of several, each speaks for the processes of its own
    data-parallel rank that say nothing themselves, as the processes told their ranks at the start.

    Args:
        trace: Holds the marks.
        marks: Names of marks; a scheduler may count acceptance while a worker tells batches.

    Returns:
        One row a process and speaker: process, speaker.
    """
    told = [read_marks(trace, mark).select("process") for mark in marks]
    speaking = pl.concat(told)["process"].unique(maintain_order=True)
    everyone = trace.processes.select("process")
    if speaking.len() == 1:
        return everyone.with_columns(speaker=pl.lit(speaking[0], everyone["process"].dtype))
    groups = read_marks(trace, RANKS).unique("process", keep="last").select("process", "dp_rank")
    talks = pl.col("process").is_in(speaking.implode())
    own = groups.filter(talks).select("dp_rank", speaker="process")
    heard = groups.filter(~talks).join(own, on="dp_rank").select("process", "speaker")
    themselves = everyone.with_columns(speaker=pl.col("process"))
    return pl.concat([heard, themselves]).sort("process", maintain_order=True)


def schedulers(trace: Trace) -> pl.Series:
    """Processes that plan steps or count acceptance, and run no step themselves.

    vLLM's scheduler is one: the model runs in the processes of its workers, which tell their
    batches and places in a tensor-parallel group.

    Returns:
        Their numbers, in order.
    """
    planning = _telling(trace, ACCEPT, ACCEPT_COUNT, SIGNATURE)
    placed = read_marks(trace, RANKS).filter(pl.col("tp_size") > 0)["process"]
    running = pl.concat([_telling(trace, BATCH, TOKENS), placed])
    return planning.filter(~planning.is_in(running.implode())).unique().sort()


def _telling(trace: Trace, *marks: str) -> pl.Series:
    return pl.concat([read_marks(trace, mark)["process"] for mark in marks])
