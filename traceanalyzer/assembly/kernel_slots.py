"""Kernels by their place in a forward: means and intervals, few enough rows for a report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.assembly.timing import half_width
from traceanalyzer.intervals import total_by
from traceanalyzer.phases.grouping import distinct
from traceanalyzer.report import OTHER_KERNELS, KernelSlot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from traceanalyzer.analyses.kernel_slots import KernelSlots
    from traceanalyzer.phases.kernel_blocks import Block

    Int64s = NDArray[np.int64]

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
        times = _Times.of(each, seen[:, each.label])
        if key not in spread or not times.cycle.size:
            continue
        if sum(block.length for block in blocks) > MOST_SLOTS:
            times, blocks = replace(times, slot=np.full_like(times.slot, _OUTSIDE)), []
        rows = _rows(times, each.kernels, blocks, spread[key])
        found[key] = [block.repeats for block in blocks], rows
    return found


@dataclass(frozen=True, slots=True)
class _Times:
    """Columns of `KernelSlots.times`."""

    cycle: Int64s
    kernel: Int64s
    slot: Int64s
    ops: Int64s
    busy_ns: Int64s

    @classmethod
    def of(cls, slots: KernelSlots, seen: NDArray[np.bool_]) -> _Times:
        """Those of some cycles."""
        columns = [slots.times[field.name].to_numpy() for field in fields(cls)]
        chosen = seen[columns[0]]
        return cls(*(column[chosen] for column in columns))


def _rows(
    times: _Times, kernels: pl.DataFrame, blocks: list[Block], spread: tuple[int, int]
) -> list[KernelSlot]:
    cycles, lanes = spread
    block_of_slot = [place for place, block in enumerate(blocks) for _ in range(block.length)]
    rows = []
    for kernel, name, slot, ops, busy_ns, squares in _summed(times, kernels):
        mean_ns = busy_ns / cycles
        half = half_width(squares / cycles - mean_ns**2, cycles // lanes)
        block = block_of_slot[slot] if slot >= 0 else _OUTSIDE
        rows.append(KernelSlot(kernel, name, block, ops / cycles, mean_ns, half))
    return rows


def _summed(times: _Times, kernels: pl.DataFrame) -> list[tuple[str, str, int, int, int, float]]:
    """Over cycles, slots in order and then what is in none, by falling time.

    Returns:
        Kernel, class, slot, ops, busy time, and the sum of the squares of that of each cycle.
    """
    pairs, kernel = _fewer(times, kernels)
    cycles, (cycle,) = distinct(times.cycle)
    slots = 1 - _OUTSIDE + int(times.slot.max())
    # What shares a name is summed in each cycle before it is squared.
    of_cycle = (kernel * slots + times.slot - _OUTSIDE) * cycles.size + cycle
    in_cycle, (place,) = distinct(of_cycle)
    keys, (group,) = distinct(in_cycle // cycles.size)
    ops, busy_ns = (total_by(place, in_cycle.size, each) for each in (times.ops, times.busy_ns))
    squares = pl.col("busy_ns").cast(pl.Float64).pow(2).sum()  # exact, which numpy's is not
    sums = (
        pl.DataFrame({"group": group, "ops": ops, "busy_ns": busy_ns})
        .group_by("group")
        .agg(pl.sum("ops", "busy_ns"), squares=squares)
        .sort("group")
    )
    rows = zip(keys.tolist(), *(sums[name] for name in ("ops", "busy_ns", "squares")), strict=True)
    found = [(*pairs[key // slots], key % slots + _OUTSIDE, *sums) for key, *sums in rows]
    return sorted(found, key=lambda row: (row[2] == _OUTSIDE, row[2], -row[4], row[0], row[1]))


def _fewer(times: _Times, kernels: pl.DataFrame) -> tuple[list[tuple[str, str]], Int64s]:
    """Outside of the order the kernels with least time share a name in each class.

    Returns:
        Names and classes, and the place among them for each row.
    """
    named: list[tuple[str, str]] = kernels.rows()
    outside = times.slot == _OUTSIDE
    time: Counter[str] = Counter()
    busy_ns = total_by(times.kernel[outside], len(named), times.busy_ns[outside])
    for kernel in np.unique(times.kernel[outside]).tolist():
        time[named[kernel][0]] += int(busy_ns[kernel])
    listed = sorted(time, key=lambda name: (-time[name], name))[:_MOST_OUTSIDE]
    shared = [(name if name in listed else OTHER_KERNELS, kind) for name, kind in named]
    known = {pair: place for place, pair in enumerate(dict.fromkeys([*named, *shared]))}
    own, others = (np.array([known[pair] for pair in pairs], np.int64) for pairs in (named, shared))
    return [*known], np.where(outside, others[times.kernel], own[times.kernel])
