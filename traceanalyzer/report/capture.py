"""What was captured and by what, and how far its figures can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_DEVICE_SYNCS_PER_CYCLE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Tool:
    """What wrote the report."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """One file that was read."""

    path: str
    format: str
    product: str
    product_version: str | None
    schema_version: str | None
    start_utc_ns: int | None
    duration_ns: int | None


@dataclass(frozen=True, slots=True)
class Capture:
    """The capture: its files, what they hold, and where phases are timed ("gpu" or "host")."""

    files: list[CaptureFile]
    time_base: str
    ops: int
    launches: int
    ranges: int


@dataclass(frozen=True, slots=True)
class Clock:
    """How times of different ranks relate."""

    unit: str
    alignment: str


@dataclass(frozen=True, slots=True)
class MethodShare:
    """Busy GPU time attributed by one method."""

    method: str
    busy_ns: int
    share: float
    ops: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The ledger of attribution; shares of the methods add up to 1.

    `covered_share` is what was launched inside a phase range. `not_collected` counts ops that
    the profiler listed without times.
    """

    busy_ns: int
    covered_share: float
    not_collected: int
    by_method: list[MethodShare]


@dataclass(frozen=True, slots=True)
class InferenceReport:
    """What phases rest on where no range means one.

    Attributes:
        inferred: Whether they were inferred; if not, the work has no phase.
        score: From 0 to 1: the weakest of the share of GPU time that got a phase and the share of
            neighbouring cycles that run the same forwards.
        evidence: Sentences on the first rank.
        declined_because: Why nothing was inferred.
    """

    inferred: bool
    score: float
    evidence: list[str]
    declined_because: list[str]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that decides whether the figures can be trusted: ok, warning or failed."""

    check: str
    status: str
    text: str
    next_step: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a capture, with its evidence and what to do.

    Attributes:
        finding: Its name, the same in every version: "no_kernels".
        text: What is wrong, in one sentence.
        next_step: The flag, variable or command that mends it.
        severity: "error" (figures are missing or wrong), "warning" (some are in doubt) or "info".
        evidence: What in the capture tells so.
        consequence: What it does to the report.
    """

    finding: str
    text: str
    next_step: str | None = None
    severity: str = "warning"
    evidence: str = ""
    consequence: str = ""


@dataclass(frozen=True, slots=True)
class SyncCalls:
    """Calls in which the host waits for the GPU, made inside the ranges of one phase.

    Attributes:
        phase: The phase; "other" in a cycle outside every phase.
        scope: "device", "stream", "event" or "copy" (a blocking copy).
        calls: How many, over the whole trace.
        host_ns: Host time in them.
    """

    phase: str
    scope: str
    calls: int
    host_ns: int


@dataclass(frozen=True, slots=True)
class Instrumentation:
    """How far the recording itself may have changed what it recorded.

    Attributes:
        cycles: Cycles of the rank with most of them, kept ones and others.
        sync_calls: By phase and scope.
        device_syncs_per_cycle: Whole-device synchronisations inside cycles, prompt work left out;
            a server makes none.
        sync_gap_share: Idle time of kept cycles that synchronisation caused, of their time.
        host_gap_share: That and all other idle time in which the GPU waited for a launch: an
            estimate of what the period loses where waits take away the host's lead.
    """

    cycles: int
    sync_calls: list[SyncCalls]
    device_syncs_per_cycle: float
    sync_gap_share: float
    host_gap_share: float

    @property
    def synchronised(self) -> bool:
        """Whether synchronising timers were at work: a server itself makes no such call."""
        return self.device_syncs_per_cycle > _DEVICE_SYNCS_PER_CYCLE
