"""A host thread, a rank and its GPU streams as clocks: who calls what when, and when it runs.

The truth of an op is read off the thread's open ranges at the moment of its launch, which is what
`definitions` of attribution ask for; a launch that straddles a range's end belongs outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.recording import (
    UNATTRIBUTED,
    ApiCall,
    Process,
    Range,
    Recording,
    Thread,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPUTE: Final = 7
COMMUNICATION: Final = 15
COPY: Final = 20
OFFLOAD: Final = 22


@dataclass(slots=True)
class OpenRange:
    """A range that has begun; `phase` None means that it says nothing about phases."""

    name: str
    domain: str | None
    start_ns: int
    payload: int | None
    phase: str | None
    registered: bool
    end_ns: int | None = None


@dataclass(slots=True)
class HostThread:
    """A CPU thread with its own clock and its stack of open push/pop ranges."""

    recording: Recording
    thread: Thread
    now_ns: int
    open: list[OpenRange] = field(default_factory=list)
    last_call: ApiCall | None = None

    def spend(self, duration_ns: int) -> None:
        """Let host work pass."""
        self.now_ns += duration_ns

    def push(self, opened: OpenRange, *, inside_last_call: bool = False) -> None:
        """Open a range now, or halfway through the last API call."""
        if inside_last_call and self.last_call is not None:
            opened.start_ns = _halfway(self.last_call)
        self.open.append(opened)

    def pop(self) -> None:
        """Close the innermost range, now unless a straddling launch closed it before."""
        closed = self.open.pop()
        end_ns = self.now_ns if closed.end_ns is None else closed.end_ns
        self.recording.ranges.append(
            Range(
                self.thread,
                closed.start_ns,
                end_ns,
                closed.name,
                closed.domain,
                registered=closed.registered,
                payload=closed.payload,
            )
        )

    def close_inside_last_call(self) -> None:
        """Let the innermost range end halfway through the API call just made."""
        assert self.last_call is not None
        self.open[-1].end_ns = _halfway(self.last_call)

    def phase(self, *, straddling: bool = False) -> str:
        """Phase of a launch made now; `straddling` leaves the innermost range out."""
        for opened in reversed(self._holding(straddling)):
            if opened.phase is not None:
                return opened.phase
        return UNATTRIBUTED

    def iteration(self, *, straddling: bool = False) -> int | None:
        """Iteration number of a launch made now, as the open ranges' payloads say."""
        numbers = [opened.payload for opened in self._holding(straddling)]
        return next((number for number in reversed(numbers) if number is not None), None)

    def _holding(self, straddling: bool) -> Sequence[OpenRange]:
        return self.open[:-1] if straddling else self.open


def _halfway(call: ApiCall) -> int:
    return (call.start_ns + call.end_ns) // 2


@dataclass(slots=True)
class Rank:
    """One process on its GPU: two host threads, streams, and ids that count up per process.

    Attributes:
        slowness: Factor on the length of this rank's kernels.
        next_correlation: Ranks count through the same numbers, so ids collide between them.
    """

    recording: Recording
    process: Process
    main: HostThread
    offload: HostThread
    next_correlation: int
    slowness: float = 1.0
    backtraces: bool = False
    next_graph: int = 1
    next_node: int = 1
    _free_ns: dict[int, int] = field(default_factory=dict)

    def call(
        self, host: HostThread, name: str, duration_ns: int, *, driver: bool = False
    ) -> ApiCall:
        """Make an API call of this length on a thread of this rank."""
        call = ApiCall(
            host.thread,
            host.now_ns,
            host.now_ns + duration_ns,
            name,
            self.next_correlation,
            driver,
            self.backtraces,
        )
        self.recording.calls.append(call)
        self.next_correlation += 1
        host.now_ns = call.end_ns
        host.last_call = call
        return call

    def free_ns(self, stream_id: int) -> int:
        """When a stream can take its next op; side streams wait for what compute did so far."""
        own = self._free_ns.get(stream_id, 0)
        if stream_id in (COMMUNICATION, COPY):
            return max(own, self._free_ns.get(COMPUTE, 0))
        return own

    def occupy(self, stream_id: int, until_ns: int) -> None:
        """Keep a stream busy until then at least."""
        self._free_ns[stream_id] = max(self._free_ns.get(stream_id, 0), until_ns)

    def idle_ns(self) -> int:
        """When all streams have run what was launched so far."""
        return max(self._free_ns.values(), default=0)

    def take_graph_id(self) -> int:
        """The next id of a graph or of an executable graph (both count in one row)."""
        self.next_graph += 1
        return self.next_graph - 1

    def take_node_id(self) -> int:
        """The next id of a graph node."""
        self.next_node += 1
        return self.next_node - 1
