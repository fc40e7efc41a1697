"""Host lead: how far ahead of the GPU the launching thread is.

Near zero the GPU starves for launches; a lead of many cycles means the host runs far ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.phases.grouping import distinct, least_of, parted

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace


def host_lead(phased: PhasedTrace) -> pl.DataFrame:
    """Time from the start of a launch call to the start of its first op, by rank and phase.

    A graph replay counts once, by its first op.

    Returns:
        One row a rank and phase: lane, label, p5_ns, p50_ns (nearest rank).
    """
    rows = np.flatnonzero((phased.attribution.launch >= 0) & phased.collected)
    launch = phased.attribution.launch[rows]
    groups = phased.ranks.size * len(phased.labels)
    group = phased.ops.lane[rows] * len(phased.labels) + phased.label[rows]
    keys, (place,) = distinct(launch * groups + group)
    first_ns = least_of(place, keys.size, phased.ops.start_ns[rows])
    launch, group = parted(keys, max(groups, 1))
    called_ns = phased.trace.launches["start_ns"].to_numpy()[launch]
    return (
        pl.DataFrame({"group": group, "lead_ns": first_ns - called_ns})
        .group_by("group")
        .agg(
            p5_ns=pl.col("lead_ns").quantile(0.05, "equiprobable").cast(pl.Int64),
            p50_ns=pl.col("lead_ns").quantile(0.5, "equiprobable").cast(pl.Int64),
        )
        .sort("group")
        .select(
            "p5_ns",
            "p50_ns",
            lane=pl.col("group") // len(phased.labels),
            label=pl.col("group") % len(phased.labels),
        )
    )
