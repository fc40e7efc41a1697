"""Why verify costs more than a plain step, on the page: causes, classes, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.renderers import verdict_text as words
from traceanalyzer.renderers.growth_text import (
    KERNEL_TITLES,
    cause_lines,
    evidence_lines,
    kernel_rows,
)
from traceanalyzer.renderers.html.cycle_sections import drawn
from traceanalyzer.renderers.html.escaping import element
from traceanalyzer.renderers.html.sections import table

if TYPE_CHECKING:
    from traceanalyzer.renderers.html.sections import Part
    from traceanalyzer.report import Report


def why_verify(report: Report) -> list[Part]:
    """The causes in sentences, the classes as a chart, each kernel in a table."""
    main = words.main_bucket(report.verdict) if report.verdict else None
    charts = list(drawn("verify_growth")(report))
    if main is None or not charts:
        return charts
    causes = element("ul", *(element("li", line) for line in cause_lines(main)))
    rests_on = element("ul", *(element("li", line) for line in evidence_lines(main)))
    rows = kernel_rows(main)
    if not rows:
        return [causes, *charts, rests_on]
    places = (0, len(KERNEL_TITLES) - 1)
    summary = element("summary", "kernel by kernel")
    kernels = element("details", summary, table(KERNEL_TITLES, rows, words=places))
    return [causes, *charts, kernels, rests_on]
