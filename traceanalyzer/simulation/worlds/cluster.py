"""The ranks of a world: what the simulated machine does, and what recording it costs.

A replay runs kernel by kernel however it is recorded, so a world that is recorded at no cost and
one that is not recorded at all are the same to the nanosecond.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nvtx_hooks.vocabulary import fused
from traceanalyzer.simulation.graph_capture import CaptureStyle, capture_graph
from traceanalyzer.simulation.group import Group
from traceanalyzer.simulation.machine import COMPUTE, HostThread, OpenRange, Rank
from traceanalyzer.simulation.recording import (
    Diagnostic,
    Domain,
    Overhead,
    Process,
    Recording,
)
from traceanalyzer.simulation.work import GRAPH_GAP_NS, CapturedGraph, Slot, Work
from traceanalyzer.simulation.worlds.settings import UNTRACED, Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FUSED_PROPOSE: Final = fused("draft", "draft_extend")
_MORE_PHASES: Final = {"mixed": "mixed", FUSED_PROPOSE: FUSED_PROPOSE}
_FIRST_NS: Final = 40_000_000
_GRAPH_CALL_NS, _GRAPH_CALL_NODE_NS = 6_000, 120
_AFTER_CALL_NS: Final = 400


@dataclass(slots=True)
class Cluster(Group):
    """Ranks that run one program together, under a recorder.

    Attributes:
        recorder: What recording costs.
        early_ns: By how much a kernel of a graph starts before its predecessor ends.
        late_ns: Host work by which the last rank begins each phase later.
        late_call_ns: Host work of the last rank after each launch call.
        collective_gap_ns: Idle time of a graph after each of its collectives.
        ahead_share: Part of a graph's launch call that is left when the graph can begin.
        uneven_share: Spread of host work between ranks.
    """

    recorder: Recorder = UNTRACED
    early_ns: int = 0
    late_ns: int = 0
    late_call_ns: int = 0
    collective_gap_ns: int = 0
    ahead_share: float = 0.0
    uneven_share: float = 0.1
    flush_ns: dict[int, int] = field(default_factory=dict)

    @contextmanager
    def range(
        self, name: str, payload: int | None = None, *, straddles_start: bool = False
    ) -> Iterator[None]:
        """A range of the server's own, at the recorder's cost."""
        self._border()
        with Group.range(self, name, payload, straddles_start=straddles_start):
            yield
        self._border()

    @contextmanager
    def phase(self, name: str, number: int) -> Iterator[None]:
        """A phase's range, with a timer's synchronisation where there is one."""
        with self.range(name, number):
            self.ranks[-1].main.spend(self.late_ns)
            if self.recorder.synchronise:
                self.synchronise()
            yield
            if self.recorder.synchronise:
                self.synchronise()

    def spend(self, duration_ns: int) -> None:
        """Let host work pass on every rank, a little unevenly."""
        share = self.uneven_share
        for rank in self.ranks:
            rank.main.spend(int(duration_ns * self.rng.uniform(1 - share, 1 + share)))

    def copied(self, size: int, copy_kind: int) -> list[int]:
        """Copy on the compute stream; returns when each rank's copy is done."""
        done = self.copy(size, copy_kind)
        self._called()
        return done

    def eager(self, works: Sequence[Work], *, straddles_end: bool = False) -> None:
        """Launch kernels one by one, each call at the recorder's cost."""
        for work in works:
            Group.eager(self, [work], straddles_end=straddles_end)
            self._called()

    def run(
        self, works: Sequence[Work], graphs: Sequence[CapturedGraph] | None, call_ns: int = 0
    ) -> None:
        """Run kernels as a replay of a graph, or one by one without one.

        Args:
            works: The kernels.
            graphs: The graph on each rank.
            call_ns: How much longer the graph's launch call takes.
        """
        if graphs is None:
            self.eager(works)
        else:
            nodes = self.recorder.graph_trace == "node"
            self.replay(works, graphs, len(self.ranks) if nodes else 0, call_ns)

    def captured(self, works: Sequence[Work]) -> list[CapturedGraph]:
        """A graph that was captured before the session began."""
        nodes = self.recorder.graph_trace == "node"
        style = CaptureStyle(recorded=False)
        return capture_graph(self, works, style, node_ranks=len(self.ranks) if nodes else 0)

    def replay(
        self,
        works: Sequence[Work],
        graphs: Sequence[CapturedGraph],
        node_ranks: int,
        call_ns: int = 0,
    ) -> None:
        """Launch a graph; its kernels run one by one, and are recorded so or as one row."""
        seen = self.recorder if node_ranks else UNTRACED
        extra_ns = call_ns + round(1e3 * seen.launch_us)
        calls = []
        for rank in self.ranks:
            base_ns = _GRAPH_CALL_NS + _GRAPH_CALL_NODE_NS * len(works) + self.rng.randrange(2_000)
            calls.append(rank.call(rank.main, "cudaGraphLaunch_v10000", base_ns + extra_ns))
            # The work is handed over before the bookkeeping of its nodes is done.
            rank.occupy(COMPUTE, rank.free_ns(COMPUTE) + round(1e3 * seen.replay_us))
        ready = [
            call.end_ns - round(self.ahead_share * (call.end_ns - call.start_ns)) + _AFTER_CALL_NS
            for call in calls
        ]
        slots = [
            self._node(work, before, ready, seen)
            for before, work in zip((None, *works), works, strict=False)
        ]
        for place, (rank, call, graph) in enumerate(zip(self.ranks, calls, graphs, strict=True)):
            own = [row[place] for row in slots]
            if not node_ranks:
                self._record_block(rank, call, graph, own)
                continue
            for work, slot, node_id in zip(works, own, graph.node_ids, strict=True):
                self._record(rank, call, slot, work, graph=graph, node_id=node_id)
        self._called()

    def _node(
        self, work: Work, before: Work | None, ready_ns: Sequence[int], seen: Recorder
    ) -> list[Slot]:
        inside_ns = round(1e3 * seen.node_us * seen.node_inside_share)
        after_ns = round(1e3 * seen.node_us) - inside_ns
        starts = [
            max(ready, rank.free_ns(COMPUTE))
            for rank, ready in zip(self.ranks, ready_ns, strict=True)
        ]
        length = work.duration_ns * self._jitter(self.jitter_share) + inside_ns
        slots = self._slots(starts, length, together=work.collective)
        early_ns = 0
        if before is not None and not before.collective and not work.collective:
            early_ns = min(self.early_ns, before.duration_ns // 2)
        gap_ns = 0 if self.early_ns else GRAPH_GAP_NS
        gap_ns += self.collective_gap_ns if work.collective else 0
        for rank, slot in zip(self.ranks, slots, strict=True):
            rank.occupy(COMPUTE, slot.end_ns + gap_ns + after_ns)
        return [slot._replace(start_ns=slot.start_ns - early_ns) for slot in slots]

    def _opened(
        self, host: HostThread, name: str, domain: str | None, payload: int | None
    ) -> OpenRange:
        opened = Group._opened(self, host, name, domain, payload)
        opened.phase = _MORE_PHASES.get(name, opened.phase)
        return opened

    def _called(self) -> None:
        for rank in self.ranks:
            rank.main.spend(round(1e3 * self.recorder.call_us))
        self.ranks[-1].main.spend(self.late_call_ns)

    def _border(self) -> None:
        for rank in self.ranks:
            rank.main.spend(round(1e3 * self.recorder.range_us))
            self._flush(rank)

    def _flush(self, rank: Rank) -> None:
        """Stand still while a full buffer of records is written."""
        every_ns = round(1e3 * self.recorder.flush_every_us)
        if not every_ns:
            return
        host = rank.main
        due_ns = self.flush_ns.setdefault(rank.process.process_id, _FIRST_NS + every_ns)
        if host.now_ns < due_ns:
            return
        start_ns = host.now_ns
        host.spend(round(1e3 * self.recorder.flush_us))
        row = Overhead(host.thread, start_ns, host.now_ns, "CUPTI: Buffer flush")
        self.recording.overheads.append(row)
        self.flush_ns[rank.process.process_id] = host.now_ns + every_ns

    @property
    def recording(self) -> Recording:
        """What is being recorded."""
        return self.ranks[0].recording

    @property
    def hosts(self) -> list[HostThread]:
        """The main thread of each rank."""
        return [rank.main for rank in self.ranks]


def start_process(recording: Recording, place: int, name: str, domain: str) -> HostThread:
    """A process without a GPU: a scheduler, an API server."""
    process = Process(52_000 + 7 * place, name)
    recording.processes.append(process)
    thread = recording.thread(process, process.process_id, "MainThread")
    recording.domains.append(Domain(thread, -3_000_000_000, domain))
    return HostThread(recording, thread, _FIRST_NS)


def start_rank(recording: Recording, place: int, name: str, domain: str) -> Rank:
    """A process with a GPU of its own; ids of all ranks count through the same numbers."""
    process = Process(41_000 + 7 * place, name, device_id=place, gpu_id=place)
    recording.processes.append(process)
    main = recording.thread(process, process.process_id, "MainThread")
    side = recording.thread(process, process.process_id + 3, "side")
    for shift, each in enumerate(("NCCL", domain)):
        recording.domains.append(Domain(main, -3_000_000_000 + 50_000 * shift, each))
    recording.diagnostics.append(
        Diagnostic(1_000_000, 1, "CUDA injection initialized successfully.", process)
    )
    return Rank(
        recording,
        process,
        HostThread(recording, main, _FIRST_NS),
        HostThread(recording, side, _FIRST_NS),
        900 + 11 * place,
    )
