"""The phases of every rank, or the kernels, as one flat CSV table; times in nanoseconds."""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from typing import TYPE_CHECKING

from traceanalyzer.report import KernelTotal

if TYPE_CHECKING:
    from traceanalyzer.report import PhaseReport, RankReport, Report

_RANK = ("rank", "process_id", "device")
_TOTALS = (
    "phase",
    "ops",
    "kernels",
    "kernel_ns",
    "graph_rows",
    "graph_row_ns",
    "launches",
    "graph_launches",
    "summed_ns",
    "busy_ns",
    "exclusive_ns",
    "overlap_ns",
)
_SPREAD = ("mean", "p50", "p5", "p95", "p99")
_LEAD = ("p5", "p50")


def render_csv(report: Report) -> str:
    """One row a rank and phase; figures that a phase lacks are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            *_RANK,
            *_TOTALS,
            *(f"window_ns_per_cycle_{name}" for name in _SPREAD),
            *(f"host_lead_ns_{name}" for name in _LEAD),
            "cycles_kept",
        ]
    )
    for rank in report.ranks:
        writer.writerows(_row(rank, phase) for phase in rank.phases)
    return text.getvalue()


def _row(rank: RankReport, phase: PhaseReport) -> list[object]:
    window, lead = phase.window_ns_per_cycle, phase.host_lead_ns
    return [
        rank.rank,
        rank.process_id,
        rank.device.index if rank.device else "",
        *(getattr(phase, name) for name in _TOTALS),
        *(getattr(window, name) if window else "" for name in _SPREAD),
        *(getattr(lead, name) if lead else "" for name in _LEAD),
        rank.cycles.kept,
    ]


def render_kernel_csv(report: Report) -> str:
    """One row a kernel of a phase; one without a name stands for what its class says."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [each.name for each in fields(KernelTotal)]
    writer.writerow(names)
    for kernel in report.kernels:
        values = (getattr(kernel, name) for name in names)
        writer.writerow(["" if value is None else value for value in values])
    return text.getvalue()
