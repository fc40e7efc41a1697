"""What an analysis adds to a Trace's tables: phase, rank and cycle of each op, and the cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.analyses.host_time import host_work
from traceanalyzer.assembly.buckets import bucket_order
from traceanalyzer.assembly.cycle_timing import gpu_timing, host_timing
from traceanalyzer.phases.attribution import METHODS
from traceanalyzer.phases.cycles import STATES
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.spans import classify_ranges
from traceanalyzer.schema import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.assembly.timing import Timing
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]

_I32, _I64, _STR = pl.Int32(), pl.Int64(), pl.String()

ATTRIBUTED_OPS: Final = Table(
    "attributed_ops",
    "What each op belongs to, one row an op, in the order of ops.",
    (
        Column("op", _I64, "row in ops, from 0"),
        Column("rank", _I64, "rank"),
        Column("phase", _STR, "phase, other or unattributed"),
        Column("cycle", _I64, "row in cycles in which it starts; null outside", True),
        Column("launch", _I64, "row in launches, from 0; null without", True),
        Column("method", pl.Enum(METHODS), "by which evidence it got its phase"),
    ),
)
CYCLES: Final = Table(
    "cycles",
    "Decode cycles, by rank and start. Besides, one column a phase, `PHASE_window_ns`: time in "
    "which only it runs, and the gaps that its ops end. Windows and overlap add up to the period.",
    (
        Column("cycle", _I64, "row number"),
        Column("rank", _I64, "rank"),
        Column("number", _I64, "the engine's own number", True),
        Column("start_ns", _I64, "first instant, ns"),
        Column("end_ns", _I64, "first instant of the next, ns"),
        Column("period_ns", _I64, "from start to end, ns"),
        Column("state", pl.Enum(STATES), "kept, or why it isn't averaged"),
        Column("bucket", _I64, "place in the report's buckets; null where it isn't there", True),
        Column("overlap_ns", _I64, "time in which two phases or more run, ns"),
    ),
)


def derived_tables(trace: Trace, rules: Rules, *, infer: bool = True) -> dict[str, pl.DataFrame]:
    """The tables above, timed on the GPU, or on the host when the trace holds no GPU work.

    Args:
        trace: The tables.
        rules: What names of ranges mean.
        infer: Whether to infer phases where no range means one.
    """
    if not trace.ops.height:
        spans = classify_ranges(trace, rules)
        work = host_work(spans, trace.ranges["closed"].to_numpy())
        timing, ranks = host_timing(trace, spans, work), range(work.threads.size)
        cycles = cycle_table(timing, ranks, spans.number)
        return {ATTRIBUTED_OPS.name: ATTRIBUTED_OPS.empty(), CYCLES.name: cycles}
    phased = settle_phases(trace, rules, infer=infer)
    cycles = cycle_table(gpu_timing(phased), phased.ranks.number, phased.spans.number)
    return {ATTRIBUTED_OPS.name: attributed_ops(phased), CYCLES.name: cycles}


def attributed_ops(phased: PhasedTrace) -> pl.DataFrame:
    """The table `ATTRIBUTED_OPS` of a trace with settled phases."""
    return pl.DataFrame(
        {
            "op": np.arange(phased.label.size),
            "rank": np.array(phased.ranks.number, np.int64)[phased.ops.lane],
            "phase": pl.Series(phased.labels, dtype=_STR).gather(phased.label),
            "cycle": _or_null(phased.cycle),
            "launch": _or_null(phased.attribution.launch),
            "method": pl.Series(METHODS, dtype=pl.Enum(METHODS)).gather(phased.attribution.method),
        },
        schema=ATTRIBUTED_OPS.polars_schema,
    )


def cycle_table(timing: Timing, ranks: Sequence[int], number_of_range: Int64s) -> pl.DataFrame:
    """The table `CYCLES`.

    Args:
        timing: The cycles with the time in them.
        ranks: Rank of each lane.
        number_of_range: Cycle number that each range tells, -1 for none.
    """
    spans = timing.cycles.spans
    place = {number: place for place, number in enumerate(bucket_order(timing))}
    frame = pl.DataFrame(
        {
            "cycle": np.arange(spans.size),
            "rank": np.array(ranks, np.int64)[spans.lane],
            "number": _or_null(number_of_range[timing.cycles.forward]),
            "start_ns": spans.start_ns,
            "end_ns": spans.end_ns,
            "period_ns": spans.duration_ns,
            "state": pl.Series(STATES, dtype=pl.Enum(STATES)).gather(timing.cycles.state),
            "bucket": [place.get(number) for number in timing.buckets["bucket"].to_list()],
            "overlap_ns": timing.time.overlap,
        },
        schema=CYCLES.polars_schema,
    )
    windows = dict(zip(timing.labels, timing.time.window.T, strict=True))
    return frame.with_columns(
        pl.Series(f"{phase}_window_ns", window, _I64)
        for phase, window in windows.items()
        if window.any()
    )


def _or_null(rows: Int64s) -> pl.Series:
    """Row numbers, null for -1."""
    return pl.Series(rows).replace(-1, None)
