"""How many drafts the target accepted, as the hooks' marks tell it.

Counts are accepted drafts per request and cycle, the bonus token left out; `accept_len` has it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nvtx_hooks.vocabulary import ACCEPT, ACCEPT_COUNT, OVERSHOOT, Flags
from traceanalyzer.phases.marks import read_marks
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
