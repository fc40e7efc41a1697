"""How the report says that phases were inferred, or why they were not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report import InferenceReport

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace


def inference_of(phased: PhasedTrace) -> InferenceReport | None:
    """What was inferred, None where ranges mean phases or none was wanted."""
    found = phased.inference
    if found is None:
        return None
    return InferenceReport(
        inferred=found.ranges is not None,
        score=found.score,
        evidence=list(found.evidence),
        declined_because=list(found.reasons),
    )
