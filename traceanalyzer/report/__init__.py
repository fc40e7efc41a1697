"""The Report: plain data, versioned, equal after a trip through JSON.

Times are nanoseconds and shares 0..1. Totals are over the whole trace, edge cycles included;
`..._per_cycle` figures are over kept cycles only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from traceanalyzer.report.buckets import (
    Acceptance,
    BucketAcceptance,
    BucketPhase,
    BucketReport,
    BucketShape,
    ClassTime,
    Estimated,
    FreeDrafting,
    KernelSlot,
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
    InferenceReport,
    Instrumentation,
    MethodShare,
    SyncCalls,
    Tool,
)
from traceanalyzer.report.detail import OTHER_KERNELS, CycleRow, KernelTotal
from traceanalyzer.report.graphs import CarriedPlaces, GraphReport, PartTime, PhaseParts
from traceanalyzer.report.growth import Growth, GrowthCause, GrowthEvidence, KernelGrowth
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
from traceanalyzer.report.skew import (
    CollectiveWait,
    GroupSkew,
    LatePhase,
    RankSkew,
    WaitingIncluded,
)
from traceanalyzer.report.soundness import contradiction
from traceanalyzer.report.two_pass import ClassShare, NodeGraph, NodePhase, NodeRecording
from traceanalyzer.report.verdict import (
    Action,
    Agreement,
    BucketVerdict,
    MixedLoad,
    Reading,
    Verdict,
)

__all__ = [
    "OTHER_KERNELS",
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
    "CarriedPlaces",
    "Check",
    "ClassShare",
    "ClassTime",
    "Clock",
    "CollectiveWait",
    "Coverage",
    "CycleRow",
    "CyclesReport",
    "Device",
    "Dropped",
    "Estimated",
    "Finding",
    "FreeDrafting",
    "Gap",
    "GraphReport",
    "GroupSkew",
    "Growth",
    "GrowthCause",
    "GrowthEvidence",
    "HostLead",
    "InferenceReport",
    "Instrumentation",
    "KernelGrowth",
    "KernelSlot",
    "KernelTotal",
    "LatePhase",
    "MethodShare",
    "MixedLoad",
    "NodeGraph",
    "NodePhase",
    "NodeRecording",
    "PartTime",
    "PhaseParts",
    "PhaseReport",
    "RankReport",
    "RankSkew",
    "Reading",
    "Report",
    "Rollup",
    "SlotLedger",
    "Spread",
    "SyncCalls",
    "Tool",
    "Verdict",
    "WaitingIncluded",
]

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one capture shows.

    `coverage` is that of all ranks, None without GPU work. `inference` is None where ranges mean
    phases, and where no inference was wanted. `cycle_rows` are the kept cycles, or whole ones of
    `cycle_rows_of` of them: the slowest, the fastest, and evenly spaced others. `node_recording` is
    None where no phase was recorded both with whole-graph rows and node by node.
    """

    schema_version: int = SCHEMA_VERSION
    tool: Tool
    capture: Capture
    clock: Clock
    coverage: Coverage | None
    ranks: list[RankReport]
    buckets: list[BucketReport]
    graphs: list[GraphReport] = field(default_factory=list)
    parts: list[PhaseParts] = field(default_factory=list)
    carried: list[CarriedPlaces] = field(default_factory=list)
    skew: list[GroupSkew] = field(default_factory=list)
    inference: InferenceReport | None = None
    acceptance: Acceptance | None = None
    instrumentation: Instrumentation | None = None
    verdict: Verdict | None = None
    findings: list[Finding] = field(default_factory=list)
    trust: list[Check] = field(default_factory=list)
    kernels: list[KernelTotal] = field(default_factory=list)
    cycle_phases: list[str] = field(default_factory=list)
    cycle_rows: list[CycleRow] = field(default_factory=list)
    cycle_rows_of: int = 0
    node_recording: NodeRecording | None = None

    def to_json(self) -> bytes:
        """The report as JSON; of the long tables each row is one line."""
        from traceanalyzer.report.json_text import json_text

        return json_text(self, rows=("kernels", "cycle_rows"))

    def figure(self, name: str, *, bucket: int | None = None, dark: bool = False) -> Any:
        """One of the report's charts for a notebook: `traceanalyzer.figure` of this report."""
        from traceanalyzer.renderers.charts import figure

        return figure(self, name, bucket=bucket, dark=dark)

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
        wrong = "it names no capture" if not report.capture.files else contradiction(report)
        if wrong:
            raise InputError(
                f"this report contradicts itself: {wrong}",
                next_step="Write it anew with: traceanalyzer report TRACE --format json",
            )
        return report
