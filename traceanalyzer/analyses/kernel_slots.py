"""What each kernel of a forward takes, by its place in the forward: kernel by kernel, in order.

The order is the one in which most cycles run them. Layers repeat, so a place stands for the same
kernel of every layer (a slot), and some dozen slots tell a forward of thousands of kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
import polars as pl

from traceanalyzer.intervals import sorted_rows, total_by
from traceanalyzer.kernels.classification import CLASSES, WHOLE_GRAPH
from traceanalyzer.phases.grouping import begins_anew, distinct, ordered, parted
from traceanalyzer.phases.kernel_blocks import Block, folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.phases.op_groups import OpGroups
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

NO_SLOT: Final = -1
"""Slot of what stands in no place of the order."""


class Pieces(Protocol):
    """What is read of `kernel_classes.BusyPieces`."""

    @property
    def groups(self) -> OpGroups:
        """The ops of the trace."""

    @property
    def own_ns(self) -> Int64s:
        """Busy time of each op in the cycle in which it starts."""

    @property
    def op(self) -> Int64s:
        """Op of each other piece, -1 where several streams run."""

    @property
    def label(self) -> Int64s:
        """Its phase."""

    @property
    def cycle(self) -> Int64s:
        """Its cycle."""

    @property
    def ns(self) -> Int64s:
        """Its length."""


@dataclass(frozen=True, slots=True)
class KernelRuns:
    """What runs in cycles that have no whole-graph row of the phase.

    Attributes:
        cycles: One row a cycle and label with ops, by cycle and label: cycle, label, run.
        runs: The ops of each run, run after run: run, name (row in names), class.
        times: One row an op that starts in a cycle, in the order of `cycles` and in it that of the
            run: busy_ns (busy time in that cycle).
        late: Busy time in a cycle of ops that started in an earlier one: cycle, label, name, class,
            busy_ns.
    """

    cycles: pl.DataFrame
    runs: pl.DataFrame
    times: pl.DataFrame
    late: pl.DataFrame


@dataclass(frozen=True, slots=True)
class KernelSlots:
    """Slots of one phase in one bucket.

    Attributes:
        bucket: The bucket.
        label: The phase.
        blocks: Blocks of the commonest order; a slot's number is its place in them, one after
            another.
        kernels: Names and classes of the kernels, in words: kernel, class.
        times: One row a cycle, kernel and slot: cycle, kernel (row in `kernels`), slot (`NO_SLOT`
            for ops beyond the order), ops (those that start in the cycle), busy_ns. Cycles with a
            whole-graph row of the phase are left out; over the rows of a class busy_ns is its
            busy time in the others.
    """

    bucket: int
    label: int
    blocks: list[Block]
    kernels: pl.DataFrame
    times: pl.DataFrame


def kernel_slots(found: KernelRuns, bucket: Int64s, texts: pl.Series) -> Iterator[KernelSlots]:
    """Time and number of ops by slot, by bucket and label: as long as all ops, together.

    Args:
        found: The runs of all cycles.
        bucket: Bucket of each cycle, -1 for cycles to leave out.
        texts: The text of each name.
    """
    runs = _Runs(found)
    cycles = found.cycles.with_columns(
        bucket=pl.Series(bucket[found.cycles["cycle"].to_numpy()]),
        order=pl.Series(runs.first_alike[found.cycles["run"].to_numpy()]),
        same=pl.Series(runs.first_same[found.cycles["run"].to_numpy()]),
        begin=pl.Series(runs.begins(found.cycles["run"].to_numpy())),
    ).filter(pl.col("bucket") >= 0)
    orders = {key: runs.names(run) for key, run in _commonest(cycles).items()}
    busy_ns = found.times["busy_ns"].to_numpy()
    for (number, label), own in cycles.partition_by("bucket", "label", as_dict=True).items():
        order = orders[number, label]
        blocks = folded(order)
        slots = _Slots(np.array(order), slots_in_order(blocks))
        parts = [
            _by_slot(alike, runs.kernels(run), slots, busy_ns)
            for (run,), alike in own.group_by("same")
        ]
        parts.append(_ran_on(found.late, own))
        kernels, times = _added_up(parts)
        yield KernelSlots(number, label, blocks, _told_in_words(kernels, texts), times)


def _told_in_words(kernels: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """With the kernels' names and, in the words of the report, the classes."""
    return kernels.select(
        kernel=texts.gather(kernels["name"]).fill_null("unnamed"),
        **{"class": pl.Series(CLASSES).gather(kernels["class"])},
    )


class _Times(NamedTuple):
    """Columns of a table of time by slot; slots from 0, which stands for `NO_SLOT`."""

    cycle: Int64s
    name: Int64s
    kernel_class: Int64s
    slot: Int64s
    ops: Int64s
    busy_ns: Int64s


def _added_up(parts: list[_Times]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The kernels, and their time.

    Returns:
        Kernels by name and class: these. One row a cycle, kernel and slot, in that order: these,
        ops, busy_ns.
    """
    whole = _Times._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    classes, slots = (1 + int(each.max(initial=0)) for each in (whole.kernel_class, whole.slot))
    kernels, (kernel,) = distinct(whole.name * classes + whole.kernel_class)
    cycles, (cycle,) = distinct(whole.cycle)
    inners, (inner,) = distinct(kernel * slots + whole.slot)
    keys, (place,) = distinct(cycle * max(inners.size, 1) + inner)
    cycle, inner = parted(keys, max(inners.size, 1))
    kernel, slot = parted(inners[inner], slots)
    name, kernel_class = parted(kernels, classes)
    times = pl.DataFrame(
        {
            "cycle": cycles[cycle],
            "kernel": kernel,
            "slot": slot + NO_SLOT,
            "ops": total_by(place, keys.size, whole.ops),
            "busy_ns": total_by(place, keys.size, whole.busy_ns),
        }
    )
    return pl.DataFrame({"name": name, "class": kernel_class}), times


class _Runs:
    """The runs of a table by number; those of several parts may run the same kernels alike.

    `first_alike` is the first run with the same names as each, `first_same` that with the same
    classes too.
    """

    def __init__(self, found: KernelRuns) -> None:
        number = found.runs["run"].to_numpy()
        self._name, self._class = (found.runs[column].to_numpy() for column in ("name", "class"))
        size = 1 + int(number.max(initial=-1))
        self._length = np.bincount(number, minlength=size)
        self._first = np.append(0, np.cumsum(self._length))
        self.first_alike = _first_equal([self._name[self._place(run)] for run in range(size)])
        kernel = self._name.astype(np.int64) * len(CLASSES) + self._class
        self.first_same = _first_equal([kernel[self._place(run)] for run in range(size)])

    def _place(self, run: int) -> slice:
        return slice(self._first[run], self._first[run + 1])

    def names(self, run: int) -> list[int]:
        """The kernels of a run in order."""
        names: list[int] = self._name[self._place(run)].tolist()
        return names

    def kernels(self, run: int) -> tuple[Int64s, Int64s]:
        """Names and classes of the ops of a run in order."""
        return self._name[self._place(run)], self._class[self._place(run)]

    def begins(self, of_cycle: Int64s) -> Int64s:
        """Where the ops of each cycle begin, whose runs follow one another."""
        return np.append(0, np.cumsum(self._length[of_cycle]))[:-1]


def _first_equal(rows: list[NDArray[np.generic]]) -> Int64s:
    """The first of those that hold the same as each."""
    known: dict[bytes, int] = {}
    places = [known.setdefault(row.tobytes(), place) for place, row in enumerate(rows)]
    return np.array(places, np.int64)


def _commonest(cycles: pl.DataFrame) -> dict[tuple[int, int], int]:
    """The run of most cycles, by bucket and label; of equals that of the first cycle."""
    counted = cycles.group_by("bucket", "label", "order", maintain_order=True).agg(cycles=pl.len())
    best = counted.sort("cycles", descending=True, maintain_order=True).unique(
        ["bucket", "label"], keep="first", maintain_order=True
    )
    return {(row[0], row[1]): row[2] for row in best.iter_rows()}


class _Slots:
    """The slots of an order: of its nth kernel of each name."""

    def __init__(self, names: Int64s, slots: list[int]) -> None:
        self._most = 1 + names.size
        key = names * self._most + _nth(names)
        order = sorted_rows(key)
        self._key, self._slot = key[order], np.array(slots, np.int64)[order]

    def of(self, names: Int64s) -> Int64s:
        """The slot of each op of a run, from 1; 0 for none."""
        nth = _nth(names)
        key = names * self._most + nth
        place = np.minimum(np.searchsorted(self._key, key), self._key.size - 1)
        held = (nth < self._most) & (self._key[place] == key)
        return np.where(held, self._slot[place] - NO_SLOT, 0)


def _nth(names: Int64s) -> Int64s:
    """How many of its own name stand before each."""
    order = sorted_rows(names)
    own = names[order]
    first = begins_anew(own)
    places = np.arange(own.size)
    nth = np.empty(own.size, np.int64)
    nth[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return nth


def _by_slot(
    cycles: pl.DataFrame, ops: tuple[Int64s, Int64s], slots: _Slots, busy_ns: Int64s
) -> _Times:
    """Time and ops of cycles that run alike, by kernel and slot; `ops` are those of one cycle."""
    name, kernel_class = ops
    slot = slots.of(name)
    radices = 1 + int(slot.max()), 1 + int(kernel_class.max())
    kinds, (kind,) = distinct((name * radices[1] + kernel_class) * radices[0] + slot)
    order = sorted_rows(kind)
    first = np.searchsorted(kind[order], np.arange(kinds.size))
    times = busy_ns[cycles["begin"].to_numpy()[:, None] + order]
    rest, slot = parted(kinds, radices[0])
    name, kernel_class = parted(rest, radices[1])
    counts = np.bincount(kind, minlength=kinds.size)
    of_cycles = np.repeat(cycles["cycle"].to_numpy(), kinds.size)
    of_kinds = [np.tile(part, cycles.height) for part in (name, kernel_class, slot, counts)]
    return _Times._make([of_cycles, *of_kinds, np.add.reduceat(times, first, axis=1).ravel()])


def _ran_on(late: pl.DataFrame, cycles: pl.DataFrame) -> _Times:
    """Busy time of ops in a later cycle than that in which they start: they are in no slot."""
    rows = late.join(cycles.select("cycle", "label"), on=["cycle", "label"])
    nothing = np.zeros(rows.height, np.int64)  # as slot and number of ops
    known = [rows[column].to_numpy() for column in ("cycle", "name", "class")]
    return _Times._make([*known, nothing, nothing, rows["busy_ns"].to_numpy()])


def slots_in_order(blocks: list[Block]) -> list[int]:
    """The slot of each kernel of a forward."""
    first, found = 0, []
    for block in blocks:
        found += list(range(first, first + block.length)) * block.repeats
        first += block.length
    return found


def kernel_runs(
    phased: PhasedTrace,
    pieces: Pieces,
    labels: NDArray[np.bool_],
    cycles: NDArray[np.bool_],
) -> KernelRuns:
    """Find the runs.

    Args:
        phased: A trace with settled phases.
        pieces: Its busy time, see `busy_pieces`.
        labels: Which labels to tell.
        cycles: Which cycles to tell.
    """
    row = np.flatnonzero(np.append(cycles, False)[phased.cycle] & labels[phased.label])
    slot = phased.cycle[row] * labels.size + phased.label[row]
    class_of_op = pieces.groups.class_of_op
    hidden = np.unique(slot[class_of_op[row] == WHOLE_GRAPH])
    if hidden.size:
        shown = ~np.isin(slot, hidden)
        row, slot = row[shown], slot[shown]
    order = ordered(slot, phased.ops.start_ns[row])
    row, slot = row[order], slot[order]
    first = np.flatnonzero(begins_anew(slot))
    found = slot[first]
    name, kernel_class = phased.trace.ops["name"].to_numpy()[row], class_of_op[row]
    run, of_run = _runs(name, kernel_class, np.append(first, row.size))
    cycle, label = parted(found, labels.size)
    return KernelRuns(
        pl.DataFrame({"cycle": cycle, "label": label, "run": run}),
        _told(of_run, name, kernel_class),
        pl.DataFrame({"busy_ns": pieces.own_ns[row]}),
        _late(pieces, labels, found),
    )


def _runs(name: NDArray[np.int32], row: Int64s, first: Int64s) -> tuple[Int64s, list[slice]]:
    """Run of each stretch of names and classes, and where each run stands first."""
    known: dict[tuple[bytes, bytes], int] = {}
    places: list[slice] = []
    run = np.zeros(first.size - 1, np.int64)
    short = row.astype(np.int8)
    for stretch, (begin, end) in enumerate(pairwise(first.tolist())):
        key = name[begin:end].tobytes(), short[begin:end].tobytes()
        if key not in known:
            known[key] = len(places)
            places.append(slice(begin, end))
        run[stretch] = known[key]
    return run, places


def _told(of_run: list[slice], name: NDArray[np.int32], row: Int64s) -> pl.DataFrame:
    sizes = [place.stop - place.start for place in of_run]
    nothing = np.zeros(0, np.int64)
    return pl.DataFrame(
        {
            "run": np.repeat(np.arange(len(of_run)), sizes),
            "name": np.concatenate([nothing, *(name[place] for place in of_run)]),
            "class": np.concatenate([nothing, *(row[place] for place in of_run)]),
        }
    )


def _late(pieces: Pieces, labels: NDArray[np.bool_], slots: Int64s) -> pl.DataFrame:
    """Busy time of ops in a later cycle than that in which they start, where that has ops."""
    late = np.flatnonzero((pieces.op >= 0) & (pieces.cycle >= 0) & labels[pieces.label])
    late = late[np.isin(pieces.cycle[late] * labels.size + pieces.label[late], slots)]
    group = pieces.groups.of_op[pieces.op[late]]
    return pl.DataFrame(
        {
            "cycle": pieces.cycle[late],
            "label": pieces.label[late],
            "name": pieces.groups.name[group],
            "class": pieces.groups.kernel_class[group],
            "busy_ns": pieces.ns[late],
        }
    )
