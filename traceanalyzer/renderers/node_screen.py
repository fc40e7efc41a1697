"""The terminal's section on what recording graph nodes cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding

from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.node_text import NODE_TITLES, node_lines, node_rows
from traceanalyzer.renderers.screen import Column, bold, fitted, indented, screen_width

if TYPE_CHECKING:
    from rich.console import RenderableType

    from traceanalyzer.report import Report


def node_recording(report: Report) -> list[RenderableType]:
    """Nothing where no phase was recorded both with whole-graph rows and node by node."""
    rows = node_rows(report)
    if not rows:
        return []
    names = {"phase", "batch"}
    needs = (9, 6, 7, 8, 8, 9, 5)
    columns = [
        Column(title, need, figures=title not in names)
        for title, need in zip(NODE_TITLES, needs, strict=True)
    ]
    cells = [[safe(cell) for cell in row] for row in rows]
    first, *more = (Padding(safe(line), (0, 0, 0, 2)) for line in node_lines(report))
    table = indented(fitted(columns, cells, width=screen_width() - 2))
    return [bold("Node recording"), first, table, *more, ""]
