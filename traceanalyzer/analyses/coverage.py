"""The coverage ledger: by which evidence busy GPU time was attributed; it adds up to 100 %."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.intervals import added_to_union, total_by
from traceanalyzer.phases.attribution import INFERRED, METHODS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]


def coverage_ledger(phased: PhasedTrace, order: DeviceOrder) -> pl.DataFrame:
    """Busy time of each rank by the method of attribution.

    Where ops overlap the earlier one keeps the time, so the methods of a rank sum to its union.

    Args:
        phased: A trace with settled phases.
        order: Its ops in the order of their starts.

    Returns:
        One row a rank and method: lane, method (text), busy_ns, ops. "inferred" is among the
        methods where any phase was inferred.
    """
    lanes, methods = phased.ranks.size, len(METHODS)
    method = phased.attribution.method[order.op].astype(np.int64)
    group = phased.ops.lane[order.op] * methods + method
    lane, code = np.divmod(np.arange(lanes * methods), methods)
    told = np.flatnonzero((code != INFERRED) | bool((method == INFERRED).any()))
    ledger = pl.DataFrame(
        {
            "lane": lane,
            "method": np.array(METHODS)[code],
            "busy_ns": total_by(group, lanes * methods, _added_ns(phased, order, method)),
            "ops": np.bincount(group, minlength=lanes * methods),
        }
    )
    return ledger[told]


def _added_ns(phased: PhasedTrace, order: DeviceOrder, method: Int64s) -> Int64s:
    """What each op adds to the union; of those that start together the surest method counts."""
    together = order.start[1:] == order.start[:-1]
    if (together & (method[1:] < method[:-1])).any():
        return added_to_union(phased.ops.take(order.op), method)
    return order.added_ns()
