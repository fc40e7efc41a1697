"""The Report: plain data, versioned, equal after a trip through JSON.

Times are nanoseconds and shares 0..1. Totals are over the whole trace, edge cycles included;
`..._per_cycle` figures are over kept cycles only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SCHEMA_VERSION: Final = 1


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
class Device:
    """A rank's GPU."""

    index: int
    name: str | None


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
class Spread:
    """A distribution over kept cycles, ns; the quantiles are observed values (nearest rank)."""

    mean: float
    p50: int
    p5: int
    p95: int
    p99: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Idle time of one cause: over the whole trace, and the mean of a kept cycle.

    `share` is of the phase's gaps per cycle.
    """

    cause: str
    ns: int
    ns_per_cycle: float
    share: float


@dataclass(frozen=True, slots=True)
class HostLead:
    """Op start minus launch call start, ns."""

    p5: int
    p50: int


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """One phase on one rank."""

    phase: str
    ops: int
    kernels: int
    kernel_ns: int
    graph_rows: int
    graph_row_ns: int
    launches: int
    graph_launches: int
    summed_ns: int
    busy_ns: int
    exclusive_ns: int
    overlap_ns: int
    window_ns_per_cycle: Spread | None
    gaps: list[Gap]
    host_lead_ns: HostLead | None


@dataclass(frozen=True, slots=True)
class Dropped:
    """Cycles that are counted but not averaged, by reason."""

    warm_up: int
    edge: int
    interrupted: int
    dummy: int


@dataclass(frozen=True, slots=True)
class CyclesReport:
    """Cycles of one rank."""

    kept: int
    dropped: Dropped
    period_ns: Spread | None
    prefill_stall_ns: int


@dataclass(frozen=True, slots=True)
class RankReport:
    """One rank: a pair of process and GPU."""

    rank: int
    process_id: int
    process_name: str | None
    device: Device | None
    coverage: Coverage
    cycles: CyclesReport
    phases: list[PhaseReport]


@dataclass(frozen=True, slots=True)
class BucketShape:
    """What makes cycles comparable; None is unknown."""

    kind: str
    batch: int | None
    padded_batch: int | None
    verified_tokens: int | None
    draft_tokens: int | None
    prompt_tokens: int | None
    graph: str | None


@dataclass(frozen=True, slots=True)
class BucketPhase:
    """One phase's window in the cycles of a bucket, over all ranks."""

    phase: str
    window_ns_per_cycle: Spread
    window_share: float
    gap_ns_per_cycle: float
    gaps: list[Gap]


@dataclass(frozen=True, slots=True)
class Rollup:
    """Several phases' windows together: target = verify + sample, drafting = draft + draft_extend.

    `share_of_period` is what removing them could save at most.
    """

    name: str
    mean_ns_per_cycle: float
    share_of_period: float


@dataclass(frozen=True, slots=True)
class BucketReport:
    """The kept cycles of one shape, over all ranks.

    The mean windows of the phases and `overlap_ns_per_cycle` add up to the mean period.
    """

    shape: BucketShape
    ranks: int
    cycles: int
    time_share: float
    period_ns: Spread
    overlap_ns_per_cycle: float
    overlap_share: float
    phases: list[BucketPhase]
    rollups: list[Rollup]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Accepted drafts of requests in cycles; the bonus token is in `accept_len` alone.

    Histograms count request-cycles by accepted drafts, from 0 up. `accept_len` is committed
    tokens per live request-cycle; stale ones are finished requests verified once more.
    """

    source: str
    request_cycles: int
    live_request_cycles: int
    stale_request_cycles: int
    accepted_drafts_histogram: list[int]
    live_accepted_drafts_histogram: list[int]
    overshoot_tokens: int
    committed_tokens: int
    accept_len: float | None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that decides whether the figures can be trusted: ok, warning or failed."""

    check: str
    status: str
    text: str
    next_step: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something the reader should know, with its evidence and what to do."""

    finding: str
    text: str
    next_step: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one capture shows; `coverage` is that of all ranks, None without GPU work."""

    schema_version: int = SCHEMA_VERSION
    tool: Tool
    capture: Capture
    clock: Clock
    coverage: Coverage | None
    ranks: list[RankReport]
    buckets: list[BucketReport]
    acceptance: Acceptance | None = None
    verdict: dict[str, float] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    trust: list[Check] = field(default_factory=list)

    def to_json(self) -> bytes:
        """The report as JSON."""
        import msgspec

        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, data: bytes) -> Report:
        """Read what `to_json` wrote.

        Raises:
            InputError: The data is no report of this schema version.
        """
        import msgspec

        from traceanalyzer.errors import InputError

        try:
            report = msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise InputError(f"this is no report: {error}") from None
        if report.schema_version != SCHEMA_VERSION:
            raise InputError(f"reports of schema version {report.schema_version} cannot be read")
        return report
