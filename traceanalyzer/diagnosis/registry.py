"""Every finding, in the order in which causes come before their effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.analyses.trust import FAILED, WARNING
from traceanalyzer.diagnosis import gpu_work, host_ranges, recording, timing
from traceanalyzer.diagnosis.case import ERROR, INFO, SEVERITIES
from traceanalyzer.report import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.diagnosis.case import Case
    from traceanalyzer.report import Finding

FINDINGS: Final[tuple[Callable[[Case], Finding | None], ...]] = (
    gpu_work.no_kernels,
    gpu_work.kernels_on_some_ranks,
    gpu_work.forked_workers,
    host_ranges.nvtx_too_new,
    host_ranges.no_phase_ranges,
    host_ranges.captured_not_replayed,
    host_ranges.ranges_left_open,
    recording.truncated,
    recording.buffers_lost,
    timing.synchronisation_in_phases,
    gpu_work.graph_mode,
    gpu_work.kernels_without_launches,
    gpu_work.launches_without_kernels,
    recording.clocks_not_aligned,
    recording.profiler_overhead,
    host_ranges.accept_marks_missing,
    timing.lag_over_a_cycle,
)

# The report's trust checks tell of the others already, from the same evidence.
_NEW_IN_TRUST: Final = frozenset(
    {
        "nvtx_too_new",
        "captured_not_replayed",
        "ranges_left_open",
        "launches_without_kernels",
        "clocks_not_aligned",
        "profiler_overhead",
    }
)


def diagnose(case: Case) -> list[Finding]:
    """All findings of a capture, the gravest first."""
    return gravest_first([finding for find in FINDINGS if (finding := find(case)) is not None])


def gravest_first(findings: Sequence[Finding]) -> list[Finding]:
    """Findings by severity, otherwise in their order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def trust_checks(findings: Sequence[Finding]) -> list[Check]:
    """The findings that a reader of the report has to know, as rows of its trust table."""
    return [
        Check(
            finding.finding.replace("_", " "),
            FAILED if finding.severity == ERROR else WARNING,
            f"{finding.text}: {finding.consequence}",
            finding.next_step,
        )
        for finding in findings
        if finding.finding in _NEW_IN_TRUST and finding.severity != INFO
    ]
