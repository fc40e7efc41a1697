"""Cycles with the time in them, and the figures made of them: spreads, means, gaps by cause."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.phases.cycles import KEPT
from traceanalyzer.report import Gap, Spread
from traceanalyzer.speculation.confidence import t_quantile_95

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from traceanalyzer.analyses.phase_time import CycleTime
    from traceanalyzer.phases.cycles import Cycles


@dataclass(frozen=True, slots=True)
class Timing:
    """Cycles of every lane with the time in them.

    Attributes:
        labels: Phase of each label.
        causes: Cause of each kind of gap.
        cycles: The cycles.
        time: Their windows, overlap and gaps.
        buckets: Their buckets: bucket, kind, batch, graph.
    """

    labels: tuple[str, ...]
    causes: tuple[str, ...]
    cycles: Cycles
    time: CycleTime
    buckets: pl.DataFrame

    def kept(self) -> NDArray[np.bool_]:
        """Which cycles may be averaged."""
        return self.cycles.state == KEPT


def spread(values: NDArray[np.int64]) -> Spread | None:
    """Mean and quantiles, None of nothing."""
    if not values.size:
        return None
    low, mid, high, top = np.quantile(values, (0.05, 0.5, 0.95, 0.99), method="inverted_cdf")
    return Spread(float(values.mean()), int(mid), int(low), int(high), int(top))


def half_width(variance: float, cycles: int) -> float | None:
    """To either end of the 95 % interval of a mean over independent cycles; None of one.

    The ranks of a group run the same cycles, so those of one rank are counted.

    Args:
        variance: Mean square less squared mean; rounding may leave it below nothing.
        cycles: How many.
    """
    if cycles < 2:
        return None
    return t_quantile_95(cycles - 1) * math.sqrt(max(variance, 0.0) / (cycles - 1))


def gaps_by_cause(
    timing: Timing, whole_ns: NDArray[np.int64], per_cycle_ns: NDArray[np.float64]
) -> list[Gap]:
    """Gaps by cause: total and mean of a kept cycle, one element a cause each."""
    together = float(per_cycle_ns.sum())
    return [
        Gap(cause, int(whole), float(mean), float(mean) / together if together else 0.0)
        for cause, whole, mean in zip(timing.causes, whole_ns, per_cycle_ns, strict=True)
        if whole or mean
    ]


def mean_of(rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over the first axis, zeros of no rows."""
    return rows.mean(axis=0) if rows.shape[0] else np.zeros(rows.shape[1:])
