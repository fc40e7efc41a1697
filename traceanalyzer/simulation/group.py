"""A tensor-parallel group that runs one program on all ranks at once, collectives included.

Every rank makes the same calls with its own small delays; a collective ends on all ranks together
and its early ranks wait, which is recorded as truth.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from traceanalyzer.simulation.kernel_names import TRITON_KERNELS
from traceanalyzer.simulation.machine import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    OFFLOAD,
    HostThread,
    OpenRange,
    Rank,
)
from traceanalyzer.simulation.recording import (
    DTOH,
    OTHER,
    SYNC_EVENT,
    SYNC_STREAM_WAIT,
    UNATTRIBUTED,
    ApiCall,
    KernelName,
    Method,
    Op,
    Sync,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

_RANGE_PHASES: Final = {
    "cycle": OTHER,
    "draft": "draft",
    "draft.step": "draft",
    "verify": "verify",
    "sample": "sample",
    "draft_extend": "draft_extend",
    "decode": "decode",
    "prefill": "prefill",
    "draft_prefill": "draft_prefill",
}
"""What a range of that name says about a launch inside of it; any other name says nothing."""

_BARE_NAMES: Final = {"capture": "cuda_graph_capture", "dummy": "dummy_run"}
"""What people call ranges without a domain, where the hooks' word alone would say too little."""

GRAPH_GAP_NS, EAGER_GAP_NS = 700, 1_100
"""Idle time of the compute stream between two kernels: inside a graph, and between launches."""

EXPOSED_SHARE = 0.6
"""Part of an overlapping collective during which compute waits for it."""

_LAUNCH_LATENCY_NS = 2_600
_COPY_BYTES_A_NS = 50


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


class CapturedGraph(NamedTuple):
    """A graph as one rank instantiated it; `node_ids` are those its replays carry."""

    graph_id: int
    exec_id: int
    node_ids: tuple[int, ...]


class Slot(NamedTuple):
    """When one rank ran a kernel, and how long it waited there for another rank."""

    start_ns: int
    end_ns: int
    wait_ns: int | None


@dataclass(slots=True)
class Group:
    """The ranks of one server, driven in lockstep.

    Attributes:
        graph_rows: `node` writes an op for each node of a replay, `graph` one row a replay.
        jitter_share: Spread of a kernel's length from cycle to cycle, the same on all ranks.
    """

    ranks: Sequence[Rank]
    rng: random.Random
    domain: str | None
    graph_rows: Literal["node", "graph"]
    jitter_share: float
    registered: bool = True

    @contextmanager
    def range(
        self, name: str, payload: int | None = None, *, straddles_start: bool = False
    ) -> Iterator[None]:
        """Open a range of the server's own domain on every rank's main thread."""
        for rank in self.ranks:
            opened = self._opened(rank.main, name, self.domain, payload)
            rank.main.push(opened, inside_last_call=straddles_start)
            rank.main.spend(self.rng.randrange(600, 1_200))
        yield
        for rank in self.ranks:
            rank.main.pop()
            rank.main.spend(self.rng.randrange(600, 1_200))

    @contextmanager
    def foreign_range(
        self, name: str, domain: str | None = None, phase: str | None = None
    ) -> Iterator[None]:
        """Open a range that is not the server's own phases: another library's, the scheduler's."""
        for rank in self.ranks:
            now_ns = rank.main.now_ns
            opened = OpenRange(name, domain, now_ns, None, phase, registered=domain is not None)
            rank.main.push(opened)
        yield
        for rank in self.ranks:
            rank.main.pop()

    def spend(self, duration_ns: int) -> None:
        """Let host work pass on every rank, a little unevenly."""
        for rank in self.ranks:
            rank.main.spend(int(duration_ns * self.rng.uniform(0.9, 1.1)))

    def eager(self, works: Sequence[Work], *, straddles_end: bool = False) -> None:
        """Launch kernels one call each; the last may straddle the end of the open range."""
        for index, work in enumerate(works):
            self._launch(work, straddles_end and index == len(works) - 1)
        self._join()

    def _launch(self, work: Work, straddling: bool) -> None:
        if work.overlaps:
            self._cross_streams(COMMUNICATION)
        with self._nccl_range(work):
            calls = [self._launch_call(rank, work) for rank in self.ranks]
        if straddling:
            for rank in self.ranks:
                rank.main.close_inside_last_call()
        ready = [call.start_ns + _LAUNCH_LATENCY_NS for call in calls]
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

    def _run(self, work: Work, ready_ns: Sequence[int], gap_ns: int) -> list[Slot]:
        starts = [
            max(ready, rank.free_ns(work.stream_id))
            for rank, ready in zip(self.ranks, ready_ns, strict=True)
        ]
        length = work.duration_ns * self.rng.uniform(1 - self.jitter_share, 1 + self.jitter_share)
        slots = self._slots(work, starts, length)
        for rank, slot in zip(self.ranks, slots, strict=True):
            rank.occupy(work.stream_id, slot.end_ns + gap_ns)
            if work.overlaps:
                exposed = int(EXPOSED_SHARE * (slot.end_ns - slot.start_ns))
                rank.occupy(COMPUTE, slot.start_ns + exposed)
        return slots

    def _slots(self, work: Work, starts: Sequence[int], length: float) -> list[Slot]:
        if work.collective:
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
        phase = rank.main.phase(straddling=straddling)
        rank.recording.ops.append(
            Op(
                "kernel",
                rank.process,
                work.stream_id,
                slot.start_ns,
                slot.end_ns,
                call.correlation_id,
                phase,
                _method(phase, "launch in range" if graph is None else "graph launch in range"),
                rank.main.iteration(straddling=straddling),
                work.step,
                slot.wait_ns,
                work.kernel,
                graph_node_id=node_id,
                graph_id=None if graph is None else graph.graph_id,
            )
        )

    def replay(self, works: Sequence[Work], graphs: Sequence[CapturedGraph]) -> None:
        """Launch a captured graph: one call a rank, ops under that call's correlation id."""
        calls = [
            rank.call(
                rank.main,
                "cudaGraphLaunch_v10000",
                14_000 + 120 * len(works) + self.rng.randrange(6_000),
            )
            for rank in self.ranks
        ]
        ready = [call.end_ns + 400 for call in calls]
        slots = [self._run(work, ready, GRAPH_GAP_NS) for work in works]
        self._join()
        for place, (rank, call, graph) in enumerate(zip(self.ranks, calls, graphs, strict=True)):
            own = [row[place] for row in slots]
            if self.graph_rows == "graph":
                self._record_block(rank, call, graph, own)
                continue
            for work, slot, node_id in zip(works, own, graph.node_ids, strict=True):
                self._record(rank, call, slot, work, graph=graph, node_id=node_id)

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
                _method(phase, "whole-graph row"),
                rank.main.iteration(),
                graph_id=graph.graph_id,
                graph_exec_id=graph.exec_id,
            )
        )

    def copy(self, size: int, copy_kind: int, *, beside_compute: bool = False) -> list[int]:
        """Copy between host and device; returns when each rank's copy is done."""
        stream_id = COPY if beside_compute else COMPUTE
        if beside_compute:
            self._cross_streams(COPY)
        done = []
        for rank in self.ranks:
            call = rank.call(rank.main, "cudaMemcpyAsync_v3020", self.rng.randrange(3_800, 6_000))
            op = self._transfer(rank, rank.main, call, "memcpy", stream_id, size, copy_kind)
            done.append(op.end_ns)
        return done

    def clear(self, size: int) -> None:
        """Set device memory to zero on the compute stream."""
        for rank in self.ranks:
            call = rank.call(rank.main, "cudaMemsetAsync_v3020", self.rng.randrange(2_500, 4_000))
            self._transfer(rank, rank.main, call, "memset", COMPUTE, size, 0)

    def _transfer(
        self,
        rank: Rank,
        host: HostThread,
        call: ApiCall,
        kind: Literal["memcpy", "memset"],
        stream_id: int,
        size: int,
        copy_kind: int,
    ) -> Op:
        start_ns = max(call.start_ns + _LAUNCH_LATENCY_NS, rank.free_ns(stream_id))
        phase = host.phase()
        op = Op(
            kind,
            rank.process,
            stream_id,
            start_ns,
            start_ns + 900 + size // _COPY_BYTES_A_NS,
            call.correlation_id,
            phase,
            _method(phase, "launch in range"),
            host.iteration(),
            bytes=size,
            copy_kind=copy_kind,
        )
        rank.recording.ops.append(op)
        rank.occupy(stream_id, op.end_ns + EAGER_GAP_NS)
        return op

    def offload(self, kernel: KernelName) -> None:
        """Let each rank's second thread move cache pages now, in a range and stream of its own."""
        for rank in self.ranks:
            host = rank.offload
            host.now_ns = max(host.now_ns, rank.main.now_ns)
            host.push(OpenRange("kv_offload", None, host.now_ns, None, None, registered=False))
            host.spend(1_500)
            call = rank.call(host, "cudaLaunchKernel_v7000", self.rng.randrange(3_500, 5_500))
            start_ns = max(call.start_ns + _LAUNCH_LATENCY_NS, rank.free_ns(OFFLOAD))
            slot = Slot(start_ns, start_ns + self.rng.randrange(20_000, 40_000), None)
            rank.recording.ops.append(
                Op(
                    "kernel",
                    rank.process,
                    OFFLOAD,
                    slot.start_ns,
                    slot.end_ns,
                    call.correlation_id,
                    UNATTRIBUTED,
                    "launched outside ranges",
                    kernel=kernel,
                )
            )
            rank.occupy(OFFLOAD, slot.end_ns + EAGER_GAP_NS)
            copy = rank.call(host, "cudaMemcpyAsync_v3020", self.rng.randrange(3_800, 6_000))
            self._transfer(rank, host, copy, "memcpy", OFFLOAD, 262_144, DTOH)
            host.pop()

    def wait(self, done_ns: Sequence[int], event_id: int) -> None:
        """Block every main thread until its event is done."""
        for rank, done in zip(self.ranks, done_ns, strict=True):
            duration_ns = max(1_400, done + 2_000 - rank.main.now_ns)
            call = rank.call(rank.main, "cudaEventSynchronize_v3020", duration_ns)
            rank.recording.syncs.append(
                Sync(
                    rank.process,
                    call.start_ns,
                    call.end_ns,
                    SYNC_EVENT,
                    call.correlation_id,
                    event_id,
                )
            )

    def _cross_streams(self, stream_id: int) -> None:
        """Record an event on compute and let another stream wait for it."""
        for rank in self.ranks:
            rank.call(rank.main, "cudaEventRecord_v3020", self.rng.randrange(900, 1_500))
            call = rank.call(rank.main, "cudaStreamWaitEvent_v3020", self.rng.randrange(700, 1_200))
            rank.recording.syncs.append(
                Sync(
                    rank.process,
                    call.start_ns,
                    call.end_ns,
                    SYNC_STREAM_WAIT,
                    call.correlation_id,
                    stream_id,
                    stream_id,
                )
            )

    def _opened(
        self, host: HostThread, name: str, domain: str | None, payload: int | None
    ) -> OpenRange:
        phase = _RANGE_PHASES.get(name)
        shown = name if domain is not None else _BARE_NAMES.get(name, name)
        return OpenRange(shown, domain, host.now_ns, payload, phase, self.registered)


def _method(phase: str, method: Method) -> Method:
    return "launched outside ranges" if phase in (OTHER, UNATTRIBUTED) else method
