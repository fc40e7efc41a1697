"""Kernel classes and launches of every phase in every bucket, summed in one pass over all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.assembly.kernel_slots import slot_rows
from traceanalyzer.assembly.timing import half_width
from traceanalyzer.kernels.classification import CLASSES, WHOLE_GRAPH
from traceanalyzer.report import ClassTime, KernelSlot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from traceanalyzer.analyses.kernel_slots import KernelSlots
    from traceanalyzer.assembly.timing import Timing

_KEYS: Final = ("bucket", "label")
_WITHIN: Final = ["cycle", "label", "class"]
_NO_CYCLES: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class KernelTables:
    """Results of the analyses, classes by name.

    Attributes:
        launches: See `cycle_launches`.
        classes: See `class_time`.
        longest: See `longest_kernels`.
        replayed: See `replayed_ops`.
        slots: See `kernel_slots`.
        waits: See `class_waits`.
    """

    launches: pl.DataFrame
    classes: pl.DataFrame
    longest: pl.DataFrame
    replayed: pl.DataFrame
    slots: KernelSlots
    waits: pl.DataFrame


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What one phase launched in the cycles of a bucket.

    Attributes:
        graph_launches: In all of them.
        kernel_launches: In all of them.
        shown: Cycles (rows, in order) that show all of its kernels.
        hidden: Cycles in which a whole-graph row hides some.
        classes: Mean time of its classes in the first, the longest first.
        idle_half_width_ns: To either end of the 95 % interval of its mean idle time in them.
        blocks: How often each block of its kernels runs.
        slots: Its kernels by their place in the blocks.
    """

    graph_launches: int = 0
    kernel_launches: int = 0
    shown: NDArray[np.int64] = field(default_factory=lambda: _NO_CYCLES)
    hidden: NDArray[np.int64] = field(default_factory=lambda: _NO_CYCLES)
    classes: list[ClassTime] = field(default_factory=list)
    idle_half_width_ns: float | None = None
    blocks: list[int] = field(default_factory=list)
    slots: list[KernelSlot] = field(default_factory=list)


def kernel_work(timing: Timing, tables: KernelTables) -> dict[tuple[int, int], KernelWork]:
    """By bucket and label, over the kept cycles."""
    launched = _in_buckets(tables.launches, timing).group_by(_KEYS)
    sums = launched.agg(pl.sum("graph_launches"), pl.sum("kernel_launches"))
    launches = {(row[0], row[1]): (row[2], row[3]) for row in sums.iter_rows()}
    found = _in_buckets(tables.classes.drop("lane"), timing)
    found = found.join(tables.replayed, on=_WITHIN, how="left")
    found = found.join(tables.waits, on=_WITHIN, how="left")
    graphs = found.filter(pl.col("class") == CLASSES[WHOLE_GRAPH]).select("cycle", "label")
    seen = found.join(graphs, on=["cycle", "label"], how="anti")
    hidden = _cycles(found.join(graphs, on=["cycle", "label"], how="semi"))
    shown = _cycles(seen)
    del found, graphs  # as long as the table of classes, which is held as it is
    lanes = timing.cycles.spans.lane
    spread = {key: (rows.size, np.unique(lanes[rows]).size) for key, rows in shown.items()}
    classes = _classes(seen, tables.longest, spread)
    slots = slot_rows(tables.slots, seen.select("cycle", "label").unique(), spread)
    idle = _idle_half_width(timing, seen, spread)
    return {
        key: KernelWork(
            *launches.get(key, (0, 0)),
            shown.get(key, _NO_CYCLES),
            hidden.get(key, _NO_CYCLES),
            classes.get(key, []),
            idle.get(key),
            *slots.get(key, ([], [])),
        )
        for key in launches.keys() | shown.keys() | hidden.keys()
    }


def _in_buckets(table: pl.DataFrame, timing: Timing) -> pl.DataFrame:
    """Rows of kept cycles with their bucket."""
    bucket = timing.buckets["bucket"].cast(pl.Int64).to_numpy()
    of_cycle = np.append(np.where(timing.kept(), bucket, -1), -1)[table["cycle"].to_numpy()]
    return table.with_columns(bucket=pl.Series(of_cycle)).filter(pl.col("bucket") >= 0)


def _cycles(classes: pl.DataFrame) -> dict[tuple[int, int], NDArray[np.int64]]:
    """Distinct cycles, in order, by bucket and label."""
    rows = classes.select(*_KEYS, "cycle").unique().sort(*_KEYS, "cycle")
    return {
        (bucket, label): own["cycle"].to_numpy().astype(np.int64)
        for (bucket, label), own in rows.group_by(*_KEYS, maintain_order=True)
    }


def _classes(
    seen: pl.DataFrame, longest: pl.DataFrame, spread: dict[tuple[int, int], tuple[int, int]]
) -> dict[tuple[int, int], list[ClassTime]]:
    """By bucket and label; `spread` is of how many cycles, on how many lanes."""
    sums = (
        seen.group_by(*_KEYS, "class")
        .agg(
            pl.sum("ops", "replayed_ops", "busy_ns", "wait_ns"),
            pl.col("untold").fill_null(1).sum(),
            squares=pl.col("busy_ns").cast(pl.Float64).pow(2).sum(),
        )
        .with_columns(pl.col("class").cast(pl.String))
        .join(
            longest.with_columns(pl.col("bucket", "label").cast(pl.Int64)),
            on=[*_KEYS, "class"],
            how="left",
        )
        .sort(*_KEYS, -pl.col("busy_ns"), "class")
    )
    found: dict[tuple[int, int], list[ClassTime]] = {}
    columns = ("class", "ops", "replayed_ops", "busy_ns", "squares", "wait_ns", "untold", "kernel")
    for row in sums.select(*_KEYS, *columns).iter_rows():
        bucket, label, name, ops, replayed, busy_ns, squares, wait_ns, untold, kernel = row
        cycles, lanes = spread[bucket, label]
        mean_ns = busy_ns / cycles
        means = ClassTime(
            name,
            ops / cycles,
            mean_ns,
            kernel,
            replayed / cycles,
            half_width(squares / cycles - mean_ns**2, cycles // lanes),
            min(wait_ns / cycles, mean_ns) if untold == 0 else None,
        )
        found.setdefault((bucket, label), []).append(means)
    return found


def _idle_half_width(
    timing: Timing, seen: pl.DataFrame, spread: Mapping[tuple[int, int], tuple[int, int]]
) -> dict[tuple[int, int], float | None]:
    """Of the mean idle time in the windows of those cycles, by bucket and label."""
    busy = seen.group_by(*_KEYS, "cycle").agg(pl.sum("busy_ns")).sort(*_KEYS, "cycle")
    found = {}
    for (bucket, label), own in busy.group_by(*_KEYS):
        cycle = own["cycle"].to_numpy().astype(np.int64)
        idle = timing.time.window[cycle, label] - own["busy_ns"].to_numpy()
        cycles, lanes = spread[bucket, label]
        found[bucket, label] = half_width(float(idle.var()), cycles // lanes)
    return found
