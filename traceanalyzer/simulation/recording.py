"""What one simulated profiler session recorded, and the truth about every piece of GPU work.

A Recording is plain rows, independent of file formats; writers turn it into files and
`truth.truth_of` sums it up. Times are integer nanoseconds on the session's own clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal

from traceanalyzer.errors import InputError
from traceanalyzer.simulation.gpus import H200, Gpu

OpKind = Literal["kernel", "memcpy", "memset", "graph"]
RangeStyle = Literal["push_pop", "start_end"]
Method = Literal[
    "launch in range",
    "graph launch in range",
    "whole-graph row",
    "capture-time range",
    "launched outside ranges",
    "no launch row",
]

OTHER: Final = "other"
UNATTRIBUTED: Final = "unattributed"
TARGET_FORWARDS: Final = ("verify", "decode", "mixed")
"""Phases whose first kernel or graph row opens a cycle, as does that of a fused phase of one."""

HTOD, DTOH, DTOD = 1, 2, 8
"""CUPTI copy kinds."""

SYNC_EVENT, SYNC_STREAM_WAIT, SYNC_STREAM, SYNC_CONTEXT = 1, 2, 3, 4
"""CUPTI synchronisation types."""


@dataclass(frozen=True, slots=True)
class Process:
    """One traced process; a rank is a process on its device."""

    process_id: int
    name: str
    device_id: int = 0
    gpu_id: int = 0


@dataclass(frozen=True, slots=True)
class Thread:
    """One CPU thread of a process."""

    process: Process
    thread_id: int
    name: str


@dataclass(frozen=True, slots=True)
class Range:
    """A host range; `end_ns` None means that it was never closed.

    `end_thread` is set when another thread closed it (start/end ranges only).
    """

    thread: Thread
    start_ns: int
    end_ns: int | None
    name: str
    domain: str | None = None
    style: RangeStyle = "push_pop"
    end_thread: Thread | None = None
    registered: bool = True
    payload: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant on a CPU thread."""

    thread: Thread
    time_ns: int
    name: str
    domain: str | None = None
    registered: bool = True
    payload: int | None = None


@dataclass(frozen=True, slots=True)
class Domain:
    """An NVTX domain as one process created it; domain ids count up per process."""

    thread: Thread
    time_ns: int
    name: str


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A CUDA API call; `backtrace` adds the twin row that recorders write with backtraces on."""

    thread: Thread
    start_ns: int
    end_ns: int
    name: str
    correlation_id: int
    driver: bool = False
    backtrace: bool = False


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel's names as the recorder demangles them, and its launch shape."""

    demangled: str
    short: str
    grid: int = 132
    block: int = 256
    registers: int = 64
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """One piece of GPU work with the truth about it.

    Attributes:
        phase: The phase its launch belongs to by definition, `other` or `unattributed`.
        iteration: Number of the scheduler's iteration that launched it, None outside of any.
        method: How the phase can be known from the file's own rows; "outside ranges" means those
            that have a phase.
        step: Draft forward (0-based) inside the draft phase, None elsewhere.
        layer: Layer (0-based) of the target or the draft model, None outside of any.
        wait_ns: Time a collective spent waiting for its last rank; None for other work.
    """

    kind: OpKind
    process: Process
    stream_id: int
    start_ns: int
    end_ns: int
    correlation_id: int
    phase: str
    method: Method
    iteration: int | None = None
    step: int | None = None
    wait_ns: int | None = None
    kernel: KernelName | None = None
    bytes: int = 0
    copy_kind: int = DTOD
    graph_node_id: int | None = None
    graph_id: int | None = None
    graph_exec_id: int | None = None
    layer: int | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Creation of a CUDA graph, or of its executable form when `exec_id` is set."""

    thread: Thread
    time_ns: int
    graph_id: int
    exec_id: int | None = None


@dataclass(frozen=True, slots=True)
class GraphNode:
    """Creation of a graph node; `original_id` names the node it was cloned from."""

    thread: Thread
    time_ns: int
    node_id: int
    original_id: int | None = None


@dataclass(frozen=True, slots=True)
class Sync:
    """A CUDA synchronisation record; `stream_id` None when no stream is named."""

    process: Process
    start_ns: int
    end_ns: int
    sync_type: int
    correlation_id: int
    event_id: int | None = None
    stream_id: int | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message of the recorder; severity 1 info, 2 warning, 3 error."""

    time_ns: int
    severity: int
    text: str
    process: Process | None = None


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time that the recorder took from a thread."""

    thread: Thread
    start_ns: int
    end_ns: int
    name: str


@dataclass(frozen=True, slots=True)
class Iteration:
    """What the scheduler's iteration `number` did, the same on every rank.

    Attributes:
        kind: `verify`, `decode` when nothing was drafted, `mixed` with prompt tokens beside either.
        draft_tokens: k, drafts per request; 0 in a decode iteration.
        verified_tokens: n, tokens the target runs per request.
        accepted_drafts: Accepted drafts of each request, bonus token excluded.
        requests: Hash of each request's id, as the accept marks carry it.
        replayed: Whether its forwards were replayed as graphs.
        warm_up: Run before the server took real requests.
        dummy: Run on padding only.
    """

    number: int
    kind: Literal["verify", "decode", "mixed"]
    batch_size: int
    draft_tokens: int
    verified_tokens: int
    accepted_drafts: tuple[int, ...]
    requests: tuple[int, ...]
    replayed: bool = False
    warm_up: bool = False
    dummy: bool = False


@dataclass(slots=True)
class Recording:
    """All rows of one session, in the order they happened on each thread.

    `environment`, `host` and `program` (its path, instead of the processes' own names) are what
    real recorders keep of a server;
    `undisturbed_period_ns` is the mean period of the same server without the synchronising calls
    that this one makes around its phases; None when it makes none. `undisturbed` is the same
    server without what recording nodes costs it; None when that costs nothing.
    """

    description: str
    gpu: Gpu = H200
    undisturbed_period_ns: float | None = None
    undisturbed: Recording | None = None
    start_utc_ns: int = 1_767_225_600_000_000_000
    processes: list[Process] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    domains: list[Domain] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    calls: list[ApiCall] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    graph_nodes: list[GraphNode] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    overheads: list[Overhead] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    host: str | None = None
    program: str | None = None
    iterations: list[Iteration] = field(default_factory=list)

    def thread(self, process: Process, thread_id: int, name: str) -> Thread:
        """Add a CPU thread."""
        thread = Thread(process, thread_id, name)
        self.threads.append(thread)
        return thread

    @property
    def end_ns(self) -> int:
        """When the session stopped: after everything that it recorded."""
        ends = (
            max((row.end_ns or row.start_ns for row in self.ranges), default=0),
            max((row.end_ns for row in self.ops), default=0),
            max((row.end_ns for row in self.calls), default=0),
            max((row.time_ns for row in self.marks), default=0),
        )
        return max(ends) + 1_000_000

    def check(self) -> None:
        """Refuse rows that no recorder could have written.

        Raises:
            InputError: A time span runs backwards, a domain was never created, one process used
                a correlation id twice, or an op has no launch although its method says so.
        """
        _check_spans(self)
        _check_domains(self)
        _check_correlations(self)


def _check_spans(recording: Recording) -> None:
    spans: chain[Range | ApiCall | Op | Sync] = chain(
        recording.ranges, recording.calls, recording.ops, recording.syncs
    )
    for row in spans:
        if row.end_ns is not None and row.end_ns < row.start_ns:
            raise InputError(f"ends before it starts: {row}", where="simulated recording")


def _check_domains(recording: Recording) -> None:
    created = {(domain.thread.process, domain.name) for domain in recording.domains}
    named: chain[Range | Mark] = chain(recording.ranges, recording.marks)
    for row in named:
        if row.domain is not None and (row.thread.process, row.domain) not in created:
            raise InputError(f"no such domain: {row}", where="simulated recording")


def _check_correlations(recording: Recording) -> None:
    uses = Counter((call.thread.process, call.correlation_id) for call in recording.calls)
    key, count = max(uses.items(), key=lambda item: item[1], default=(None, 1))
    if count > 1 and key is not None:
        raise InputError(f"correlation id {key[1]} is used by {count} API calls", where=key[0].name)
    for op in recording.ops:
        launched = (op.process, op.correlation_id) in uses
        if launched == (op.method == "no launch row"):
            raise InputError(f"launch row and method disagree: {op}", where="simulated recording")
