"""What kind of work fills each phase's busy time, by class and by kernel.

Within a phase the classes, and the kernels, add up to its busy time: where two ops of one stream
overlap the earlier keeps the time, and time in which several streams run is a row of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Intervals, Packing, sorted_rows, total_by
from traceanalyzer.kernels.classification import CLASSES
from traceanalyzer.phases.cycles import KEPT
from traceanalyzer.phases.device_work import small_codes
from traceanalyzer.phases.grouping import distinct, parted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.cycles import Cycles
    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.op_groups import OpGroups
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

ROWS: Final = (*CLASSES, "overlap across streams")
OVERLAP: Final = len(CLASSES)
OVERLAP_NAME: Final = -1
"""Stands for the name in the row of time in which ops of several streams ran."""
OTHER_NAMES: Final = -2
"""Stands for the name in the row of all kernels below the top."""


@dataclass(frozen=True, slots=True)
class BusyPieces:
    """A phase's busy time in disjoint pieces, each of one op or of several streams at once.

    Attributes:
        groups: The ops of the trace.
        own_ns: Of each op the pieces in the cycle in which it starts, or outside.
        group_ns: The same of each group.
        op: Row in `trace.ops` of each other piece, -1 where ops of several streams run.
        lane: Lane of each other piece.
        label: Its phase, a place in `PhasedTrace.labels`.
        cycle: Its cycle, -1 outside; no piece crosses a cycle's border.
        ns: Its length.
    """

    groups: OpGroups
    own_ns: Int64s
    group_ns: Int64s
    op: Int64s
    lane: Int64s
    label: Int64s
    cycle: Int64s
    ns: Int64s


def busy_pieces(phased: PhasedTrace, order: DeviceOrder, groups: OpGroups) -> BusyPieces:
    """Divide the busy time of every phase among its ops.

    Args:
        phased: A trace with settled phases.
        order: Its ops in the order of their starts.
        groups: Its ops by cycle, phase and kernel.
    """
    own_ns = np.zeros(phased.ops.size, np.int64)
    whole = order.alone()
    whole &= _within_cycle(phased, order)
    own_ns[order.op[whole]] = (order.end - order.start)[whole]
    # Most ops share no time with others: only the rest, and what crosses borders, is divided.
    op = order.op[~whole & (order.end > order.start)]
    labels = len(phased.labels)
    phase = phased.ops.lane[op] * labels + phased.label[op]
    stream, streams = small_codes(phased.trace.ops["stream_id"].to_numpy()[op])
    row, alone = _without_overlap(
        Intervals(phase * streams + stream, phased.ops.start_ns[op], phased.ops.end_ns[op])
    )
    alone = Intervals(phase[row], alone.start_ns, alone.end_ns)
    owner, spans = _told_apart(op[row], alone, several=streams > 1)
    part, cycle, ns = _cut_at_cycles(spans, labels, phased.cycles)
    lane, label = parted(spans.lane[part], labels)
    owner = owner[part]
    here = (owner >= 0) & (phased.cycle[owner] == cycle)
    np.add.at(own_ns, owner[here], ns[here])
    group_ns = total_by(groups.of_op, groups.ops.size, own_ns)
    others = (each[~here] for each in (owner, lane, label, cycle, ns))
    return BusyPieces(groups, own_ns, group_ns, *others)


def _within_cycle(phased: PhasedTrace, order: DeviceOrder) -> NDArray[np.bool_]:
    """Which ops, in order, start in a cycle and end in it; all where there are no cycles."""
    spans = phased.cycles.spans
    if not spans.size:
        return np.ones(order.op.size, bool)
    end_ns = np.append(spans.end_ns, np.iinfo(np.int64).min)
    return (phased.ops.end_ns <= end_ns[phased.cycle])[order.op]


def class_time(phased: PhasedTrace, pieces: BusyPieces) -> pl.DataFrame:
    """Busy time by cycle, phase and class.

    Args:
        phased: A trace with settled phases.
        pieces: Its busy time, see `busy_pieces`.

    Returns:
        One row a cycle (-1 outside), lane, label and class that has any, in that order: cycle,
        lane, label, class (place in `ROWS`), ops (those that start in the cycle, ops without
        times outside), busy_ns. Over all rows of a phase busy_ns is its busy time, in each cycle
        and over the whole trace.
    """
    labels, lanes, rows = len(phased.labels), phased.ranks.size, len(ROWS)
    groups = pieces.groups

    def key(lane: Int64s, cycle: Int64s, label: Int64s, row: Int64s) -> Int64s:
        return (phased.cycles.slots(lane, cycle, lanes) * labels + label) * rows + row

    table = _summed(
        key(groups.lane, groups.cycle, groups.label, groups.kernel_class),
        (pieces.group_ns, groups.ops),
        key(pieces.lane, pieces.cycle, pieces.label, _row_of_other(pieces)),
        pieces.ns,
    )
    rest, row = parted(table["key"].to_numpy(), rows)
    slot, label = parted(rest, labels)
    lane, cycle = phased.cycles.of_slots(slot, lanes)
    return pl.DataFrame(
        {
            "cycle": cycle,
            "lane": lane,
            "label": label,
            "class": row,
            "ops": table["ops"],
            "busy_ns": table["busy_ns"],
        }
    )


def kernel_time(phased: PhasedTrace, pieces: BusyPieces) -> pl.DataFrame:
    """Busy time by phase and kernel, over the kept cycles of all lanes.

    Args:
        phased: A trace with settled phases.
        pieces: Its busy time, see `busy_pieces`.

    Returns:
        One row a label, name (row in `trace.names`, or `OVERLAP_NAME`) and class (place in `ROWS`)
        that has any: these, ops (those that start in a kept cycle), busy_ns. Over all rows of a
        phase busy_ns is its busy time in kept cycles, lanes summed.
    """
    kept = np.append(phased.cycles.state == KEPT, False)
    names, rows, groups = phased.trace.names.height, len(ROWS), pieces.groups

    def key(label: Int64s, name: Int64s, row: Int64s) -> Int64s:
        return (label * (names + 1) + name) * rows + row

    inside, others = kept[groups.cycle], kept[pieces.cycle]
    name = np.append(groups.name, names)[_group_of_other(pieces)]
    table = _summed(
        key(groups.label, groups.name, groups.kernel_class)[inside],
        (pieces.group_ns[inside], groups.ops[inside]),
        key(pieces.label, name, _row_of_other(pieces))[others],
        pieces.ns[others],
    )
    rest, row = parted(table["key"].to_numpy(), rows)
    label, name = parted(rest, names + 1)
    name = np.where(name == names, OVERLAP_NAME, name)
    columns = {"label": label, "name": name, "class": row}
    return pl.DataFrame({**columns, "ops": table["ops"], "busy_ns": table["busy_ns"]})


def _row_of_other(pieces: BusyPieces) -> Int64s:
    """Place in `ROWS` of the other pieces."""
    return np.append(pieces.groups.kernel_class, OVERLAP)[_group_of_other(pieces)]


def _group_of_other(pieces: BusyPieces) -> Int64s:
    """Group of the ops of the other pieces, -1 for several."""
    return np.where(pieces.op >= 0, pieces.groups.of_op[pieces.op], -1)


def longest_names(time: pl.DataFrame, texts: pl.Series, top: int) -> pl.DataFrame:
    """The kernels of each phase that take most of its busy time.

    Args:
        time: See `kernel_time`; several tables of it one after another are added up.
        texts: The text of each name.
        top: How many names to list for each phase.

    Returns:
        By label and falling busy_ns: label, name (`OTHER_NAMES` and `OVERLAP_NAME` are the last
        two rows of a phase, where there are such), class (null for other names), ops, busy_ns.
    """
    found = time.group_by("label", "name", "class").agg(pl.sum("ops", "busy_ns"))
    names = pl.DataFrame({"text": texts}).select(pl.int_range(pl.len()).alias("name"), "text")
    return _ranked(found.join(names, on="name", how="left", maintain_order="left"), top)


def _without_overlap(ops: Intervals) -> tuple[Int64s, Intervals]:
    """What each op has to itself on its lane: all, or the end that no earlier one reaches.

    Of ops that start together the lower row keeps the time.

    Returns:
        Rows of the ops that have any, and their own time, by lane and start.
    """
    if not ops.size:
        return np.zeros(0, np.int64), ops
    packing = Packing.covering(int(ops.lane.max()) + 1, (ops.start_ns, ops.end_ns))
    key = packing.key(ops.lane, ops.start_ns)
    order = sorted_rows(key)
    start = key[order]
    end = packing.key(ops.lane, ops.end_ns)[order]
    np.maximum(start[1:], np.maximum.accumulate(end)[:-1], out=start[1:])
    if (hidden := start >= end).any():
        order, start, end = order[~hidden], start[~hidden], end[~hidden]
    return order, Intervals(packing.lane(start), packing.time(start), packing.time(end))


def _told_apart(owner: Int64s, spans: Intervals, *, several: bool) -> tuple[Int64s, Intervals]:
    """Disjoint spans on each lane: those of one owner, and (owner -1) those of several.

    Args:
        owner: Owner of each span.
        spans: Those of one stream do not overlap, those of several may.
        several: Whether there are several streams at all.
    """
    if not several or not spans.size:
        return owner, spans
    packing = Packing.covering(int(spans.lane.max()) + 1, (spans.start_ns, spans.end_ns))
    start = packing.key(spans.lane, spans.start_ns)
    order = sorted_rows(start)
    start, end = start[order], packing.key(spans.lane, spans.end_ns)[order]
    apart = start[1:] >= np.maximum.accumulate(end)[:-1]
    simple = np.append(True, apart) & np.append(apart, True)
    mixed = np.flatnonzero(~simple)
    if not mixed.size:
        return owner, spans
    one, begin, until = _swept(order[mixed], start[mixed], end[mixed])
    whole = order[simple]
    split = Intervals(packing.lane(begin), packing.time(begin), packing.time(until))
    return np.append(owner[whole], np.append(owner, -1)[one]), _joined(spans.take(whole), split)


def _swept(row: Int64s, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Stretches in which one row or several run: the row (-1 for several), start and end."""
    key = np.concatenate((start, end))
    step = np.repeat(np.array([1, -1]), row.size)
    order = sorted_rows(key)
    key, step, rows = key[order], step[order], np.concatenate((row, row))[order]
    running = np.cumsum(step)[:-1]
    # The sum of the rows that run is the row itself where only one does.
    one = np.where(running == 1, np.cumsum(step * rows)[:-1], -1)
    found = np.flatnonzero((key[1:] > key[:-1]) & (running > 0))
    return one[found], key[found], key[found + 1]


def _joined(first: Intervals, second: Intervals) -> Intervals:
    return Intervals(
        np.append(first.lane, second.lane),
        np.append(first.start_ns, second.start_ns),
        np.append(first.end_ns, second.end_ns),
    )


def _cut_at_cycles(spans: Intervals, labels: int, cycles: Cycles) -> tuple[Int64s, Int64s, Int64s]:
    """Cut spans (on lanes of lane and label together) wherever a cycle begins or ends.

    Returns:
        The span, the cycle (-1 outside) and the length of each part.
    """
    lane, borders, span = spans.lane // labels, cycles.spans, np.arange(spans.size)
    if not borders.size or not spans.size:
        return span, np.full(span.size, -1, np.int64), spans.duration_ns
    lanes = 1 + int(max(lane.max(), borders.lane.max()))
    times = (spans.start_ns, spans.end_ns, borders.start_ns, borders.end_ns)
    packing = Packing.covering(lanes, times)
    ends = packing.key(borders.lane, borders.end_ns)
    border = np.unique(np.append(packing.key(borders.lane, borders.start_ns), ends))
    start, end = packing.key(lane, spans.start_ns), packing.key(lane, spans.end_ns)
    before = np.searchsorted(border, start, side="right")
    more = np.searchsorted(border, end, side="left") - before
    if (more > 0).any():
        # Each span keeps its first part in place; the others, few, follow at the end.
        crossing = np.flatnonzero(more)
        others = np.repeat(crossing, more[crossing])
        last = np.cumsum(more[crossing])
        nth = 1 + np.arange(others.size) - np.repeat(last - more[crossing], more[crossing])
        edge = np.append(border, np.iinfo(np.int64).max)
        first = before[others] + nth
        start = np.append(start, edge[first - 1])
        end = np.append(np.minimum(end, edge[before]), np.minimum(end[others], edge[first]))
        span, before = np.append(span, others), np.append(before, first)
    at = Intervals(packing.lane(border), packing.time(border), packing.time(border))
    return span, np.append(-1, cycles.at(at))[before], end - start


def _summed(
    own: Int64s, sums: tuple[Int64s, Int64s], other: Int64s, other_ns: Int64s
) -> pl.DataFrame:
    """Busy time and number of ops by key, sorted by it.

    Args:
        own: Key of each group.
        sums: Its busy time and its number of ops.
        other: Key of each other piece of busy time.
        other_ns: Its length.
    """
    keys, (place, more) = distinct(own, other)
    busy_ns, ops = (total_by(place, keys.size, values) for values in sums)
    np.add.at(busy_ns, more, other_ns)
    return pl.DataFrame({"key": keys, "busy_ns": busy_ns, "ops": ops})


def _ranked(table: pl.DataFrame, top: int) -> pl.DataFrame:
    """The names with most busy time, equals by their text, then the rest, then overlap."""
    overlaps = pl.col("name") == OVERLAP_NAME
    keys = ("label", overlaps, "busy_ns", "text", "class")
    order = table.sort(*keys, descending=[False, False, True, False, False]).drop("text")
    order = order.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64).over("label"))
    is_rest = (pl.col("place") >= top) & ~overlaps
    rest = order.filter(is_rest).group_by("label").agg(pl.sum("ops", "busy_ns"))
    rest = rest.with_columns(
        pl.lit(OTHER_NAMES, pl.Int64).alias("name"),
        pl.lit(None, pl.Int64).alias("class"),
        pl.lit(top, pl.Int64).alias("place"),
    )
    shown = order.filter(~is_rest).with_columns(
        place=pl.when(overlaps).then(top + 1).otherwise("place")
    )
    parts = pl.concat([shown, rest.select(shown.columns)])
    return parts.sort("label", "place").drop("place")
