"""Buckets: only cycles of one shape are comparable, so every mean is taken inside one.

Without marks a shape is known by what the target forward ran: which CUDA graph it replayed. Ids
differ between ranks, so graphs are numbered by kind and node count in order of appearance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from traceanalyzer.phases.cycles import Cycles
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.spans import Spans

_EAGER: Final = "no graph"


def cycle_buckets(phased: PhasedTrace) -> pl.DataFrame:
    """The bucket of every cycle.

    Returns:
        One row a cycle, in the order of `phased.cycles`: bucket (number by first appearance),
        kind (phase of the target forward), batch (null when unknown), graph ("no graph", or
        which graph was replayed).
    """
    return _numbered(phased.spans, phased.cycles, _graphs(phased))


def host_buckets(spans: Spans, cycles: Cycles) -> pl.DataFrame:
    """The bucket of every cycle of host ranges: as `cycle_buckets`, graph always null."""
    return _numbered(spans, cycles, pl.repeat(None, cycles.spans.size, dtype=pl.String, eager=True))


def _numbered(spans: Spans, cycles: Cycles, graph: pl.Series) -> pl.DataFrame:
    kinds = np.array([*spans.phases, ""])[spans.phase[cycles.forward]]
    frame = pl.DataFrame(
        {
            "kind": pl.Series(kinds.tolist(), dtype=pl.String),
            "batch": pl.Series(spans.batch[cycles.forward]).replace(-1, None),
            "graph": graph,
        }
    )
    keys = frame.unique(maintain_order=True).with_row_index("bucket")
    return frame.join(
        keys, on=["kind", "batch", "graph"], how="left", nulls_equal=True, maintain_order="left"
    ).select("bucket", "kind", "batch", "graph")


def _graphs(phased: PhasedTrace) -> pl.Series:
    """What graph the target forward of each cycle replayed, comparable between ranks."""
    replayed = _replayed_graphs(phased)
    cycles = pl.DataFrame(
        {
            "cycle": np.arange(phased.cycles.spans.size),
            "lane": phased.cycles.spans.lane,
            "kind": phased.spans.phase[phased.cycles.forward],
        }
    ).join(replayed, on="cycle", how="left", maintain_order="left")
    shapes = (
        cycles.drop_nulls("identity")
        .select("lane", "kind", "nodes", "identity")
        .unique(maintain_order=True)
        .with_columns(number=pl.int_range(1, pl.len() + 1).over("lane", "kind", "nodes"))
    )
    labelled = cycles.join(
        shapes, on=["lane", "kind", "nodes", "identity"], how="left", maintain_order="left"
    )
    size = (
        pl.when(pl.col("nodes") > 0)
        .then(pl.format("graph {} of {} ops", "number", "nodes"))
        .otherwise(pl.format("graph {}", "number"))
    )
    return labelled.select(
        graph=pl.when(pl.col("identity").is_null()).then(pl.lit(_EAGER)).otherwise(size)
    ).to_series()


def _replayed_graphs(phased: PhasedTrace) -> pl.DataFrame:
    """Cycle, identity and node count of the graphs in each cycle's target forward.

    Identity is the executable graph where the row has one, else the graph, else the sum of the
    node ids, which no two graphs of a process share; `nodes` is 0 for whole-graph rows.
    """
    span = phased.attribution.span
    target = np.append(phased.spans.is_target_forward(), False)[span] & (phased.cycle >= 0)
    ops = phased.trace.ops.select(
        "kind", "graph_node_id", "graph_id", "graph_exec_id"
    ).with_columns(cycle=pl.Series(phased.cycle))
    of_graph = ops.filter(
        pl.Series(target) & ((pl.col("kind") == "graph") | pl.col("graph_node_id").is_not_null())
    )
    return of_graph.group_by("cycle").agg(
        identity=pl.coalesce(
            pl.col("graph_exec_id").drop_nulls().first(),
            pl.col("graph_id").drop_nulls().first(),
            pl.col("graph_node_id").sum(),
        ),
        nodes=pl.col("graph_node_id").count().cast(pl.Int64),
    )
