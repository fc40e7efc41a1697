"""Buckets: only cycles of one shape are comparable, so every mean is taken inside one.

Where marks tell the batch and its tokens, what remains is whether a CUDA graph was replayed.
Without marks a shape is known by which graph it was. Ids differ between ranks, so graphs are
numbered by kind and node count in order of appearance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from nvtx_hooks.vocabulary import BATCH, PROMPT, TOKENS
from traceanalyzer.phases.marks import read_marks
from traceanalyzer.phases.speakers import speakers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.cycles import Cycles
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

_EAGER: Final = "no graph"
_REPLAYED: Final = "CUDA graph"
_IDENTITIES: Final = ("graph_exec_id", "graph_id", "graph_node_id")  # the surest first


SHAPE: Final = (
    "kind",
    "batch",
    "padded_batch",
    "verified_tokens",
    "draft_tokens",
    "prompt_tokens",
    "graph",
)


def cycle_shapes(phased: PhasedTrace) -> pl.DataFrame:
    """What a trace's own ranges and graphs tell of the shape of every cycle.

    Returns:
        One row a cycle, in the order of `phased.cycles`: process, number (the hooks' number, -1
        without), kind (phase of the target forward), named_batch (that a range's name tells, null
        when it tells none), graph ("no graph", or which one).
    """
    process = np.array(phased.ranks.process)[phased.cycles.spans.lane]
    return _shapes(phased.spans, phased.cycles, process, _graphs(phased))


def host_shapes(spans: Spans, cycles: Cycles, process: NDArray[np.int64]) -> pl.DataFrame:
    """The same of cycles of host ranges, graph always null.

    Args:
        spans: Meaning of the ranges.
        cycles: Host cycles.
        process: Row in `trace.processes` of each cycle.
    """
    nothing = pl.repeat(None, cycles.spans.size, dtype=pl.String, eager=True)
    return _shapes(spans, cycles, process, nothing)


def _shapes(
    spans: Spans, cycles: Cycles, process: NDArray[np.int64], graph: pl.Series
) -> pl.DataFrame:
    kinds = np.array([*spans.phases, ""])[spans.phase[cycles.forward]]
    return pl.DataFrame(
        {
            "process": pl.Series(process, dtype=pl.Int32),
            "number": spans.number[cycles.forward],
            "kind": pl.Series(kinds.tolist(), dtype=pl.String),
            "named_batch": pl.Series(spans.batch[cycles.forward]).replace(-1, None),
            "graph": graph,
        }
    )


def cycle_buckets(phased: PhasedTrace) -> pl.DataFrame:
    """The bucket of every cycle of a trace, see `buckets_of`."""
    return buckets_of(phased.trace, cycle_shapes(phased))


def buckets_of(trace: Trace, shapes: pl.DataFrame) -> pl.DataFrame:
    """The bucket of every cycle.

    Args:
        trace: Holds the marks.
        shapes: See `cycle_shapes`.

    Returns:
        One row a cycle: bucket (number by first appearance) and `SHAPE`: kind (phase of the target
        forward); the numbers that marks or names tell, null when unknown; graph ("no graph";
        "CUDA graph" where marks tell the shape, else which one; null on the host).
    """
    frame = (
        shapes.rename({"number": "cycle"})
        .join(_marked_shapes(trace), on=["process", "cycle"], how="left", maintain_order="left")
        .with_columns(
            batch=pl.coalesce("batch", "named_batch"), graph=_unless_marks_tell_the_shape("graph")
        )
        .select(SHAPE)
    )
    keys = frame.unique(maintain_order=True).with_row_index("bucket")
    return frame.join(keys, on=SHAPE, how="left", nulls_equal=True, maintain_order="left")


def _unless_marks_tell_the_shape(graph: str) -> pl.Expr:
    """Which graph was replayed, or only that one was.

    One batch runs as whole-graph rows in one part of a capture and node by node in another, and
    with piecewise graphs as several: marks keep its cycles together.
    """
    told = pl.col("batch").is_not_null() & pl.col("verified_tokens").is_not_null()
    return (
        pl.when(told & (pl.col(graph) != _EAGER)).then(pl.lit(_REPLAYED)).otherwise(pl.col(graph))
    )


def _marked_shapes(trace: Trace) -> pl.DataFrame:
    """What the hooks' marks tell of each cycle: process, cycle and the numbers of its shape."""
    key = ["process", "cycle"]
    told = pl.concat(
        [
            _first_told(trace, BATCH, batch="requests", padded_batch="padded_requests"),
            _first_told(trace, TOKENS, verified_tokens="verified", draft_tokens="drafted"),
            _first_told(trace, PROMPT, prompt_tokens="tokens"),
        ],
        how="diagonal",
    )
    told = (
        told.group_by(key, maintain_order=True)
        .agg(pl.all().drop_nulls().first())
        .with_columns(pl.col("padded_batch").replace(0, None))
    )
    heard = speakers(trace, (BATCH, TOKENS, PROMPT))
    return (
        heard.join(told, left_on="speaker", right_on="process", maintain_order="left_right")
        .unique(key, keep="first", maintain_order=True)
        .drop("speaker")
    )


def _first_told(trace: Trace, mark: str, **columns: str) -> pl.DataFrame:
    """What the first mark of each cycle says, under the names given."""
    rows = read_marks(trace, mark).unique(["process", "cycle"], keep="first", maintain_order=True)
    return rows.select("process", "cycle", **columns)


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

    Identity is the set of executable graphs where rows have them, else of graphs, else of nodes;
    `nodes` is 0 for whole-graph rows.
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
            *(_set_of(column, kind) for kind, column in enumerate(_IDENTITIES)),
            pl.lit(0, pl.UInt64),  # a replay whose ids the capture lacks is one all the same
        ),
        nodes=pl.col("graph_node_id").count().cast(pl.Int64),
    )


def _set_of(column: str, kind: int) -> pl.Expr:
    """A number for the set of ids in a column, null for none: equal for equal sets alone.

    `kind` keeps a graph and a node that share a number apart.
    """
    ids = pl.col(column).drop_nulls().unique()
    return pl.when(ids.len() > 0).then(ids.hash(kind).sum())
