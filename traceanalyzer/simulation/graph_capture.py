"""Construction of a CUDA graph, with the rows from which a replayed node's birth can be told.

Each launch captured makes a template node inside of its API call; instantiation clones all of
them, perhaps by way of clones of the graph, and replays carry the last clones' ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.simulation.machine import OpenRange
from traceanalyzer.simulation.recording import ApiCall, Graph, GraphNode
from traceanalyzer.simulation.work import CapturedGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.group import Group
    from traceanalyzer.simulation.machine import Rank
    from traceanalyzer.simulation.work import Work

_RANGE_NS = 300


@dataclass(frozen=True, slots=True)
class CaptureStyle:
    """How graphs are constructed, and what a recording holds of it.

    Attributes:
        recorded: Whether the profiler watched. If not, creation rows of graphs and nodes are all
            that remains, at times before the session began.
        inner_ranges: Whether draft steps and layers have ranges of their own while captured.
        clones: How often a captured graph is cloned before it is instantiated.
    """

    recorded: bool
    inner_ranges: bool = False
    clones: int = 0


def capture_graph(
    group: Group, works: Sequence[Work], style: CaptureStyle, *, node_ranks: int
) -> list[CapturedGraph]:
    """Capture and instantiate a graph on every rank.

    Args:
        group: The ranks.
        works: The graph's kernels in order; none of them runs now.
        style: How.
        node_ranks: How many ranks, from the first, have their replays written node by node. Of
            the others' graphs no nodes are recorded: a profiler that writes whole-graph rows
            knows none.
    """
    captured = []
    for place, rank in enumerate(group.ranks):
        graph, nodes = (
            _captured(group, rank, works, style)
            if style.recorded
            else _captured_before(rank, len(works) if place < node_ranks else 0, style)
        )
        if place < node_ranks:
            rank.recording.graph_nodes += nodes
        captured.append(graph)
    return captured


_Captured = tuple[CapturedGraph, list[GraphNode]]


def _captured(group: Group, rank: Rank, works: Sequence[Work], style: CaptureStyle) -> _Captured:
    host = rank.main
    rank.call(host, "cudaStreamBeginCapture_v10000", 3_000)
    graph_id = rank.take_graph_id()
    rank.recording.graphs.append(Graph(host.thread, host.now_ns, graph_id))
    templates = []
    inner = _InnerRanges(rank, group.domain, registered=group.registered)
    for work in works:
        inner.move_to(_ranges_of(work, style))
        call = rank.call(host, "cudaLaunchKernel_v7000", group.rng.randrange(4_000, 7_000))
        templates.append(GraphNode(host.thread, _middle(call), rank.take_node_id()))
        host.spend(800)
    inner.move_to(())
    rank.call(host, "cudaStreamEndCapture_v10000", 4_000)
    instantiation = rank.call(host, "cudaGraphInstantiateWithFlags_v11040", 60_000)
    return _instantiated(rank, graph_id, templates, _middle(instantiation), style)


def _ranges_of(work: Work, style: CaptureStyle) -> tuple[tuple[str, int], ...]:
    """Name and number of the ranges inside of which a kernel is captured, outermost first."""
    ranges = [] if work.phase is None else [(work.phase, 0)]
    if style.inner_ranges:
        if work.step is not None:
            ranges.append(("draft.step", work.step))
        if work.layer is not None:
            ranges.append((f"layer {work.layer}", work.layer))
    return tuple(ranges)


class _InnerRanges:
    """The ranges that open and close while a graph is captured."""

    def __init__(self, rank: Rank, domain: str | None, *, registered: bool) -> None:
        self._host = rank.main
        self._domain = domain
        self._registered = registered
        self._open: tuple[tuple[str, int], ...] = ()

    def move_to(self, wanted: tuple[tuple[str, int], ...]) -> None:
        """Close and open so that exactly the wanted ranges are open."""
        shared = 0
        while wanted[: shared + 1] == self._open[: shared + 1] and shared < len(wanted):
            shared += 1
        for _range in self._open[shared:]:
            self._host.pop()
            self._host.spend(_RANGE_NS)
        for name, _number in wanted[shared:]:
            domain = None if name.startswith("layer ") else self._domain
            now_ns = self._host.now_ns
            opened = OpenRange(name, domain, now_ns, None, None, self._registered)
            self._host.push(opened)
            self._host.spend(_RANGE_NS)
        self._open = wanted


def _captured_before(rank: Rank, nodes: int, style: CaptureStyle) -> _Captured:
    graph_id, thread = rank.take_graph_id(), rank.main.thread
    time_ns = -2_000_000_000 + 10_000_000 * graph_id
    rank.recording.graphs.append(Graph(thread, time_ns, graph_id))
    templates = [
        GraphNode(thread, time_ns + 2_000 * place, rank.take_node_id()) for place in range(nodes)
    ]
    return _instantiated(rank, graph_id, templates, time_ns + 8_000_000, style)


def _instantiated(
    rank: Rank, graph_id: int, templates: Sequence[GraphNode], time_ns: int, style: CaptureStyle
) -> _Captured:
    exec_id, thread = rank.take_graph_id(), rank.main.thread
    rank.recording.graphs.append(Graph(thread, time_ns, graph_id, exec_id))
    nodes, clones = [*templates], [*templates]
    for _time in range(style.clones + 1):
        clones = [
            GraphNode(thread, time_ns, rank.take_node_id(), origin.node_id) for origin in clones
        ]
        nodes += clones
    node_ids = tuple(clone.node_id for clone in clones)
    return CapturedGraph(graph_id, exec_id, node_ids, style.recorded), nodes


def _middle(call: ApiCall) -> int:
    return (call.start_ns + call.end_ns) // 2
