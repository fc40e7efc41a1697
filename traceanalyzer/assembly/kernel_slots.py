"""Kernels by their place in a forward: means and intervals, few enough rows for a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer.assembly.timing import half_width
from traceanalyzer.report import OTHER_KERNELS, KernelSlot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from traceanalyzer.analyses.kernel_slots import KernelSlots
    from traceanalyzer.phases.kernel_blocks import Block

Key = tuple[int, int]
"""Bucket and label."""

SLOT_PHASES: Final = ("verify", "decode", "sample")
"""The target's phases, told kernel by kernel: what verify is compared with a plain step by."""

MOST_SLOTS: Final = 160
"""A forward of more kernels that do not repeat is listed by name, its order is not told."""

_MOST_OUTSIDE: Final = 24
_OUTSIDE: Final = -1


def slot_rows(
    slots: Iterable[KernelSlots], seen: NDArray[np.bool_], spread: Mapping[Key, tuple[int, int]]
) -> dict[Key, tuple[list[int], list[KernelSlot]]]:
    """How often each block runs, and its slots in order, by bucket and label.

    Args:
        slots: See `kernel_slots`; one at a time is held.
        seen: Whether the kernels of a cycle and label count, of shape (cycles, labels).
        spread: How many cycles those are, on how many lanes, by bucket and label.
    """
    found = {}
    for each in slots:
        key, blocks = (each.bucket, each.label), each.blocks
        own = each.times.filter(pl.Series(seen[each.times["cycle"].to_numpy(), each.label]))
        if key not in spread or not own.height:
            continue
        if sum(block.length for block in blocks) > MOST_SLOTS:
            own, blocks = own.with_columns(slot=pl.lit(_OUTSIDE, pl.Int64)), []
        found[key] = [block.repeats for block in blocks], _rows(own, blocks, spread[key])
    return found


def _rows(own: pl.DataFrame, blocks: list[Block], spread: tuple[int, int]) -> list[KernelSlot]:
    cycles, lanes = spread
    block_of_slot = [place for place, block in enumerate(blocks) for _ in range(block.length)]
    rows = []
    for kernel, name, slot, ops, busy_ns, squares in _summed(_fewer(own)).iter_rows():
        mean_ns = busy_ns / cycles
        half = half_width(squares / cycles - mean_ns**2, cycles // lanes)
        block = block_of_slot[slot] if slot >= 0 else _OUTSIDE
        rows.append(KernelSlot(kernel, name, block, ops / cycles, mean_ns, half))
    return rows


def _fewer(own: pl.DataFrame) -> pl.DataFrame:
    """Outside of the order the kernels with least time share a name in each class."""
    outside = own.filter(pl.col("slot") == _OUTSIDE).group_by("kernel").agg(pl.sum("busy_ns"))
    listed = outside.sort(-pl.col("busy_ns"), "kernel")["kernel"].head(_MOST_OUTSIDE)
    keeps = (pl.col("slot") != _OUTSIDE) | pl.col("kernel").is_in(listed.implode())
    return own.with_columns(kernel=pl.when(keeps).then("kernel").otherwise(pl.lit(OTHER_KERNELS)))


def _summed(own: pl.DataFrame) -> pl.DataFrame:
    """Over cycles, slots in order and then what is in none, by falling time."""
    keys = ("kernel", "class", "slot")
    by_cycle = own.group_by(*keys, "cycle").agg(pl.sum("ops", "busy_ns"))
    sums = by_cycle.group_by(keys).agg(
        pl.sum("ops", "busy_ns"), squares=pl.col("busy_ns").cast(pl.Float64).pow(2).sum()
    )
    last = pl.col("slot") == _OUTSIDE
    return sums.sort(last, "slot", -pl.col("busy_ns"), "kernel", "class").select(
        *keys, "ops", "busy_ns", "squares"
    )
