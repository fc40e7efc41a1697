"""Ranges that were never closed: nsys ends them when their process or the collection ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

_NESTED_IN_ITSELF: Final = 2
_TOO_LONG: Final = 3


def ranges_left_open(trace: Trace, spans: Spans) -> NDArray[np.int64]:
    """Rows of ranges of a phase or cycle that last to their thread's end, later ones inside."""
    rows = spans.rows((spans.phase >= 0) | spans.is_cycle)
    if not rows.size:
        return rows
    ranges = trace.ranges
    last = np.full(trace.threads.height, np.iinfo(np.int64).min)
    threads = ranges["thread"].to_numpy()
    np.maximum.at(last, threads, ranges["end_ns"].to_numpy())
    at_end = spans.intervals.end_ns[rows] >= last[threads[rows]]
    names, closed = ranges["name"].to_numpy()[rows], ranges["closed"].to_numpy()[rows]
    may_be_open = np.zeros(trace.names.height, bool)
    may_be_open[names[at_end | ~closed]] = True
    alike = may_be_open[names]  # only ranges of one name are compared
    rows = rows[alike]
    chosen = pl.DataFrame(
        {
            "row": rows,
            "thread": ranges["thread"].gather(rows),
            "domain": ranges["domain"].gather(rows),
            "name": names[alike],
            "start_ns": spans.intervals.start_ns[rows],
            "ns": spans.intervals.duration_ns[rows],
            "open": (at_end | ~closed)[alike],
        }
    ).sort("start_ns", maintain_order=True)
    same = ("thread", "domain", "name")
    found = chosen.with_columns(
        later=pl.len().over(same) - 1 - pl.int_range(pl.len()).over(same),
        typical_ns=pl.col("ns").median().over(same),
    ).filter(
        pl.col("open")
        & (pl.col("later") >= _NESTED_IN_ITSELF)
        & (pl.col("ns") > _TOO_LONG * pl.col("typical_ns"))
    )
    return np.sort(found["row"].to_numpy())
