"""Pieces of GPU work before and after they ran: kernels to run, graphs of them, and their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.simulation.machine import COMMUNICATION, COMPUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.recording import KernelName

GRAPH_GAP_NS, EAGER_GAP_NS = 700, 1_100
"""Idle time of the compute stream between two kernels: inside a graph, and between launches."""

EXPOSED_SHARE = 0.6
"""Part of an overlapping collective during which compute waits for it."""


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel to run: on the compute stream, or beside it when it `overlaps`.

    `phase` is set in a graph that holds several phases.
    """

    kernel: KernelName
    duration_ns: int
    collective: bool = False
    overlaps: bool = False
    step: int | None = None
    layer: int | None = None
    phase: str | None = None

    @property
    def stream_id(self) -> int:
        """Stream that runs it."""
        return COMMUNICATION if self.overlaps else COMPUTE


def graph_ns(works: Sequence[Work]) -> float:
    """Time of a chain of kernels in a graph on the compute stream, gaps included.

    An overlapping collective counts with the part during which compute waits for it.
    """
    return sum(
        EXPOSED_SHARE * work.duration_ns if work.overlaps else work.duration_ns + GRAPH_GAP_NS
        for work in works
    )


class CapturedGraph(NamedTuple):
    """A graph as one rank instantiated it.

    `node_ids` are those its replays carry; `told`: ranges tell what its nodes were captured in.
    """

    graph_id: int
    exec_id: int
    node_ids: tuple[int, ...]
    told: bool = False


class NodeCost(NamedTuple):
    """What recording nodes costs: in each kernel, in the gap after it, and before each replay."""

    inside_ns: int = 0
    between_ns: int = 0
    replay_ns: int = 0

    @property
    def node_ns(self) -> int:
        """What it costs each node."""
        return self.inside_ns + self.between_ns


UNDISTURBED: Final = NodeCost()


class Slot(NamedTuple):
    """When a rank ran a kernel or a whole graph, and how long it waited there for another."""

    start_ns: int
    end_ns: int
    wait_ns: int | None
