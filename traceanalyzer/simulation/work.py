"""Pieces of GPU work before and after they ran: kernels to run, graphs of them, and their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
    """A kernel to run: on the compute stream, or beside it when it `overlaps`."""

    kernel: KernelName
    duration_ns: int
    collective: bool = False
    overlaps: bool = False
    step: int | None = None

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
    """A graph as one rank instantiated it; `node_ids` are those its replays carry."""

    graph_id: int
    exec_id: int
    node_ids: tuple[int, ...]


class Slot(NamedTuple):
    """When a rank ran a kernel or a whole graph, and how long it waited there for another."""

    start_ns: int
    end_ns: int
    wait_ns: int | None
