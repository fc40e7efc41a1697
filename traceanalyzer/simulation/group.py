"""A tensor-parallel group that runs one program on all ranks at once, collectives included.

A collective ends on all ranks together and its early ranks wait, which is recorded as truth.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from traceanalyzer.simulation.kernel_names import TRITON_KERNELS
from traceanalyzer.simulation.lockstep import LAUNCH_LATENCY_NS, Lockstep, method_of
from traceanalyzer.simulation.machine import COMMUNICATION, COMPUTE
from traceanalyzer.simulation.recording import ApiCall, Method, Op
from traceanalyzer.simulation.work import (
    EAGER_GAP_NS,
    EXPOSED_SHARE,
    GRAPH_GAP_NS,
    UNDISTURBED,
    NodeCost,
    Slot,
    Work,
    graph_ns,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.simulation.machine import Rank
    from traceanalyzer.simulation.work import CapturedGraph


@dataclass(slots=True)
class Group(Lockstep):
    """Runs kernels and graphs on all ranks.

    Attributes:
        jitter_share: Spread of a kernel's length from cycle to cycle, the same on all ranks.
        replay_jitter_share: The same of a whole replay's.
        node_cost: What recording nodes costs their replays.
    """

    jitter_share: float
    replay_jitter_share: float
    node_cost: NodeCost = UNDISTURBED

    def eager(self, works: Sequence[Work], *, straddles_end: bool = False) -> None:
        """Launch kernels one call each; the last may straddle the end of the open range."""
        for index, work in enumerate(works):
            self._launch(work, straddles_end and index == len(works) - 1)
        self._join()

    def _launch(self, work: Work, straddling: bool) -> None:
        if work.overlaps:
            self.cross_streams(COMMUNICATION)
        with self._nccl_range(work):
            calls = [self._launch_call(rank, work) for rank in self.ranks]
        if straddling:
            for rank in self.ranks:
                rank.main.close_inside_last_call()
        ready = [call.start_ns + LAUNCH_LATENCY_NS for call in calls]
        slots = self._run(work, ready, EAGER_GAP_NS)
        for rank, call, slot in zip(self.ranks, calls, slots, strict=True):
            self._record(rank, call, slot, work, straddling=straddling)

    @contextmanager
    def _nccl_range(self, work: Work) -> Iterator[None]:
        if not work.kernel.short.startswith("nccl"):
            yield
            return
        with self.foreign_range("ncclAllReduce", "NCCL"):
            self.spend(900)
            yield
            self.spend(700)

    def _launch_call(self, rank: Rank, work: Work) -> ApiCall:
        rank.main.spend(self.rng.randrange(500, 1_500))
        duration_ns = self.rng.randrange(3_200, 5_200)
        if work.kernel in TRITON_KERNELS:
            return rank.call(rank.main, "cuLaunchKernelEx", duration_ns, driver=True)
        return rank.call(rank.main, "cudaLaunchKernel_v7000", duration_ns)

    def _run(
        self,
        work: Work,
        ready_ns: Sequence[int],
        gap_ns: int,
        stretch: float = 1.0,
        cost: NodeCost = UNDISTURBED,
    ) -> list[Slot]:
        starts = [
            max(ready, rank.free_ns(work.stream_id))
            for rank, ready in zip(self.ranks, ready_ns, strict=True)
        ]
        length = stretch * work.duration_ns * self._jitter(self.jitter_share) + cost.inside_ns
        slots = self._slots(starts, length, together=work.collective)
        for rank, slot in zip(self.ranks, slots, strict=True):
            rank.occupy(work.stream_id, slot.end_ns + gap_ns + cost.between_ns)
            if work.overlaps:
                own_ns = slot.end_ns - slot.start_ns - cost.inside_ns
                rank.occupy(COMPUTE, slot.start_ns + int(EXPOSED_SHARE * own_ns) + cost.node_ns)
        return slots

    def _jitter(self, share: float) -> float:
        return self.rng.uniform(1 - share, 1 + share)

    def _slots(self, starts: Sequence[int], length: float, *, together: bool) -> list[Slot]:
        if together:
            last = max(starts)
            end_ns = last + max(1, int(length))
            return [Slot(start, end_ns, last - start) for start in starts]
        own = [length * rank.slowness * self.rng.uniform(0.995, 1.005) for rank in self.ranks]
        return [
            Slot(start, start + max(1, int(part)), None)
            for start, part in zip(starts, own, strict=True)
        ]

    def _join(self) -> None:
        """Let compute wait for what the communication stream still runs."""
        for rank in self.ranks:
            rank.occupy(COMPUTE, rank.free_ns(COMMUNICATION))

    def _record(
        self,
        rank: Rank,
        call: ApiCall,
        slot: Slot,
        work: Work,
        *,
        straddling: bool = False,
        graph: CapturedGraph | None = None,
        node_id: int | None = None,
    ) -> None:
        phase, method = self._known_by(rank, work, graph, straddling=straddling)
        rank.recording.ops.append(
            Op(
                "kernel",
                rank.process,
                work.stream_id,
                slot.start_ns,
                slot.end_ns,
                call.correlation_id,
                phase,
                method,
                rank.main.iteration(straddling=straddling),
                work.step,
                slot.wait_ns,
                work.kernel,
                graph_node_id=node_id,
                graph_id=None if graph is None else graph.graph_id,
                layer=work.layer,
            )
        )

    def _known_by(
        self, rank: Rank, work: Work, graph: CapturedGraph | None, *, straddling: bool
    ) -> tuple[str, Method]:
        """An op's phase and how it can be known."""
        if graph is not None and graph.told and work.phase is not None:
            return work.phase, "capture-time range"
        phase = rank.main.phase(straddling=straddling)
        return phase, method_of(
            phase, "launch in range" if graph is None else "graph launch in range"
        )

    def replay(
        self, works: Sequence[Work], graphs: Sequence[CapturedGraph], node_ranks: int
    ) -> None:
        """Launch a captured graph: one call a rank, ops under that call's correlation id.

        The first `node_ranks` ranks have an op for each node, the others one for the whole graph.
        """
        calls = [
            rank.call(
                rank.main,
                "cudaGraphLaunch_v10000",
                14_000 + 120 * len(works) + self.rng.randrange(6_000),
            )
            for rank in self.ranks
        ]
        share = self.replay_jitter_share
        stretch = self._jitter(share) if share else 1.0
        ready = [call.end_ns + 400 for call in calls]
        if node_ranks:
            for rank in self.ranks:
                rank.occupy(COMPUTE, rank.free_ns(COMPUTE) + self.node_cost.replay_ns)
            slots = [
                self._run(work, ready, GRAPH_GAP_NS, stretch, self.node_cost) for work in works
            ]
            self._join()
            by_rank = [[row[place] for row in slots] for place in range(len(self.ranks))]
        else:
            by_rank = [[slot] for slot in self._run_whole(works, ready, stretch)]
        for place, (rank, call, graph) in enumerate(zip(self.ranks, calls, graphs, strict=True)):
            own = by_rank[place]
            if place >= node_ranks:
                self._record_block(rank, call, graph, own)
                continue
            for work, slot, node_id in zip(works, own, graph.node_ids, strict=True):
                self._record(rank, call, slot, work, graph=graph, node_id=node_id)

    def _run_whole(
        self, works: Sequence[Work], ready_ns: Sequence[int], stretch: float
    ) -> list[Slot]:
        """Run a graph as one block, which is what its row shows; many nodes even out."""
        starts = [
            max(ready, rank.free_ns(COMPUTE))
            for rank, ready in zip(self.ranks, ready_ns, strict=True)
        ]
        length = stretch * graph_ns(works) * self._jitter(self.jitter_share / sqrt(len(works)))
        slots = self._slots(starts, length, together=any(work.collective for work in works))
        for rank, slot in zip(self.ranks, slots, strict=True):
            rank.occupy(COMPUTE, slot.end_ns + GRAPH_GAP_NS)
        return slots

    def _record_block(
        self, rank: Rank, call: ApiCall, graph: CapturedGraph, slots: Sequence[Slot]
    ) -> None:
        phase = rank.main.phase()
        rank.recording.ops.append(
            Op(
                "graph",
                rank.process,
                COMPUTE,
                min(slot.start_ns for slot in slots),
                max(slot.end_ns for slot in slots),
                call.correlation_id,
                phase,
                method_of(phase, "whole-graph row"),
                rank.main.iteration(),
                graph_id=graph.graph_id,
                graph_exec_id=graph.exec_id,
            )
        )
