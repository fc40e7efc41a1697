"""How many drafts the target accepted, as the hooks' marks tell it.

Counts are accepted drafts per request and cycle, the bonus token left out; `accept_len` has it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from nvtx_hooks.vocabulary import ACCEPT, ACCEPT_COUNT, OVERSHOOT, Flags
from traceanalyzer.phases.marks import read_marks
from traceanalyzer.report import Acceptance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.trace import Trace

_NOT_LIVE = Flags.WARM_UP | Flags.CAPTURE | Flags.DUMMY | Flags.IDLE | Flags.STALE


def accepted_drafts(trace: Trace) -> pl.DataFrame:
    """Accepted drafts of every request in every cycle.

    Returns:
        One row a mark: process, cycle, request (null where several share a row), k, accepted,
        flags, count (requests in the row).
    """
    single = read_marks(trace, ACCEPT).with_columns(count=pl.lit(1, pl.Int64))
    several = read_marks(trace, ACCEPT_COUNT).with_columns(request=pl.lit(None, pl.Int64))
    columns = ("process", "cycle", "request", "k", "accepted", "flags", "count")
    return pl.concat([single.select(columns), several.select(columns)])


def acceptance_of(trace: Trace) -> Acceptance | None:
    """The acceptance that the marks tell; None without marks.

    A request-cycle is live when it is none of warm-up, graph capture, dummy, idle or stale (a
    finished request verified once more under an overlap scheduler).
    """
    rows = accepted_drafts(trace)
    if not rows.height:
        return None
    live = rows.filter(pl.col("flags").cast(pl.Int32) & int(_NOT_LIVE) == 0)
    overshoot = _overshoot_tokens(trace)
    committed = _total(live, pl.col("accepted") + 1) - overshoot
    request_cycles = _total(live, pl.lit(1))
    return Acceptance(
        source="accept marks",
        request_cycles=_total(rows, pl.lit(1)),
        live_request_cycles=request_cycles,
        stale_request_cycles=_total(_flagged(rows, Flags.STALE), pl.lit(1)),
        accepted_drafts_histogram=_histogram(rows),
        live_accepted_drafts_histogram=_histogram(live),
        overshoot_tokens=overshoot,
        committed_tokens=committed,
        accept_len=committed / request_cycles if request_cycles else None,
    )


def _flagged(rows: pl.DataFrame, flag: Flags) -> pl.DataFrame:
    return rows.filter(pl.col("flags").cast(pl.Int32) & int(flag) != 0)


def _total(rows: pl.DataFrame, value: pl.Expr) -> int:
    return int(rows.select((value * pl.col("count")).sum()).item() or 0)


def _histogram(rows: pl.DataFrame) -> list[int]:
    """Request-cycles by accepted drafts, from 0 up."""
    counted = dict(rows.group_by("accepted").agg(pl.col("count").sum()).iter_rows())
    return [int(counted.get(number, 0)) for number in range(max(counted, default=-1) + 1)]


def _overshoot_tokens(trace: Trace) -> int:
    """Tokens past a request's end, which were accepted but never sent."""
    return int(read_marks(trace, OVERSHOOT)["tokens"].sum())


@dataclass(frozen=True, slots=True)
class AcceptedInBucket:
    """What the marks tell about the kept cycles of one bucket.

    Attributes:
        cycles: Distinct cycles with accept marks.
        counts: Rows of k, accepted drafts, and live request-cycles.
        by_request: Committed tokens and live request-cycles of each request; empty where marks do
            not tell requests apart.
        by_cycle: Committed tokens and live request-cycles of each cycle, in order.
        overshoot_tokens: Accepted but past the request's end.
        stale: Request-cycles of finished requests that were verified once more.
        idle: Request-cycles of padding.
    """

    cycles: int
    counts: list[tuple[int, int, int]]
    by_request: list[tuple[int, int]]
    by_cycle: list[tuple[int, int]]
    overshoot_tokens: int
    stale: int
    idle: int


def accepted_by_bucket(trace: Trace, cycles: pl.DataFrame) -> dict[int, AcceptedInBucket]:
    """Acceptance of the cycles that may be averaged, by bucket.

    Args:
        trace: Holds the marks.
        cycles: Kept cycles: process, number (the hooks' cycle number), bucket. Ranks of a
            tensor-parallel group run the same cycles and one of them speaks for all, so where a
            single process speaks its numbers hold for every process.
    """
    rows = accepted_drafts(trace).join(
        read_marks(trace, OVERSHOOT).group_by("process", "cycle", "request").agg(pl.sum("tokens")),
        on=["process", "cycle", "request"],
        how="left",
        maintain_order="left",
    )
    key = ["cycle"] if rows["process"].n_unique() == 1 else ["process", "cycle"]
    known = cycles.filter(pl.col("number") >= 0).rename({"number": "cycle"})
    of_cycle = known.unique(key, keep="first", maintain_order=True).select(*key, "bucket")
    found = rows.join(of_cycle, on=key, how="inner", maintain_order="left").with_columns(
        live=pl.col("flags").cast(pl.Int32) & int(_NOT_LIVE) == 0,
        overshoot=pl.col("tokens").fill_null(0),
    )
    ordered = found.sort("process", "cycle", maintain_order=True)
    return {
        int(bucket): _in_bucket(group)
        for (bucket,), group in ordered.group_by("bucket", maintain_order=True)
    }


def _in_bucket(rows: pl.DataFrame) -> AcceptedInBucket:
    live = rows.filter("live").with_columns(
        committed=(pl.col("accepted") + 1) * pl.col("count") - pl.col("overshoot")
    )
    told = live["request"].fill_null(0).ne(0).all()
    return AcceptedInBucket(
        cycles=live.select("process", "cycle").n_unique(),
        counts=_summed(live, ["k", "accepted"], keep=["k", "accepted", "count"]),
        by_request=_summed(live, ["process", "request"]) if told else [],
        by_cycle=_summed(live, ["process", "cycle"]),
        overshoot_tokens=int(live["overshoot"].sum()),
        stale=_total(_flagged(rows, Flags.STALE), pl.lit(1)),
        idle=_total(_flagged(rows, Flags.IDLE), pl.lit(1)),
    )


def _summed(
    rows: pl.DataFrame, by: list[str], *, keep: Sequence[str] = ("committed", "count")
) -> list[tuple[Any, ...]]:
    """Committed tokens and request-cycles of each group, in order of appearance."""
    groups = rows.group_by(by, maintain_order=True)
    return groups.agg(pl.sum("committed"), pl.sum("count")).select(keep).rows()
