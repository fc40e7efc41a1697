"""What is told of each cycle: its number, its period beside its like, and its accepted drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from nvtx_hooks.vocabulary import Flags
from traceanalyzer.analyses.timeline_lanes.model import NONE, CycleFacts
from traceanalyzer.phases.cycles import KEPT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

_NOT_LIVE: Final = Flags.WARM_UP | Flags.CAPTURE | Flags.DUMMY | Flags.IDLE | Flags.STALE


def cycle_facts(phased: PhasedTrace, bucket: Int64s, accepted: pl.DataFrame) -> CycleFacts:
    """Facts about every cycle, in the order of `phased.cycles`.

    Args:
        phased: A trace with settled phases.
        bucket: Bucket of each cycle, within which periods are comparable.
        accepted: Accept marks: process, cycle, k, accepted, flags, count.
    """
    cycles = phased.cycles
    lane, size = cycles.spans.lane, cycles.spans.size
    first_of_lane = np.searchsorted(lane, lane)
    number = phased.spans.number[cycles.forward]
    process = np.array(phased.ranks.process, np.int64)[lane]
    drafted, accepted_drafts = _judged(accepted, process, number)
    return CycleFacts(
        group=lane,
        ordinal=np.arange(size) - first_of_lane + 1,
        number=number,
        state=cycles.state,
        start_ns=cycles.spans.start_ns,
        end_ns=cycles.spans.end_ns,
        host_start_ns=_host_start(phased),
        drafted=drafted,
        accepted=accepted_drafts,
        usual_ns=_usual_period(phased, bucket),
    )


def _host_start(phased: PhasedTrace) -> Int64s:
    start = phased.cycles.spans.start_ns.copy()
    launch = phased.attribution.launch
    rows = np.flatnonzero((phased.cycle >= 0) & (launch >= 0))
    called = phased.trace.launches["start_ns"].to_numpy()[launch[rows]]
    np.minimum.at(start, phased.cycle[rows], called)
    return start


def _judged(accepted: pl.DataFrame, process: Int64s, number: Int64s) -> tuple[Int64s, Int64s]:
    """Drafts of live requests and how many were accepted, `NONE` without marks.

    One process of a tensor-parallel group speaks for all, so what a lone speaker says of a number
    holds in every process.
    """
    live = accepted.filter(pl.col("flags").cast(pl.Int32) & int(_NOT_LIVE) == 0)
    key = ["cycle"] if live["process"].n_unique() <= 1 else ["process", "cycle"]
    told = live.group_by(key).agg(
        drafted=(pl.col("k") * pl.col("count")).sum(),
        accepted=(pl.col("accepted") * pl.col("count")).sum(),
    )
    asked = pl.DataFrame(
        {"process": pl.Series(process, dtype=accepted.schema["process"]), "cycle": number}
    )
    found = asked.join(told, on=key, how="left", maintain_order="left").fill_null(NONE)
    return found["drafted"].to_numpy(), found["accepted"].to_numpy()


def _usual_period(phased: PhasedTrace, bucket: Int64s) -> Int64s:
    cycles = phased.cycles
    frame = pl.DataFrame(
        {"lane": cycles.spans.lane, "bucket": bucket, "period": cycles.spans.duration_ns}
    )
    kept = pl.Series(cycles.state == KEPT)
    usual = frame.filter(kept).group_by("lane", "bucket").agg(pl.col("period").median())
    found = frame.select("lane", "bucket").join(
        usual, on=["lane", "bucket"], how="left", maintain_order="left"
    )
    period = found["period"].fill_null(NONE).cast(pl.Int64).to_numpy()
    return np.where(kept.to_numpy(), period, NONE)
