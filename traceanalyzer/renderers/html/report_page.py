"""The report as a page: the first screen answers, the rest shows why.

A section joins by its line in `SECTIONS`; one that has nothing to show is absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.html import cycle_sections as cycle
from traceanalyzer.renderers.html import detail_sections as detail
from traceanalyzer.renderers.html import growth_sections as growth
from traceanalyzer.renderers.html import origin_sections as origin
from traceanalyzer.renderers.html import verdict_sections as verdict
from traceanalyzer.renderers.html.escaping import element, name
from traceanalyzer.renderers.html.sections import Section, sections_page

if TYPE_CHECKING:
    from traceanalyzer.renderers.html.escaping import Markup
    from traceanalyzer.report import Report

SECTIONS: Final[tuple[Section[Report], ...]] = (
    Section("verdict", "Verdict", verdict.answer, wide=True),
    Section("trust", "Can it be trusted?", verdict.trust_failed, wide=True),
    Section("cycle", "Where a cycle goes", cycle.cycles, wide=True),
    Section("actions", "What to do", verdict.actions, wide=True),
    Section("buckets", "Cycles by shape", cycle.buckets, wide=True),
    Section("batches", "Verdict by batch", verdict.by_batch, wide=True),
    Section("waterfall", "A cycle in pictures", cycle.drawn("waterfall", "windows"), wide=True),
    Section("acceptance", "Acceptance", cycle.drawn("acceptance", "slots")),
    Section("break-even", "Break-even", cycle.drawn("break_even")),
    Section("why", "In words", verdict.why, wide=True),
    Section("growth", "Why verify costs more", growth.why_verify, wide=True),
    Section("distribution", "From cycle to cycle", cycle.drawn("distribution")),
    Section("ranks", "From rank to rank", cycle.drawn("ranks")),
    Section("each-cycle", "Cycle by cycle", cycle.drawn("each_cycle")),
    Section("rank-cycles", "Cycle by rank", cycle.drawn("rank_cycles")),
    Section("slowest", "Slowest cycles", detail.slowest, wide=True),
    Section("graphs", "CUDA graphs", cycle.graphs, wide=True),
    Section("findings", "Findings", verdict.findings, wide=True),
    Section("kernels", "Kernels by class", cycle.kernels, wide=True),
    Section("kernel-names", "Kernels by name", detail.kernels, wide=True),
    Section("trust", "Can it be trusted?", verdict.trust),
    Section("coverage", "Coverage", origin.coverage),
    Section("provenance", "Provenance", origin.provenance),
)


def render_report_page(report: Report) -> bytes:
    """One self-contained HTML file."""
    file_name = report.capture.files[0].path.rsplit("/", 1)[-1] if report.capture.files else ""
    return sections_page(f"{file_name} - traceanalyzer", _heading(report), SECTIONS, report)


def _heading(report: Report) -> list[Markup]:
    """What was captured, by what, on what."""
    files = report.capture.files
    told = [name(files[0].path)] if files else []
    if len(files) > 1:
        told.append(element("span", f"and {len(files) - 1} more"))
    facts = [f"{files[0].product} {files[0].product_version or ''}".rstrip()] if files else []
    if report.ranks:
        unit = "rank" if report.capture.time_base == "gpu" else "thread"
        facts.append(f"{len(report.ranks)} {unit}{'' if len(report.ranks) == 1 else 's'}")
    facts += sorted({rank.device.name for rank in report.ranks if rank.device and rank.device.name})
    return [
        element("h1", *(part for each in told for part in (each, " "))),
        element("p", " · ".join(facts), class_="muted"),
    ]
