"""The ranks of one server, driven in lockstep: ranges, host work, copies and waits on all of them.

Every rank makes the same calls with its own small delays.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from nvtx_hooks.vocabulary import fused
from traceanalyzer.simulation.machine import (
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
    SYNC_CONTEXT,
    SYNC_EVENT,
    SYNC_STREAM_WAIT,
    UNATTRIBUTED,
    ApiCall,
    Method,
    Op,
    Sync,
)
from traceanalyzer.simulation.work import EAGER_GAP_NS, Slot

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from traceanalyzer.simulation.recording import KernelName

FUSED: Final = fused("draft", "verify", "sample", "draft_extend")
"""Name of a range around one graph of all phases, as TensorRT-LLM's one-model EAGLE has it."""

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
    FUSED: FUSED,
}
"""What a range of that name says about a launch inside of it; any other name says nothing."""

_BARE_NAMES: Final = {"capture": "cuda_graph_capture", "dummy": "dummy_run"}
"""What people call ranges without a domain, where the hooks' word alone would say too little."""

LAUNCH_LATENCY_NS = 2_600
_COPY_BYTES_A_NS = 50


@dataclass(slots=True)
class Lockstep:
    """The ranks, their random delays, and the domain of the server's own ranges."""

    ranks: Sequence[Rank]
    rng: random.Random
    domain: str | None
    registered: bool

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

    def copy(self, size: int, copy_kind: int, *, beside_compute: bool = False) -> list[int]:
        """Copy between host and device; returns when each rank's copy is done."""
        stream_id = COPY if beside_compute else COMPUTE
        if beside_compute:
            self.cross_streams(COPY)
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
        start_ns = max(call.start_ns + LAUNCH_LATENCY_NS, rank.free_ns(stream_id))
        phase = host.phase()
        op = Op(
            kind,
            rank.process,
            stream_id,
            start_ns,
            start_ns + 900 + size // _COPY_BYTES_A_NS,
            call.correlation_id,
            phase,
            method_of(phase, "launch in range"),
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
            start_ns = max(call.start_ns + LAUNCH_LATENCY_NS, rank.free_ns(OFFLOAD))
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
            self._block(rank, "cudaEventSynchronize_v3020", done, SYNC_EVENT, event_id)

    def synchronise(self) -> None:
        """Block every main thread until its device has nothing to do."""
        for rank in self.ranks:
            self._block(rank, "cudaDeviceSynchronize_v3020", rank.idle_ns(), SYNC_CONTEXT)

    def _block(
        self, rank: Rank, name: str, until_ns: int, sync_type: int, event_id: int | None = None
    ) -> None:
        duration_ns = max(1_400, until_ns + 2_000 - rank.main.now_ns)
        call = rank.call(rank.main, name, duration_ns)
        rank.recording.syncs.append(
            Sync(rank.process, call.start_ns, call.end_ns, sync_type, call.correlation_id, event_id)
        )

    def cross_streams(self, stream_id: int) -> None:
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


def method_of(phase: str, method: Method) -> Method:
    """How an op's phase is known: not at all when its launch was in no phase range."""
    return "launched outside ranges" if phase in (OTHER, UNATTRIBUTED) else method
