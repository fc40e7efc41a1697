"""What is wrong with one capture: the answer of `traceanalyzer doctor`."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.report.capture import CaptureFile, Finding, Tool

DIAGNOSIS_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings, the gravest first; none of them where the capture is sound."""

    schema_version: int = DIAGNOSIS_SCHEMA_VERSION
    tool: Tool
    files: list[CaptureFile]
    findings: list[Finding]

    def to_json(self) -> bytes:
        """The diagnosis as JSON."""
        import msgspec

        return msgspec.json.format(msgspec.json.encode(self), indent=2)
