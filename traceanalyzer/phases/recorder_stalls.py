"""Cycles in which the recorder stopped the program, as when it writes a full buffer.

Their length is the recorder's doing, not the server's, so they are no part of a mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.intervals import Intervals
    from traceanalyzer.phases.cycles import CycleSources
    from traceanalyzer.trace import Trace

NOT_THE_RECORDER: Final = (
    r"(?i)command buffer full|lazy function loading|module loading|dlopen|dlclose|compil"
)
"""Names of CUDA's own stalls, and of loading that nsys only watches: not what recording costs."""

MOST_STALLED_SHARE: Final = 0.5
"""Of the cycles: above it the recorder is at work all the time, and no rest would stand for it."""


class Stalls(NamedTuple):
    """Times by file, ns: from where the recorder began to where the GPU got its next work."""

    file: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]

    @classmethod
    def of(cls, trace: Trace, stalls: pl.DataFrame) -> Stalls:
        """From `stalls_of` and the trace whose processes it counts."""
        files = trace.processes["file"].to_numpy().astype(np.int64)
        process, start, end = (stalls[name].to_numpy() for name in _SCHEMA)
        return cls(files[process], start, end)


_SCHEMA: Final = dict.fromkeys(("process", "start_ns", "end_ns"), pl.Int64)


def own_overheads(trace: Trace) -> pl.DataFrame:
    """Rows of `trace.overheads` that are the recorder's own, with their names as `kind`."""
    rows = trace.overheads.with_columns(kind=trace.text("name"))
    return rows.filter(~pl.col("kind").str.contains(NOT_THE_RECORDER))


def stalls_of(sources: CycleSources) -> pl.DataFrame:
    """When the recorder stopped each process.

    A stall lasts until the GPU starts the work that is launched next, since until then it may
    idle.

    Returns:
        One row a stall: process, start_ns, end_ns.
    """
    empty = pl.DataFrame(schema=_SCHEMA)
    if not sources.trace.overheads.height:
        return empty
    rows = own_overheads(sources.trace).filter(pl.col("end_ns") > pl.col("start_ns"))
    return pl.concat([empty, *_of_processes(sources, rows)])


def in_stalls(
    stalls: Stalls, cycles: Intervals, file: NDArray[np.int64], usable: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which cycles the recorder stretched, on whatever rank of the same file it did.

    Ranks wait for one another, and those of one file share a clock.

    Args:
        stalls: Those of all ranks.
        cycles: All cycles.
        file: Of each.
        usable: Those that would be kept.

    Returns:
        One element a cycle; none where that were more than `MOST_STALLED_SHARE` of the usable ones.
    """
    found = np.zeros(cycles.size, bool)
    for each in np.unique(stalls.file):
        own = np.flatnonzero(file == each)
        start, end = cycles.start_ns[own], cycles.end_ns[own]
        found[own] = _overlap(stalls, stalls.file == each, start, end)
    if np.count_nonzero(found & usable) > MOST_STALLED_SHARE * np.count_nonzero(usable):
        return np.zeros(cycles.size, bool)
    return found


def _overlap(
    stalls: Stalls, chosen: NDArray[np.bool_], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which spans share time with one of the chosen stalls."""
    order = np.argsort(stalls.start_ns[chosen], kind="stable")
    begins = stalls.start_ns[chosen][order]
    latest = np.maximum.accumulate(stalls.end_ns[chosen][order])
    before = np.searchsorted(begins, end, "left") - 1
    return (before >= 0) & (latest[before] > start)


def _of_processes(sources: CycleSources, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The stalls of each process; the end moved on to the next work's start."""
    if not rows.height:
        return
    trace, launch = sources.trace, sources.attribution.launch
    ops = np.flatnonzero((launch >= 0) & sources.collected)
    called_ns = trace.launches["start_ns"].to_numpy()[launch[ops]]
    process_of_op = trace.ops["process"].to_numpy()[ops]
    for process in rows["process"].unique().to_list():
        own = rows.filter(pl.col("process") == process)
        start, end = own["start_ns"].to_numpy(), own["end_ns"].to_numpy().copy()
        mine = np.flatnonzero(process_of_op == process)
        order = mine[np.lexsort((sources.ops.start_ns[ops[mine]], called_ns[mine]))]
        place = np.searchsorted(called_ns[order], end, "left")
        known = place < order.size
        next_ns = sources.ops.start_ns[ops[order[place[known]]]]
        end[known] = np.maximum(end[known], next_ns)
        columns = (np.full(start.size, process, np.int64), start, end)
        yield pl.DataFrame(dict(zip(_SCHEMA, columns, strict=True)), schema=_SCHEMA)
