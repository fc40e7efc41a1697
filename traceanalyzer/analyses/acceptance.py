"""How many drafts the target accepted, as the hooks' marks tell it.

Counts are accepted drafts per request and cycle, the bonus token left out; `accept_len` has it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from nvtx_hooks.vocabulary import ACCEPT, ACCEPT_COUNT, OVERSHOOT, Flags
from traceanalyzer.phases.marks import read_marks
from traceanalyzer.phases.speakers import speakers
from traceanalyzer.report import Acceptance

if TYPE_CHECKING:
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


def accepted_by_cycle(trace: Trace, cycles: pl.DataFrame) -> list[int | None]:
    """Accepted drafts of all live requests of each cycle; None where no mark tells.

    Args:
        trace: Holds the marks.
        cycles: process and number (the hooks' cycle number) of each.
    """
    live = accepted_drafts(trace).filter(pl.col("flags").cast(pl.Int32) & int(_NOT_LIVE) == 0)
    told = live.group_by("process", "cycle").agg(
        accepted=(pl.col("accepted") * pl.col("count")).sum()
    )
    known = (
        cycles.select("process", "number")
        .unique()
        .join(speakers(trace, (ACCEPT, ACCEPT_COUNT)), on="process")
        .join(told, left_on=["speaker", "number"], right_on=["process", "cycle"])
        .sort("process", "number", "speaker")
        .unique(["process", "number"], keep="first", maintain_order=True)
    )
    found = cycles.join(known, on=["process", "number"], how="left", maintain_order="left")
    return found["accepted"].to_list()


@dataclass(frozen=True, slots=True)
class AcceptedInBucket:
    """What the marks tell about the kept cycles of one bucket.

    Attributes:
        counts: Rows of k, accepted drafts, and live request-cycles.
        by_request: Committed tokens and live request-cycles of each request; empty where marks do
            not tell requests apart.
        by_cycle: Committed tokens and live request-cycles of each cycle, in order.
        overshoot_tokens: Accepted but past the request's end.
        stale: Rows of k and request-cycles of finished requests that were verified once more.
        idle: Rows of k and request-cycles of padding.
    """

    counts: list[tuple[int, int, int]]
    by_request: list[tuple[int, int]]
    by_cycle: list[tuple[int, int]]
    overshoot_tokens: int
    stale: list[tuple[int, int]]
    idle: list[tuple[int, int]]


def accepted_by_bucket(trace: Trace, cycles: pl.DataFrame) -> dict[int, AcceptedInBucket]:
    """Acceptance of the cycles that may be averaged, by bucket.

    Args:
        trace: Holds the marks.
        cycles: Kept cycles: process, number (the hooks' cycle number), bucket. One rank of a
            tensor-parallel group speaks for all, see `speakers`.
    """
    of_cycle = (
        cycles.filter(pl.col("number") >= 0)
        .join(speakers(trace, (ACCEPT, ACCEPT_COUNT)), on="process")
        .select("speaker", "bucket", cycle="number")
        .unique(["speaker", "cycle"], keep="first", maintain_order=True)
    )
    rows = _in_buckets(accepted_drafts(trace), of_cycle).with_columns(
        live=pl.col("flags").cast(pl.Int32) & int(_NOT_LIVE) == 0,
        tokens=(pl.col("accepted") + 1) * pl.col("count"),
    )
    lost = _in_buckets(read_marks(trace, OVERSHOOT), of_cycle)
    live = rows.filter("live")
    counts = _summed(live, ["k", "accepted"], "count")
    by_cycle = _committed(live, lost, ["process", "cycle"])
    by_request = _committed(live, lost, ["process", "request"])
    unknown = set(live.filter(pl.col("request").fill_null(0) == 0)["bucket"])
    overshoot = dict(lost.group_by("bucket").agg(pl.sum("tokens")).iter_rows())
    stale, idle = (
        _summed(rows.filter(pl.col("flags").cast(pl.Int32) & int(flag) != 0), ["k"], "count")
        for flag in (Flags.STALE, Flags.IDLE)
    )
    return {
        bucket: AcceptedInBucket(
            counts=counts.get(bucket, []),
            by_request=[] if bucket in unknown else by_request.get(bucket, []),
            by_cycle=by_cycle.get(bucket, []),
            overshoot_tokens=int(overshoot.get(bucket, 0)),
            stale=stale.get(bucket, []),
            idle=idle.get(bucket, []),
        )
        for bucket in rows["bucket"].unique(maintain_order=True).to_list()
    }


def _in_buckets(marks: pl.DataFrame, of_cycle: pl.DataFrame) -> pl.DataFrame:
    """Marks of the cycles that have a bucket, cycle by cycle."""
    return marks.join(
        of_cycle, left_on=["process", "cycle"], right_on=["speaker", "cycle"], how="inner"
    ).sort("process", "cycle", maintain_order=True)


def _committed(
    live: pl.DataFrame, lost: pl.DataFrame, by: list[str]
) -> dict[int, list[tuple[Any, ...]]]:
    """Committed tokens (overshoot taken off) and request-cycles of each group, by bucket."""
    keys = ["bucket", *by]
    taken = lost.group_by(keys).agg(lost_tokens=pl.sum("tokens"))
    groups = (
        live.group_by(keys, maintain_order=True)
        .agg(pl.sum("tokens"), pl.sum("count"))
        .join(taken, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .select("bucket", pl.col("tokens") - pl.col("lost_tokens").fill_null(0), "count")
    )
    return _by_bucket(groups)


def _summed(rows: pl.DataFrame, by: list[str], value: str) -> dict[int, list[tuple[Any, ...]]]:
    """Sums of each group in order of appearance, by bucket."""
    groups = rows.group_by(["bucket", *by], maintain_order=True).agg(pl.sum(value))
    return _by_bucket(groups.select("bucket", *by, value))


def _by_bucket(groups: pl.DataFrame) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for bucket, *values in groups.iter_rows():
        found.setdefault(bucket, []).append(tuple(values))
    return found
