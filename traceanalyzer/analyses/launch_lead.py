"""Host lead: how far ahead of the GPU the launching thread is.

Near zero the GPU starves for launches; a lead of many cycles means the host runs far ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.intervals import sorted_rows
from traceanalyzer.phases.grouping import begins_anew, parted

if TYPE_CHECKING:
    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.phased import PhasedTrace


def host_lead(phased: PhasedTrace, order: DeviceOrder) -> pl.DataFrame:
    """Time from the start of a launch call to the start of its first op, by rank and phase.

    A graph replay counts once, by its first op.

    Args:
        phased: A trace with settled phases.
        order: Its ops in the order of their starts.

    Returns:
        One row a rank and phase: lane, label, p5_ns, p50_ns (nearest rank).
    """
    labels = len(phased.labels)
    groups = phased.ranks.size * labels
    key = phased.attribution.launch * groups
    key += phased.ops.lane * labels
    key += phased.label
    key = key[order.op]
    # A replay's ops mostly follow one another: without the repeats few rows are left to sort.
    fresh = np.flatnonzero(begins_anew(key) & (key >= 0))
    key = key[fresh]
    rows = sorted_rows(key)
    key = key[rows]
    first = begins_anew(key)
    op = order.op[fresh[rows[first]]]
    launch, group = parted(key[first], max(groups, 1))
    launched_ns = phased.trace.launches["start_ns"].to_numpy()[launch]
    return (
        pl.DataFrame({"group": group, "lead_ns": phased.ops.start_ns[op] - launched_ns})
        .group_by("group")
        .agg(
            p5_ns=pl.col("lead_ns").quantile(0.05, "equiprobable").cast(pl.Int64),
            p50_ns=pl.col("lead_ns").quantile(0.5, "equiprobable").cast(pl.Int64),
        )
        .sort("group")
        .select(
            "p5_ns",
            "p50_ns",
            lane=pl.col("group") // labels,
            label=pl.col("group") % labels,
        )
    )
