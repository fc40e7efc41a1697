"""Each rank: totals of its phases, its cycles, its coverage."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.report.capture import Coverage


@dataclass(frozen=True, slots=True)
class Device:
    """A rank's GPU."""

    index: int
    name: str | None


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
