"""The Report: plain data, versioned, equal after a trip through JSON.

Times are nanoseconds and shares 0..1. Totals are over the whole trace, edge cycles included;
`..._per_cycle` figures are over kept cycles only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from traceanalyzer.report.buckets import (
    Acceptance,
    BucketAcceptance,
    BucketPhase,
    BucketReport,
    BucketShape,
    ClassTime,
    Estimated,
    Rollup,
    SlotLedger,
)
from traceanalyzer.report.capture import (
    Capture,
    CaptureFile,
    Check,
    Clock,
    Coverage,
    Finding,
    Instrumentation,
    MethodShare,
    SyncCalls,
    Tool,
)
from traceanalyzer.report.ranks import (
    CyclesReport,
    Device,
    Dropped,
    Gap,
    HostLead,
    PhaseReport,
    RankReport,
    Spread,
)
from traceanalyzer.report.verdict import (
    Action,
    Agreement,
    BucketVerdict,
    Growth,
    MixedLoad,
    Reading,
    Verdict,
)

__all__ = [
    "SCHEMA_VERSION",
    "Acceptance",
    "Action",
    "Agreement",
    "BucketAcceptance",
    "BucketPhase",
    "BucketReport",
    "BucketShape",
    "BucketVerdict",
    "Capture",
    "CaptureFile",
    "Check",
    "ClassTime",
    "Clock",
    "Coverage",
    "CyclesReport",
    "Device",
    "Dropped",
    "Estimated",
    "Finding",
    "Gap",
    "Growth",
    "HostLead",
    "Instrumentation",
    "MethodShare",
    "MixedLoad",
    "PhaseReport",
    "RankReport",
    "Reading",
    "Report",
    "Rollup",
    "SlotLedger",
    "Spread",
    "SyncCalls",
    "Tool",
    "Verdict",
]

SCHEMA_VERSION: Final = 1


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
    instrumentation: Instrumentation | None = None
    verdict: Verdict | None = None
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
