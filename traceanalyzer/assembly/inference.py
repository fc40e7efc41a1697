"""How the report says that phases were inferred, or why they were not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report import InferenceReport

if TYPE_CHECKING:
    from traceanalyzer.phases.inference import Agreement


def inference_report(found: Agreement) -> InferenceReport:
    """What was inferred, of a capture in which no range means a phase."""
    return InferenceReport(
        inferred=bool(found.lanes),
        score=found.score,
        evidence=list(found.evidence),
        declined_because=list(found.reasons),
    )
