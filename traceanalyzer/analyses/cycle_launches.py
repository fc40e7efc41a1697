"""How each phase was launched in each cycle: by graph launches, and kernel by kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.phases.attribution import launched_by_graph_call

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace


def cycle_launches(phased: PhasedTrace) -> pl.DataFrame:
    """Launches of the ops that start in each cycle.

    Returns:
        One row a cycle and label that has any: cycle, label, graph_launches, kernel_launches. A
        replay counts once however many ops it left.
    """
    kinds = phased.trace.ops["kind"].is_in(["kernel", "graph"]).to_numpy()
    rows = np.flatnonzero((phased.cycle >= 0) & (phased.attribution.launch >= 0) & kinds)
    columns = {
        "cycle": phased.cycle[rows],
        "label": phased.label[rows],
        "launch": phased.attribution.launch[rows],
    }
    # A replay's ops mostly follow one another: without the repeats few rows are left to compare.
    fresh = np.ones(rows.size, bool)
    fresh[1:] = np.logical_or.reduce([part[1:] != part[:-1] for part in columns.values()])
    frame = pl.DataFrame({name: part[fresh] for name, part in columns.items()}).unique()
    by_graph = launched_by_graph_call(phased.trace, frame["launch"].to_numpy())
    return (
        frame.with_columns(by_graph=pl.Series(by_graph, dtype=pl.Boolean))
        .group_by("cycle", "label")
        .agg(
            graph_launches=pl.col("by_graph").sum().cast(pl.Int64),
            kernel_launches=(~pl.col("by_graph")).sum().cast(pl.Int64),
        )
        .sort("cycle", "label")
    )
