"""Construction of a CUDA graph, with the rows from which a replayed node's birth can be told.

Each launch captured makes a template node inside of its API call; instantiation clones all of
them, and replays carry the clones' ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.simulation.recording import ApiCall, Graph, GraphNode
from traceanalyzer.simulation.work import CapturedGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.group import Group
    from traceanalyzer.simulation.machine import Rank
    from traceanalyzer.simulation.work import Work


def capture_graph(
    group: Group, works: Sequence[Work], *, recorded: bool, node_ranks: int
) -> list[CapturedGraph]:
    """Capture and instantiate a graph on every rank.

    Args:
        group: The ranks.
        works: The graph's kernels in order; none of them runs now.
        recorded: Whether the profiler watched. If not, creation rows of graphs and nodes are all
            that remains, at times before the session began.
        node_ranks: How many ranks, from the first, have their replays written node by node. Of
            the others' graphs no nodes are recorded: a profiler that writes whole-graph rows
            knows none.
    """
    captured = []
    for place, rank in enumerate(group.ranks):
        graph, nodes = (
            _captured(group, rank, works)
            if recorded
            else _captured_before(rank, len(works) if place < node_ranks else 0)
        )
        if place < node_ranks:
            rank.recording.graph_nodes += nodes
        captured.append(graph)
    return captured


_Captured = tuple[CapturedGraph, list[GraphNode]]


def _captured(group: Group, rank: Rank, works: Sequence[Work]) -> _Captured:
    host = rank.main
    rank.call(host, "cudaStreamBeginCapture_v10000", 3_000)
    graph_id = rank.take_graph_id()
    rank.recording.graphs.append(Graph(host.thread, host.now_ns, graph_id))
    templates = []
    for _work in works:
        call = rank.call(host, "cudaLaunchKernel_v7000", group.rng.randrange(4_000, 7_000))
        templates.append(GraphNode(host.thread, _middle(call), rank.take_node_id()))
        host.spend(800)
    rank.call(host, "cudaStreamEndCapture_v10000", 4_000)
    instantiation = rank.call(host, "cudaGraphInstantiateWithFlags_v11040", 60_000)
    return _instantiated(rank, graph_id, templates, _middle(instantiation))


def _captured_before(rank: Rank, nodes: int) -> _Captured:
    graph_id, thread = rank.take_graph_id(), rank.main.thread
    time_ns = -2_000_000_000 + 10_000_000 * graph_id
    rank.recording.graphs.append(Graph(thread, time_ns, graph_id))
    templates = [
        GraphNode(thread, time_ns + 2_000 * place, rank.take_node_id()) for place in range(nodes)
    ]
    return _instantiated(rank, graph_id, templates, time_ns + 8_000_000)


def _instantiated(
    rank: Rank, graph_id: int, templates: Sequence[GraphNode], time_ns: int
) -> _Captured:
    exec_id, thread = rank.take_graph_id(), rank.main.thread
    rank.recording.graphs.append(Graph(thread, time_ns, graph_id, exec_id))
    clones = [
        GraphNode(thread, time_ns, rank.take_node_id(), template.node_id) for template in templates
    ]
    graph = CapturedGraph(graph_id, exec_id, tuple(clone.node_id for clone in clones))
    return graph, [*templates, *clones]


def _middle(call: ApiCall) -> int:
    return (call.start_ns + call.end_ns) // 2
