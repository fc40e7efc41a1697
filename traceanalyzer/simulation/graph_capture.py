"""Construction of a CUDA graph, with the rows from which a replayed node's birth can be told.

Each launch captured makes a template node inside of its API call; instantiation clones all of
them, and replays carry the clones' ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.simulation.group import CapturedGraph
from traceanalyzer.simulation.recording import ApiCall, Graph, GraphNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.group import Group, Work
    from traceanalyzer.simulation.machine import Rank


def capture_graph(group: Group, works: Sequence[Work], *, recorded: bool) -> list[CapturedGraph]:
    """Capture and instantiate a graph on every rank.

    Args:
        group: The ranks.
        works: The graph's kernels in order; none of them runs now.
        recorded: Whether the profiler watched. If not, creation rows of graphs and nodes are all
            that remains, at times before the session began.

    A profiler that writes a replay as one row knows no nodes, and none are recorded here either.
    """
    return [
        _captured(group, rank, works) if recorded else _captured_before(group, rank, len(works))
        for rank in group.ranks
    ]


def _captured(group: Group, rank: Rank, works: Sequence[Work]) -> CapturedGraph:
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
    return _instantiated(group, rank, graph_id, templates, _middle(instantiation))


def _captured_before(group: Group, rank: Rank, nodes: int) -> CapturedGraph:
    graph_id, thread = rank.take_graph_id(), rank.main.thread
    time_ns = -2_000_000_000 + 1_000_000 * graph_id
    rank.recording.graphs.append(Graph(thread, time_ns, graph_id))
    templates = [
        GraphNode(thread, time_ns + 2_000 * place, rank.take_node_id()) for place in range(nodes)
    ]
    return _instantiated(group, rank, graph_id, templates, time_ns + 500_000)


def _instantiated(
    group: Group, rank: Rank, graph_id: int, templates: Sequence[GraphNode], time_ns: int
) -> CapturedGraph:
    exec_id, thread = rank.take_graph_id(), rank.main.thread
    rank.recording.graphs.append(Graph(thread, time_ns, graph_id, exec_id))
    clones = [
        GraphNode(thread, time_ns, rank.take_node_id(), template.node_id) for template in templates
    ]
    if group.graph_rows == "node":
        rank.recording.graph_nodes += [*templates, *clones]
    return CapturedGraph(graph_id, exec_id, tuple(clone.node_id for clone in clones))


def _middle(call: ApiCall) -> int:
    return (call.start_ns + call.end_ns) // 2
