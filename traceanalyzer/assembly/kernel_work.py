"""Kernel classes and launches of every phase in every bucket, summed in one pass over all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.report import ClassTime

if TYPE_CHECKING:
    from traceanalyzer.assembly.timing import Timing

_WHOLE_GRAPH: Final = "whole graph"
_KEYS: Final = ("bucket", "label")


@dataclass(frozen=True, slots=True)
class KernelTables:
    """Results of `cycle_launches`, of `class_time` with classes by name, of `longest_kernels`."""

    launches: pl.DataFrame
    classes: pl.DataFrame
    longest: pl.DataFrame


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What one phase launched in the cycles of a bucket.

    Attributes:
        graph_launches: In all of them.
        kernel_launches: In all of them.
        class_cycles: Cycles that show all of its kernels.
        class_window_ns: Mean window in those.
        classes: Mean time of its classes in those, the longest first.
    """

    graph_launches: int = 0
    kernel_launches: int = 0
    class_cycles: int = 0
    class_window_ns: float = 0.0
    classes: list[ClassTime] = field(default_factory=list)


def kernel_work(timing: Timing, tables: KernelTables) -> dict[tuple[int, int], KernelWork]:
    """By bucket and label, over the kept cycles."""
    launched = _in_buckets(tables.launches, timing).group_by(_KEYS)
    sums = launched.agg(pl.sum("graph_launches"), pl.sum("kernel_launches"))
    launches = {(row[0], row[1]): (row[2], row[3]) for row in sums.iter_rows()}
    seen = _without_hidden(_in_buckets(tables.classes, timing))
    windows = {
        (bucket, label): (cycles, window_ns)
        for bucket, label, cycles, window_ns in _class_windows(seen, timing).iter_rows()
    }
    classes = _classes(seen, tables.longest, {key: row[0] for key, row in windows.items()})
    work = {}
    for key in launches.keys() | windows.keys():
        graphs, kernels = launches.get(key, (0, 0))
        cycles, window_ns = windows.get(key, (0, 0.0))
        work[key] = KernelWork(graphs, kernels, cycles, window_ns, classes.get(key, []))
    return work


def _in_buckets(table: pl.DataFrame, timing: Timing) -> pl.DataFrame:
    """Rows of kept cycles with their bucket."""
    bucket = timing.buckets["bucket"].cast(pl.Int64).to_numpy()
    of_cycle = np.append(np.where(timing.kept(), bucket, -1), -1)[table["cycle"].to_numpy()]
    return table.with_columns(bucket=pl.Series(of_cycle)).filter(pl.col("bucket") >= 0)


def _without_hidden(classes: pl.DataFrame) -> pl.DataFrame:
    """A whole-graph row hides the kernels of its cycle and phase."""
    hidden = (pl.col("class") == _WHOLE_GRAPH).any().over("cycle", "label")
    return classes.filter(~hidden)


def _class_windows(seen: pl.DataFrame, timing: Timing) -> pl.DataFrame:
    """Bucket, label, number of cycles, mean window in them."""
    cycles = seen.select(*_KEYS, "cycle").unique()
    window = timing.time.window[cycles["cycle"].to_numpy(), cycles["label"].to_numpy()]
    return (
        cycles.with_columns(window=pl.Series(window, dtype=pl.Int64))
        .group_by(_KEYS)
        .agg(cycles=pl.len(), window=pl.col("window").mean())
    )


def _classes(
    seen: pl.DataFrame, longest: pl.DataFrame, cycles: dict[tuple[int, int], int]
) -> dict[tuple[int, int], list[ClassTime]]:
    sums = (
        seen.group_by(*_KEYS, "class")
        .agg(pl.sum("ops"), pl.sum("busy_ns"))
        .join(
            longest.with_columns(pl.col("bucket", "label").cast(pl.Int64)),
            on=[*_KEYS, "class"],
            how="left",
        )
        .sort(*_KEYS, -pl.col("busy_ns"), "class")
    )
    found: dict[tuple[int, int], list[ClassTime]] = {}
    columns = sums.select(*_KEYS, "class", "ops", "busy_ns", "kernel")
    for bucket, label, name, ops, busy_ns, kernel in columns.iter_rows():
        number = cycles[bucket, label]
        means = ClassTime(name, ops / number, busy_ns / number, kernel)
        found.setdefault((bucket, label), []).append(means)
    return found
