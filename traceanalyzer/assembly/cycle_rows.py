"""Cycles one by one: all of them, or so many whole ones as a report has room for.

A whole cycle is what several ranks run together; it is listed with all of them or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.assembly.buckets import bucket_order
from traceanalyzer.phases.cycles import STATES
from traceanalyzer.report import CycleRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.assembly.timing import Timing

    Int64s = NDArray[np.int64]

ROWS_LISTED: Final = 4_000

_BY_ORDER: Final = 1 << 40
"""Identities from here on are the order of a cycle on its rank: no number tells which it is."""
_SLOWEST_SHARE: Final = 0.25
_FASTEST_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True)
class KeptCycles:
    """What is known of the kept cycles beside their times.

    Attributes:
        ranks: Rank number of each lane.
        groups: Lanes that run their cycles together; every lane is in one.
        number: The hooks' number of each kept cycle, -1 without.
        accepted: Accepted drafts of each, None where no mark tells.
    """

    ranks: Sequence[int]
    groups: Sequence[Sequence[int]]
    number: Int64s
    accepted: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class ListedCycles:
    """The rows that a report lists, of how many, and the phases of their windows."""

    phases: list[str]
    rows: list[CycleRow]
    of: int


def listed_cycles(timing: Timing, kept: KeptCycles, limit: int = ROWS_LISTED) -> ListedCycles:
    """The kept cycles of every rank, by cycle and rank.

    Args:
        timing: The cycles with the time in them.
        kept: The rest that is known of them.
        limit: How many rows to list at most.
    """
    cycles = np.flatnonzero(timing.kept())
    whole = _whole_cycles(timing, kept, cycles)
    period = timing.cycles.spans.duration_ns[cycles]
    chosen = np.flatnonzero(chosen_cycles(whole, period, limit)[whole])
    labels = np.flatnonzero(timing.time.window[cycles].any(axis=0))
    place = {number: place for place, number in enumerate(bucket_order(timing))}
    lane, bucket = timing.cycles.spans.lane[cycles], timing.buckets["bucket"].to_numpy()
    first_ns = int(timing.cycles.spans.start_ns[cycles].min()) if cycles.size else 0
    rows = []
    order = chosen[np.lexsort((lane[chosen], whole[chosen]))]
    windows = timing.time.window[np.ix_(cycles[order], labels)].tolist()
    for row, windows_ns in zip(order.tolist(), windows, strict=True):
        cycle, number = int(cycles[row]), int(kept.number[row])
        rows.append(
            CycleRow(
                rank=kept.ranks[lane[row]],
                cycle=int(whole[row]),
                bucket=place[int(bucket[cycle])],
                number=number if number >= 0 else None,
                start_ns=int(timing.cycles.spans.start_ns[cycle]) - first_ns,
                period_ns=int(period[row]),
                windows_ns=windows_ns,
                accepted_drafts=kept.accepted[row],
                state=STATES[timing.cycles.state[cycle]],
            )
        )
    return ListedCycles([timing.labels[label] for label in labels], rows, int(cycles.size))


def _whole_cycles(timing: Timing, kept: KeptCycles, cycles: Int64s) -> Int64s:
    """Number of the whole cycle of each kept one, by start on the first rank that runs it.

    Ranks of a group share the cycles of one number, and where there is none of one order.
    """
    spans = timing.cycles.spans
    lane = spans.lane[cycles]
    order = cycles - np.searchsorted(spans.lane, lane)
    group_of = np.zeros(len(kept.ranks), np.int64)
    for group, lanes in enumerate(kept.groups):
        group_of[list(lanes)] = group
    table = pl.DataFrame(
        {
            "lane": lane,
            "group": group_of[lane],
            "identity": np.where(kept.number > 0, kept.number, _BY_ORDER + order),
            "start_ns": spans.start_ns[cycles],
        }
    ).with_columns(again=pl.int_range(pl.len()).over("lane", "identity"))
    keys = ["group", "identity", "again"]
    first = (
        table.unique(keys, keep="first", maintain_order=True)
        .sort("start_ns", "group", "identity", "again")
        .with_row_index("whole")
    )
    found = table.join(first.select(*keys, "whole"), on=keys, how="left", maintain_order="left")
    return found["whole"].cast(pl.Int64).to_numpy()


def chosen_cycles(whole: Int64s, period_ns: Int64s, limit: int) -> NDArray[np.bool_]:
    """Which whole cycles to list: all, or the slowest, the fastest and evenly spaced others.

    Args:
        whole: Whole cycle of each row, numbered from 0.
        period_ns: Period of each row; a whole cycle's is that of its slowest rank.
        limit: How many rows there may be.

    Returns:
        One element a whole cycle.
    """
    size = int(whole.max(initial=-1)) + 1
    if whole.size <= limit:
        return np.ones(size, bool)
    slowest_rank = np.zeros(size, np.int64)
    np.maximum.at(slowest_rank, whole, period_ns)
    room = limit // int(np.bincount(whole).max())
    chosen = np.zeros(size, bool)
    by_period = np.argsort(slowest_rank, kind="stable")
    chosen[by_period[size - int(np.ceil(_SLOWEST_SHARE * room)) :]] = True
    chosen[by_period[: int(_FASTEST_SHARE * room)]] = True
    others = np.flatnonzero(~chosen)
    more = room - int(chosen.sum())
    chosen[others[np.arange(more) * others.size // max(more, 1)]] = True
    return chosen
