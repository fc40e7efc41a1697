"""Which CUDA graphs were recorded both as one row a replay and node by node?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report import NodeGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import GraphReport

    _Key = tuple[tuple[str, ...], tuple[int, ...]]


def graphs_in_both(totals: Sequence[GraphReport], shares: Sequence[GraphReport]) -> list[NodeGraph]:
    """Graphs that are the only ones of their phases and batches in each, in the first's order.

    Args:
        totals: Those with one row a replay are looked for.
        shares: Among these, in those with nodes.
    """
    whole = _only_ones([each for each in totals if each.ops is None])
    nodes = _only_ones([each for each in shares if each.ops is not None])
    return [
        NodeGraph(each.phases, each.batches, other.ops, each.span_p50_ns, other.span_p50_ns)
        for key, each in whole.items()
        if (other := nodes.get(key)) is not None and other.ops is not None
    ]


def _only_ones(graphs: Sequence[GraphReport]) -> dict[_Key, GraphReport]:
    keys = [(tuple(each.phases), tuple(each.batches)) for each in graphs]
    return {key: each for key, each in zip(keys, graphs, strict=True) if keys.count(key) == 1}
