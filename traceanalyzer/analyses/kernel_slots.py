"""What each kernel of a forward takes, by its place in the forward: kernel by kernel, in order.

The order is the one in which most cycles run them. Layers repeat, so a place stands for the same
kernel of every layer (a slot), and some dozen slots tell a forward of thousands of kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import polars as pl

from traceanalyzer.kernels.classification import CLASSES, WHOLE_GRAPH
from traceanalyzer.phases.kernel_blocks import Block, folded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

NO_SLOT: Final = -1
"""Slot of what stands in no place of the order."""

_PLACE: Final = ("bucket", "label", "name", "nth")
_COLUMNS: Final = ("bucket", "label", "cycle", "name", "class", "slot", "ops", "busy_ns")


class Pieces(Protocol):
    """What is read of `kernel_classes.BusyPieces`."""

    @property
    def op(self) -> Int64s:
        """Op of each piece, -1 where several streams run."""

    @property
    def label(self) -> Int64s:
        """Its phase."""

    @property
    def cycle(self) -> Int64s:
        """Its cycle."""

    @property
    def ns(self) -> Int64s:
        """Its length."""

    @property
    def class_of_op(self) -> Int64s:
        """Class of each op of the trace."""


@dataclass(frozen=True, slots=True)
class KernelSlots:
    """Slots of the phases that were asked for.

    Attributes:
        blocks: Blocks of the commonest order, by bucket and label; a slot's number is its place
            in them, one after another.
        times: One row a bucket, label, cycle, kernel and slot: bucket, label, cycle, kernel (its
            name), class (its name), slot (`NO_SLOT` for ops beyond the order), ops (those that
            start in the cycle), busy_ns. Cycles with a whole-graph row of the phase are left out;
            over the rows of a class busy_ns is its busy time in the others.
    """

    blocks: dict[tuple[int, int], list[Block]]
    times: pl.DataFrame


def kernel_slots(
    phased: PhasedTrace, bucket: Int64s, pieces: Pieces, labels: NDArray[np.bool_]
) -> KernelSlots:
    """Time and number of ops by slot.

    Args:
        phased: A trace with settled phases.
        bucket: Bucket of each cycle, -1 for cycles to leave out.
        pieces: Its busy time, of `busy_pieces`.
        labels: Which labels to tell.
    """
    ops = _ops_in_order(phased, bucket, pieces.class_of_op, labels)
    orders = _commonest_orders(ops)
    blocks = {key: folded(names) for key, names in orders.items()}
    placed = ops.join(_places(orders, blocks), on=_PLACE, how="left", maintain_order="left")
    own = placed.with_columns(pl.col("slot").fill_null(NO_SLOT), ops=pl.lit(1, pl.Int64))
    own = own.with_columns(busy_ns=pl.Series(_own_time(phased, pieces)[own["op"].to_numpy()]))
    parts = [own.select(_COLUMNS), _ran_on(phased, bucket, pieces, ops).select(_COLUMNS)]
    summed = pl.concat(parts).group_by(_COLUMNS[:-2]).agg(pl.sum("ops", "busy_ns"))
    texts = phased.trace.names["text"]
    return KernelSlots(
        blocks,
        summed.with_columns(
            kernel=texts.gather(summed["name"]).fill_null("unnamed"),
            # Rows of a kernel's class, in the words of the report.
            **{"class": pl.col("class").replace_strict(dict(enumerate(CLASSES)))},
        ).drop("name"),
    )


def _ops_in_order(
    phased: PhasedTrace, bucket: Int64s, class_of_op: Int64s, labels: NDArray[np.bool_]
) -> pl.DataFrame:
    """Ops that start in cycles without whole-graph rows, each phase's in the order they start in.

    Returns:
        bucket, label, cycle, name, class, op, nth (how many of that name came before it in the
        phase and cycle).
    """
    of_op = np.append(bucket, -1)[phased.cycle]
    row = np.flatnonzero((of_op >= 0) & labels[phased.label])
    row = row[np.lexsort((phased.ops.start_ns[row], phased.label[row], phased.cycle[row]))]
    table = pl.DataFrame(
        {
            "bucket": of_op[row],
            "label": phased.label[row],
            "cycle": phased.cycle[row],
            "name": phased.trace.ops["name"].to_numpy()[row].astype(np.int64),
            "class": class_of_op[row],
            "op": row,
        }
    )
    hides = (pl.col("class") == WHOLE_GRAPH).any().over("cycle", "label")
    table = table.filter(~hides)
    return table.with_columns(nth=_nth(table))


def _nth(table: pl.DataFrame) -> pl.Series:
    """How many rows of the same cycle, label and name come before each row."""
    order = np.lexsort((table["name"].to_numpy(), table["label"].to_numpy(), table["cycle"]))
    parts = [table[column].to_numpy()[order] for column in ("cycle", "label", "name")]
    first = np.ones(order.size, bool)
    first[1:] = np.any([part[1:] != part[:-1] for part in parts], axis=0)
    place = np.arange(order.size)
    nth = np.empty(order.size, np.int64)
    nth[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    return pl.Series(nth)


def _commonest_orders(ops: pl.DataFrame) -> dict[tuple[int, int], list[int]]:
    """Names in the order of most cycles, by bucket and label; of equals the first cycle's."""
    if not ops.height:
        return {}
    runs = ops.group_by("bucket", "label", "cycle", maintain_order=True).agg("name")
    counted = runs.group_by("bucket", "label", "name", maintain_order=True).agg(cycles=pl.len())
    best = counted.sort("cycles", descending=True, maintain_order=True).unique(
        ["bucket", "label"], keep="first", maintain_order=True
    )
    return {(row[0], row[1]): row[2] for row in best.iter_rows()}


def _places(
    orders: dict[tuple[int, int], list[int]], blocks: dict[tuple[int, int], list[Block]]
) -> pl.DataFrame:
    """Slot of the nth kernel of each name: bucket, label, name, nth, slot."""
    parts = [
        pl.DataFrame({"name": names, "slot": slots_in_order(blocks[key])}).with_columns(
            bucket=pl.lit(key[0], pl.Int64),
            label=pl.lit(key[1], pl.Int64),
            nth=pl.int_range(pl.len(), dtype=pl.Int64).over("name"),
        )
        for key, names in orders.items()
    ]
    columns = (*_PLACE, "slot")
    empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    return pl.concat([empty, *(part.select(columns) for part in parts)])


def slots_in_order(blocks: list[Block]) -> list[int]:
    """The slot of each kernel of a forward."""
    first, found = 0, []
    for block in blocks:
        found += list(range(first, first + block.length)) * block.repeats
        first += block.length
    return found


def _own_time(phased: PhasedTrace, pieces: Pieces) -> Int64s:
    """Busy time of each op in the cycle in which it starts."""
    here = np.flatnonzero((pieces.op >= 0) & (phased.cycle[pieces.op] == pieces.cycle))
    time = np.zeros(phased.cycle.size, np.int64)
    np.add.at(time, pieces.op[here], pieces.ns[here])
    return time


def _ran_on(phased: PhasedTrace, bucket: Int64s, pieces: Pieces, ops: pl.DataFrame) -> pl.DataFrame:
    """Busy time of ops in a later cycle than that in which they start: they are in no slot."""
    of_piece = np.append(bucket, -1)[pieces.cycle]
    late = (of_piece >= 0) & (pieces.op >= 0) & (phased.cycle[pieces.op] != pieces.cycle)
    row = np.flatnonzero(late)
    op = pieces.op[row]
    table = pl.DataFrame(
        {
            "bucket": of_piece[row],
            "label": pieces.label[row],
            "cycle": pieces.cycle[row],
            "name": phased.trace.ops["name"].to_numpy()[op].astype(np.int64),
            "class": pieces.class_of_op[op],
            "slot": np.full(row.size, NO_SLOT),
            "ops": np.zeros(row.size, np.int64),
            "busy_ns": pieces.ns[row],
        }
    )
    return table.join(ops.select("cycle", "label").unique(), on=["cycle", "label"], how="semi")
