"""Which ops of several ranks are the same collective, and how their clocks relate.

Collectives are matched by cycle number and by their order within phase and kernel. Clocks of
different files are brought together by the ends of matched collectives, never by wall clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.phases.grouping import distinct, ordered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

NO_IDENTITY: Final = -1
BY_ORDER: Final = 2 << 40
"""Identities from here on are the order of a cycle on its rank: no number tells which it is."""

_BY_CYCLE: Final = 1 << 40
_BLOCK: Final = 64
"""Collectives that share one clock offset: short enough for the drift of two hosts' clocks, long
enough that what remains in it is the error."""


def identities(phased: PhasedTrace, ops: Int64s) -> Int64s:
    """Which cycle each op was launched for, comparable between ranks.

    Args:
        phased: The trace.
        ops: Rows in `trace.ops`.

    Returns:
        The cycle number of the op's own phase range, else that of the cycle it runs in, else
        (`BY_ORDER` and above) the order of that cycle on its rank, else `NO_IDENTITY`.
    """
    number, cycles = phased.spans.number, phased.cycles
    own = np.append(number, -1)[phased.attribution.span[ops]]
    cycle = phased.cycle[ops]
    of_cycle = np.append(number[cycles.forward], -1)[cycle]
    order = cycle - np.searchsorted(cycles.spans.lane, phased.ops.lane[ops])
    return np.select(
        [own > 0, of_cycle > 0, cycle >= 0],
        [own, of_cycle + _BY_CYCLE, order + BY_ORDER],
        NO_IDENTITY,
    )


def match(ops: pl.DataFrame, lanes: int) -> Int64s:
    """Put the ops of all lanes together that are one collective.

    Args:
        ops: place (any number, ascending), lane, identity, label, name, start_ns.
        lanes: How many lanes there have to be.

    Returns:
        Shape (collectives, lanes): the place of each lane's op, lanes ascending, by the first
        lane's start. Where the lanes do not have equally many ops of one identity, label and
        name, their order says nothing and none of those is matched.
    """
    ops = ops.filter(pl.col("identity") != NO_IDENTITY)
    alike = np.zeros(ops.height, np.int64)
    for column in ("identity", "label", "name"):
        known, (place,) = distinct(_ints(ops[column]))
        kinds, (alike,) = distinct(alike * max(known.size, 1) + place)
    known, (lane,) = distinct(_ints(ops["lane"]))
    if known.size != lanes:
        return np.zeros((0, lanes), np.int64)
    start_ns, slot = ops["start_ns"].to_numpy(), alike * lanes + lane
    count = np.bincount(slot, minlength=kinds.size * lanes)
    before = np.cumsum(count) - count
    rows = ordered(slot, start_ns)
    slot = slot[rows]
    nth = np.arange(rows.size) - before[slot]
    count = count.reshape(-1, lanes)
    matched = (count == count[:, :1]).all(axis=1)
    size = np.where(matched, count[:, 0], 0) * lanes
    kept = matched[alike[rows]]
    row, slot, nth = rows[kept], slot[kept], nth[kept]
    by_collective = np.empty(row.size, np.int64)
    by_collective[(np.cumsum(size) - size)[slot // lanes] + nth * lanes + slot % lanes] = row
    found = by_collective.reshape(-1, lanes)
    found = found[np.argsort(start_ns[found[:, 0]], kind="stable")]
    return _ints(ops["place"])[found]


def _ints(column: pl.Series) -> Int64s:
    return column.cast(pl.Int64).to_numpy()


def clock_offsets(end_ns: Int64s) -> Int64s:
    """How far each lane's clock is ahead of the first lane's at each collective.

    Args:
        end_ns: Shape (collectives, lanes), by time: ends of collectives that end together.

    Returns:
        The same shape: medians over blocks of consecutive collectives, ns.
    """
    offsets = np.zeros(end_ns.shape, np.int64)
    behind = end_ns - end_ns[:, :1]
    blocks = max(1, len(end_ns) // _BLOCK)
    for rows in np.array_split(np.arange(len(end_ns)), blocks):
        if rows.size:
            offsets[rows] = np.rint(np.median(behind[rows], axis=0)).astype(np.int64)
    return offsets
