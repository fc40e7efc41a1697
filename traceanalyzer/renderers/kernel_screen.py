"""The terminal's table of the kernels that take most GPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, milliseconds, percent, safe
from traceanalyzer.renderers.screen import Column, bold, fitted, indented, screen_width

if TYPE_CHECKING:
    from rich.console import RenderableType

    from traceanalyzer.report import Report

_SHOWN: Final = 12
_LEAST_WIDTH: Final = 30


def longest_kernels(report: Report) -> list[RenderableType]:
    """Kernels by name, those with most busy time in any phase."""
    named = [each for each in report.kernels if each.kernel is not None]
    if not named:
        return ["No kernels: the kept cycles hold no GPU work.", ""]
    columns = [
        Column("phase", 8, figures=False),
        Column("busy ms", 9),
        Column("of phase", 7),
        Column("ops", 6),
        Column("class", 5, figures=False),
        Column("kernel", 10, figures=False, wraps=True, least_width=_LEAST_WIDTH),
    ]
    shown = sorted(named, key=lambda each: -each.busy_ns)[:_SHOWN]
    rows = [
        [
            each.phase,
            milliseconds(each.busy_ns),
            percent(each.share),
            count(each.ops),
            each.kernel_class,
            safe(each.kernel or ""),
        ]
        for each in shown
    ]
    parts: list[RenderableType] = [
        bold("Kernels, over the kept cycles of all ranks"),
        indented(fitted(columns, rows, width=screen_width() - 2)),
    ]
    if more := len(report.kernels) - len(shown):
        parts.append(f"  ... and {count(more)} rows more: --format csv --kernels has them all")
    return [*parts, ""]
