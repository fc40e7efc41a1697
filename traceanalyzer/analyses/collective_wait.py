"""How much of the time in collectives is only waiting for a late rank, and which rank that is.

Where all ranks of a group end together, the wait of a rank is the last start less its own, and
the rest is transfer. Where a start is no arrival or a rank is missing, no wait is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Intervals
from traceanalyzer.kernels.collectives import family_of_ops, shipped_families
from traceanalyzer.phases.collective_matching import (
    BY_ORDER,
    NO_IDENTITY,
    clock_offsets,
    identities,
    match,
)
from traceanalyzer.phases.device_work import (
    CoveredTime,
    Stretches,
    idle_lateness,
    label_before,
    starts_early,
    work_beside,
    worked_until_start,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.parallel_groups import ParallelGroup
    from traceanalyzer.phases.phased import PhasedTrace

    Bools = NDArray[np.bool_]
    Int64s = NDArray[np.int64]

REASONS: Final = (
    "separated",
    "family",
    "ranks missing",
    "no cycle numbers",
    "no counterpart",
    "clocks",
    "not at once",
    "early start",
    "ends apart",
    "beyond the group",
)
"""What became of a collective op: its wait is known, or the first thing that stands against it.

In this order: its family does not end together; not all ranks of the group are in the trace; files
whose cycles have no numbers; not on every rank as often; too few to align the clocks of several
files; no instant at which all ranks are in it; it starts before its stream is free (programmatic
dependent launch), so the start is no arrival; its ends lie apart; ranks of another data-parallel
group are, or may be, in it.
"""

(
    SEPARATED,
    FAMILY,
    RANKS_MISSING,
    NO_NUMBERS,
    NO_COUNTERPART,
    CLOCKS,
    NOT_AT_ONCE,
    EARLY_START,
    ENDS_APART,
    BEYOND_GROUP,
) = range(len(REASONS))

RESOLVABLE: Final = 3
"""How many times the clock error a difference between ranks must be to count."""

_ERROR_QUANTILE: Final = 0.95
_FEWEST_TO_ALIGN: Final = 16
_EARLY_SHARE: Final = 0.05
"""Share of a kernel's collectives with an early start above which no start of it is believed."""
_APART_SHARE: Final = 0.5
"""Median distance of a kernel's ends over its median transfer, above which they lie apart."""
_SAME_END_NS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of any number of processes, and what their own devices tell of them.

    Attributes:
        ops: One row a collective op with times: op (any number, unique), lane, cycle (-1
            outside), label, class (place in `CLASSES`), family (place in `shipped_families()`),
            identity (see `identities`), name (row in names), start_ns, end_ns, early (it starts
            before its stream is free), before (label of the op that ended last before it, -1 for
            none), and the time that anything ran on its device until it starts and ends:
            worked_until_start_ns, worked_until_end_ns (of one lane their differences count).
        beside: When another kernel of a phase runs during one, disjoint.
    """

    ops: pl.DataFrame
    beside: Intervals


@dataclass(frozen=True, slots=True)
class CollectiveWaits:
    """The collectives of one group.

    Attributes:
        group: The ranks.
        one_session: Whether one file, and with it one clock, holds all of its ranks.
        clock_error_ns: How far the ends of separated collectives lie apart between ranks, 95th
            percentile; None when none was separated.
        ops: One row a collective op of the group's ranks, by row, its keys narrow: op, lane, cycle
            (-1 outside), label, class, family (see `Collectives`), reason (place in `REASONS`),
            duration_ns. Of separated ones, else null: collective (its number), wait_ns,
            exposed_ns (the wait in which no other kernel of a phase runs on the device), spread_ns
            (last start less first), lateness_ns (own start less first), idle_ns (the lateness in
            which the device had nothing to run since the collective before). On the row of the
            rank that started last, by a spread that the clocks resolve (of equals the lower lane),
            else null: cost_ns (the longest exposed wait of the others) and before (label of the
            op that ended last before it; -1 for none).
    """

    group: ParallelGroup
    one_session: bool
    clock_error_ns: int | None
    ops: pl.DataFrame


@dataclass(frozen=True, slots=True)
class _Matched:
    """Matched collectives; arrays of shape (collectives, lanes), the last two (collectives,).

    `place` is a row of the frame of ops; times are on the clock of the first lane.
    """

    place: Int64s
    start_ns: Int64s
    end_ns: Int64s
    name: Int64s
    reason: Int64s

    def take(self, rows: Bools) -> _Matched:
        """Some of the collectives."""
        parts = self.place, self.start_ns, self.end_ns, self.name, self.reason
        return _Matched(*(part[rows] for part in parts))

    def end_spread_ns(self) -> Int64s:
        """How far the ends of each collective lie apart."""
        return np.asarray(self.end_ns.max(axis=1) - self.end_ns.min(axis=1))


def collectives_of(phased: PhasedTrace, order: DeviceOrder, class_of_op: Int64s) -> Collectives:
    """The collectives of a trace.

    Args:
        phased: A trace with settled phases.
        order: Its ops in the order of their starts.
        class_of_op: Class of each op, see `class_of_ops`.
    """
    family = family_of_ops(phased.trace, class_of_op)
    op = np.flatnonzero((family >= 0) & phased.collected)
    times = phased.ops.take(op)
    worked = worked_until_start(phased, order, op)
    ops = pl.DataFrame(
        {
            "op": op,
            "lane": times.lane,
            "cycle": phased.cycle[op],
            "label": phased.label[op],
            "class": class_of_op[op],
            "family": family[op],
            "identity": identities(phased, op),
            "name": phased.trace.ops["name"].to_numpy()[op].astype(np.int64),
            "start_ns": times.start_ns,
            "end_ns": times.end_ns,
            "early": starts_early(phased, order, op),
            "before": label_before(phased, op),
            "worked_until_start_ns": worked,
            "worked_until_end_ns": worked + times.duration_ns,
        }
    )
    return Collectives(ops, work_beside(phased, order, op))


def collective_waits(
    found: Collectives, group: ParallelGroup, files: Sequence[int]
) -> CollectiveWaits:
    """Match the collectives of a group and tell wait from transfer where times can.

    Args:
        found: Those of all lanes.
        group: The ranks.
        files: File, and with it the clock, of each lane of the trace.
    """
    lanes = np.array(group.lanes, np.int64)
    one_session = len({files[lane] for lane in group.lanes}) == 1
    ops = found.ops.filter(pl.col("lane").is_in(lanes)).with_columns(
        place=pl.int_range(pl.len()), duration_ns=pl.col("end_ns") - pl.col("start_ns")
    )
    reason = _without_match(ops, group, one_session=one_session)
    candidates = ops.filter(pl.Series(reason == NO_COUNTERPART))
    matched = _timed(ops, match(candidates, lanes.size), one_session=one_session)
    if matched.reason.size:
        _judge(ops, matched)
        if group.dp_size > 1:
            _judge_reach(found.ops, matched, group, files)
    reason[matched.place] = matched.reason[:, None]
    known = matched.take(matched.reason == SEPARATED)
    error = _clock_error(known)
    table = ops.select(
        "op", "lane", "cycle", "label", "class", "family", "duration_ns"
    ).with_columns(reason=pl.Series(reason, dtype=pl.Int8))
    columns = _wait_columns(ops, found.beside, known, error)
    del ops
    return CollectiveWaits(group, one_session, error, _with_waits(table, known.place, columns))


def _without_match(ops: pl.DataFrame, group: ParallelGroup, *, one_session: bool) -> Int64s:
    """Why ops are not even matched; what may be matched has no counterpart yet."""
    together = np.array([family.ends_together for family in shipped_families()])
    separable = together[ops["family"].to_numpy()]
    reason = np.where(separable, NO_COUNTERPART, FAMILY).astype(np.int64)
    if not group.complete or len(group.lanes) == 1:
        reason[separable] = RANKS_MISSING
    elif not one_session:
        numbered = ops["identity"].is_between(NO_IDENTITY, BY_ORDER, closed="none").to_numpy()
        reason[separable & ~numbered] = NO_NUMBERS
    return reason


def _timed(ops: pl.DataFrame, place: Int64s, *, one_session: bool) -> _Matched:
    """Matched collectives on one clock."""
    start, end = ops["start_ns"].to_numpy()[place], ops["end_ns"].to_numpy()[place]
    reason = np.full(len(place), SEPARATED, np.int64)
    if not one_session and reason.size:
        offset = clock_offsets(end)
        start, end = start - offset, end - offset
        if reason.size < _FEWEST_TO_ALIGN:
            reason[:] = CLOCKS
    return _Matched(place, start, end, ops["name"].to_numpy()[place[:, 0]], reason)


def _judge(ops: pl.DataFrame, found: _Matched) -> None:
    """Set the reason of collectives whose times tell no wait."""
    _refuse(found, found.start_ns.max(axis=1) >= found.end_ns.min(axis=1), NOT_AT_ONCE)
    early: Bools = np.logical_or.reduce(ops["early"].to_numpy()[found.place], axis=1)
    for name in np.unique(found.name):
        own = np.asarray(found.name == name)
        if early[own].mean() > _EARLY_SHARE:
            early |= own
    _refuse(found, early, EARLY_START)
    for name in np.unique(found.name):
        own = np.logical_and(found.name == name, found.reason == SEPARATED)
        if own.any():
            kept = found.take(own)
            transfer = np.median(kept.end_ns.max(axis=1) - kept.start_ns.max(axis=1))
            if np.median(kept.end_spread_ns()) > _APART_SHARE * transfer:
                _refuse(found, own, ENDS_APART)


def _refuse(found: _Matched, rows: Bools, reason: int) -> None:
    found.reason[rows & (found.reason == SEPARATED)] = reason


def _judge_reach(
    ops: pl.DataFrame, found: _Matched, group: ParallelGroup, files: Sequence[int]
) -> None:
    """Refuse kernels that end together with those of another data-parallel group as well.

    Their last rank may be outside the group. Where the other groups cannot be looked at on the
    same clock, every collective may be such a one.
    """
    others = np.setdiff1d(np.arange(len(files)), group.lanes)
    if others.size < (group.dp_size - 1) * group.tp_size or len(set(files)) > 1:
        _refuse(found, np.ones(found.reason.size, bool), BEYOND_GROUP)
        return
    error = _clock_error(found.take(found.reason == SEPARATED))
    tolerance = max(_SAME_END_NS, RESOLVABLE * (error or 0))
    for name in np.unique(found.name):
        own = np.asarray(found.name == name)
        ends = found.end_ns[own].max(axis=1)
        for lane in others:
            same = ops.filter(pl.col("name") == name, pl.col("lane") == lane)
            theirs = same["end_ns"].sort().to_numpy()
            if theirs.size and (_distance(ends, theirs) <= tolerance).mean() > _APART_SHARE:
                _refuse(found, own, BEYOND_GROUP)


def _distance(instants: Int64s, others: Int64s) -> Int64s:
    """From each instant to the nearest of others, which are sorted and not empty."""
    place = np.searchsorted(others, instants)
    after = others[np.minimum(place, others.size - 1)]
    before = others[np.maximum(place - 1, 0)]
    return np.minimum(np.abs(after - instants), np.abs(instants - before))


def _clock_error(known: _Matched) -> int | None:
    if not known.reason.size:
        return None
    spread = known.end_spread_ns()
    return int(np.quantile(spread, _ERROR_QUANTILE, method="inverted_cdf"))


def _with_waits(table: pl.DataFrame, place: Int64s, columns: dict[str, Int64s]) -> pl.DataFrame:
    """The table of all ops with what is known of the separated ones; `columns` is empty then."""
    found = []
    for name in [*columns]:
        values = np.full(table.height, _NONE, np.int64)
        values[place] = columns.pop(name)
        column = pl.Series(name, values)
        column = column.set(column == _NONE, None)
        found.append(column.cast(_NARROW.get(name, pl.Int64())))
    return table.with_columns(found)


_NARROW: Final[dict[str, pl.DataType]] = {"collective": pl.Int32(), "before": pl.Int8()}
_NONE: Final = -(1 << 62)
"""Stands for null in arrays."""


def _wait_columns(
    ops: pl.DataFrame, beside: Intervals, known: _Matched, error_ns: int | None
) -> dict[str, Int64s]:
    """What is known of the separated ops, of the shape of `known.place`."""
    times = _own_times(ops, known.place)
    first = known.start_ns.min(axis=1, keepdims=True)
    last = known.start_ns.max(axis=1, keepdims=True)
    wait, spread = last - known.start_ns, np.broadcast_to(last - first, known.place.shape)
    lane = ops["lane"].cast(pl.Int64).to_numpy()[known.place]
    # Lane after lane: instants in order are found in a third of the time.
    own, waits = (each.T.ravel() for each in (times.start_ns, wait))
    waiting = Intervals(lane.T.ravel(), own, own + waits)
    beside_ns = CoveredTime(beside).within(waiting).reshape(wait.T.shape).T
    exposed = wait - beside_ns
    number = np.arange(len(wait))
    is_late = np.zeros(wait.shape, bool)
    is_late[number, known.start_ns.argmax(axis=1)] = True
    is_late &= (spread > 0) & (spread >= RESOLVABLE * (error_ns or 0))
    before = ops["before"].cast(pl.Int64).to_numpy()[known.place]
    return {
        "collective": np.broadcast_to(number[:, None], wait.shape),
        "wait_ns": wait,
        "exposed_ns": exposed,
        "spread_ns": spread,
        "lateness_ns": known.start_ns - first,
        "idle_ns": idle_lateness(times, known.start_ns - first),
        "cost_ns": np.where(is_late, exposed.max(axis=1, keepdims=True), _NONE),
        "before": np.where(is_late, before, _NONE),
    }


def _own_times(ops: pl.DataFrame, place: Int64s) -> Stretches:
    """Times of the ops at some places, each on its own clock."""
    columns = ("start_ns", "end_ns", "worked_until_start_ns", "worked_until_end_ns")
    return Stretches(*(ops[column].to_numpy()[place] for column in columns))
