"""What a finding is found from: the capture, its report, and the meaning of its ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture.completeness import rank_evidence

if TYPE_CHECKING:
    from traceanalyzer.capture.completeness import RankEvidence
    from traceanalyzer.diagnosis.facts import Facts
    from traceanalyzer.report import Report
    from traceanalyzer.trace import Trace

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"
SEVERITIES: Final = (ERROR, WARNING, INFO)


@dataclass(frozen=True, slots=True)
class Case:
    """One capture under examination.

    Attributes:
        trace: The capture; ops, launches and ranges are told by the facts alone.
        report: What the analyses found, without findings of its own yet.
        facts: What its large tables tell.
        workers: What each process that does a rank's work left; none looked for without kernels.
    """

    trace: Trace
    report: Report
    facts: Facts
    workers: tuple[RankEvidence, ...]

    @classmethod
    def of(cls, trace: Trace, report: Report, facts: Facts) -> Case:
        """Look at what several findings need, once."""
        workers: list[RankEvidence] = []
        if facts.processes["kernels"].sum():
            workers = rank_evidence(trace.processes, facts.processes, cuda=True)
        return cls(trace, report, facts, tuple(workers))

    def count(self, column: str) -> int:
        """A count of the facts over all processes."""
        return int(self.facts.processes[column].sum())

    def phases(self) -> list[str]:
        """The phases that ranges mean."""
        return self.facts.phases["phase"].to_list()


def listed(names: list[str], most: int = 8) -> str:
    """Names in a row; of many, the first ones."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def many(number: int, thing: str, things: str | None = None) -> str:
    """A number with its thing."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"
