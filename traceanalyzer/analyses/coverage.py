"""The coverage ledger: by which evidence busy GPU time was attributed; it adds up to 100 %."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.intervals import added_to_union, total_by
from traceanalyzer.phases.attribution import INFERRED, METHODS

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace


def coverage_ledger(phased: PhasedTrace) -> pl.DataFrame:
    """Busy time of each rank by the method of attribution.

    Where ops overlap the earlier one keeps the time, so the methods of a rank sum to its union.

    Returns:
        One row a rank and method: lane, method (text), busy_ns, ops. "inferred" is among the
        methods where any phase was inferred.
    """
    lanes, methods = phased.ranks.size, len(METHODS)
    rows = phased.collected
    method = phased.attribution.method[rows].astype(np.int64)
    group = phased.ops.lane[rows] * methods + method
    added = added_to_union(phased.ops.take(rows), method)
    lane, code = np.divmod(np.arange(lanes * methods), methods)
    told = np.flatnonzero((code != INFERRED) | bool((method == INFERRED).any()))
    ledger = pl.DataFrame(
        {
            "lane": lane,
            "method": np.array(METHODS)[code],
            "busy_ns": total_by(group, lanes * methods, added),
            "ops": np.bincount(group, minlength=lanes * methods),
        }
    )
    return ledger[told]
