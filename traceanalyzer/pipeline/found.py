"""What the analyses of one time base found, and what both bases prepare alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from traceanalyzer.phases.alignment import translated

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from traceanalyzer.assembly.cycle_rows import ListedCycles
    from traceanalyzer.assembly.timing import Timing
    from traceanalyzer.phases.alignment import Alignment
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.report import (
        BucketReport,
        Coverage,
        GraphReport,
        GroupSkew,
        InferenceReport,
        Instrumentation,
        KernelTotal,
        PhaseParts,
        RankReport,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Parts of the report, and what they came from; a host-timed capture has the first five."""

    spans: Spans
    ranks: list[RankReport]
    buckets: list[BucketReport]
    alignment: Alignment
    cycles: ListedCycles
    phased: PhasedTrace | None = None
    coverage: Coverage | None = None
    instrumentation: Instrumentation | None = None
    graphs: list[GraphReport] = field(default_factory=list)
    parts: list[PhaseParts] = field(default_factory=list)
    skew: list[GroupSkew] = field(default_factory=list)
    inference: InferenceReport | None = None
    kernels: list[KernelTotal] = field(default_factory=list)


def kept_cycles(
    spans: Spans, timing: Timing, process: NDArray[np.int64], alignment: Alignment
) -> pl.DataFrame:
    """Process, number and bucket of the cycles that may be averaged; `process` is of each cycle."""
    cycles = pl.DataFrame(
        {
            "process": pl.Series(process, dtype=pl.Int32),
            "number": spans.number[timing.cycles.forward],
            "bucket": timing.buckets["bucket"],
        }
    )
    return translated(cycles.filter(pl.Series(timing.kept())), alignment)
