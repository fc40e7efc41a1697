"""What is known beside a capture: a baseline, acceptance counted elsewhere, tokens per second."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceanalyzer.verdict.baseline import Baseline

if TYPE_CHECKING:
    from traceanalyzer.speculation.acceptance import AcceptanceReading


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside the capture.

    Attributes:
        baseline: Plain decode steps.
        readings: Acceptance as somebody else counted it; the first is used where marks lack.
        tokens_per_s: Served without tracing, all requests together.
        not_decoding_share: Share of the baseline's wall time that is not decoding.
    """

    baseline: Baseline = field(default_factory=Baseline)
    readings: tuple[AcceptanceReading, ...] = ()
    tokens_per_s: float | None = None
    not_decoding_share: float | None = None
