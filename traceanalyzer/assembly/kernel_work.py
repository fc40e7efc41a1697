"""Kernel classes and launches of every phase in every bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.analyses.kernel_classes import ROWS
from traceanalyzer.assembly.kernel_slots import slot_rows
from traceanalyzer.assembly.timing import half_width
from traceanalyzer.intervals import total_by
from traceanalyzer.kernels.classification import WHOLE_GRAPH
from traceanalyzer.phases.grouping import parted, rows_by_key
from traceanalyzer.report import ClassTime, KernelSlot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from traceanalyzer.analyses.kernel_slots import KernelSlots
    from traceanalyzer.assembly.timing import Timing

    Bools = NDArray[np.bool_]
    Int64s = NDArray[np.int64]

_KEYS: Final = ("bucket", "label")
_NO_CYCLES: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class KernelTables:
    """Results of the analyses, classes by their places in `ROWS`.

    Attributes:
        launches: See `cycle_launches`.
        classes: See `class_time`; rows outside of cycles may be there or not.
        longest: See `longest_kernels`.
        replayed: See `replayed_ops`.
        slots: See `kernel_slots`.
        waits: See `class_waits`.
    """

    launches: pl.DataFrame
    classes: pl.DataFrame
    longest: pl.DataFrame
    replayed: pl.DataFrame
    slots: Iterable[KernelSlots]
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
    bucket = timing.buckets["bucket"].cast(pl.Int64).to_numpy()
    cells = _Cells(np.where(timing.kept(), bucket, -1), len(timing.labels))
    launched = _of_cells(tables.launches, cells.all()).group_by(_KEYS)
    sums = launched.agg(pl.sum("graph_launches"), pl.sum("kernel_launches"))
    launches = {(row[0], row[1]): (row[2], row[3]) for row in sums.iter_rows()}
    graphs = cells.with_rows(tables.classes.filter(pl.col("class") == WHOLE_GRAPH))
    seen = cells.with_rows(tables.classes) & ~graphs
    hidden, shown = cells.by_key(graphs), cells.by_key(seen)
    lanes = timing.cycles.spans.lane
    spread = {key: (rows.size, np.unique(lanes[rows]).size) for key, rows in shown.items()}
    classes = _classes(_sums(tables, cells.of(seen)), spread)
    slots = slot_rows(tables.slots, seen, spread)
    idle = _idle_half_width(timing, _busy(tables.classes, seen.shape), shown)
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


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cycles by labels: tables of them take less memory than the rows that fall into them.

    Attributes:
        bucket: Of each cycle, -1 for those that do not count.
        labels: How many labels there are.
    """

    bucket: Int64s
    labels: int

    def all(self) -> Int64s:
        """Bucket of each cell, -1 for none; one row more, for cycle -1."""
        return self.of(np.ones((self.bucket.size, self.labels), bool))

    def of(self, chosen: Bools) -> Int64s:
        """The same of some cells alone."""
        found = np.full((self.bucket.size + 1, self.labels), -1, np.int64)
        found[:-1] = np.where(chosen, self.bucket[:, None], -1)
        return found

    def with_rows(self, table: pl.DataFrame) -> Bools:
        """The cells of counting cycles that have rows in a table."""
        found = np.zeros((self.bucket.size + 1, self.labels), bool)
        found[table["cycle"].to_numpy(), table["label"].to_numpy()] = True
        return found[:-1] & (self.bucket >= 0)[:, None]

    def by_key(self, chosen: Bools) -> dict[tuple[int, int], Int64s]:
        """The cycles of some cells, in order, by bucket and label."""
        cycle, label = np.nonzero(chosen)
        keys, rows = rows_by_key(self.bucket[cycle] * self.labels + label)
        number, label = parted(keys, self.labels)
        cycles = (cycle[own] for own in rows)
        return dict(zip(zip(number.tolist(), label.tolist(), strict=True), cycles, strict=True))


def _of_cells(table: pl.DataFrame, bucket: Int64s) -> pl.DataFrame:
    """Rows in cells that have a bucket, with it in place of the cycle."""
    of_row = bucket[table["cycle"].to_numpy(), table["label"].to_numpy()]
    rows = table.drop("cycle").with_columns(bucket=pl.Series(of_row, dtype=pl.Int64))
    return rows.filter(pl.col("bucket") >= 0)


def _sums(tables: KernelTables, bucket: Int64s) -> pl.DataFrame:
    """Over the cells that have a bucket, by bucket, label and class (its name).

    `untold` counts what hides a wait; where a cycle has no collectives, its row does.
    """
    keys = [*_KEYS, "class"]
    seen = _of_cells(tables.classes.drop("lane"), bucket)
    sums = seen.group_by(keys).agg(
        pl.sum("ops", "busy_ns"),
        rows=pl.len().cast(pl.Int64),
        squares=pl.col("busy_ns").cast(pl.Float64).pow(2).sum(),
    )
    del seen  # as long as the table of classes
    replayed = _of_cells(tables.replayed, bucket).group_by(keys).agg(pl.sum("replayed_ops"))
    waits = (
        _of_cells(tables.waits, bucket)
        .group_by(keys)
        .agg(pl.sum("wait_ns", "untold"), with_waits=pl.len().cast(pl.Int64))
    )
    for own in (replayed, waits):
        sums = sums.join(own, on=keys, how="left")
    counts = ("replayed_ops", "wait_ns", "untold", "with_waits")
    without = pl.col("rows") - pl.col("with_waits")
    return (
        sums.with_columns(pl.col(counts).fill_null(0))
        .with_columns(pl.col("untold") + without, pl.Series("class", ROWS).gather(sums["class"]))
        .with_columns(pl.col(_KEYS).cast(pl.Int64))
        .join(tables.longest.with_columns(pl.col(_KEYS).cast(pl.Int64)), on=keys, how="left")
        .sort(*_KEYS, -pl.col("busy_ns"), "class")
    )


def _classes(
    sums: pl.DataFrame, spread: Mapping[tuple[int, int], tuple[int, int]]
) -> dict[tuple[int, int], list[ClassTime]]:
    """By bucket and label; `spread` is of how many cycles, on how many lanes."""
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


def _busy(classes: pl.DataFrame, shape: tuple[int, ...]) -> Int64s:
    """Busy time by cycle and label."""
    cycles, labels = shape
    inside = classes.filter(pl.col("cycle") >= 0)
    place = inside["cycle"].cast(pl.Int64).to_numpy() * labels + inside["label"].to_numpy()
    return total_by(place, cycles * labels, inside["busy_ns"].to_numpy()).reshape(shape)


def _idle_half_width(
    timing: Timing, busy: Int64s, shown: Mapping[tuple[int, int], Int64s]
) -> dict[tuple[int, int], float | None]:
    """Of the mean idle time in the windows of those cycles, by bucket and label."""
    found = {}
    for (bucket, label), cycle in shown.items():
        idle = timing.time.window[cycle, label] - busy[cycle, label]
        lanes = np.unique(timing.cycles.spans.lane[cycle]).size
        found[bucket, label] = half_width(float(idle.var()), cycle.size // lanes)
    return found
