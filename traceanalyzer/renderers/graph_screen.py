"""The terminal's tables of CUDA graphs, and of the draft steps and layers inside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, safe
from traceanalyzer.renderers.graph_text import (
    GRAPH_TITLES,
    STEP_TITLES,
    graph_row,
    layer_lines,
    replay_only_note,
    step_rows,
)
from traceanalyzer.renderers.screen import Column, bold, fitted, indented, screen_width

if TYPE_CHECKING:
    from rich.console import RenderableType

    from traceanalyzer.report import GraphReport, Report

_SHOWN: Final = 10
_NEEDS: Final = {
    "launches": 8,
    "GPU ms": 8,
    "batch": 7,
    "ops": 7,
    "every ms": 6,
    "launch call": 6,
    "GPU waits": 6,
    "99 %": 5,
    "blocks": 4,
    "ranks": 3,
}


def cuda_graphs(graphs: list[GraphReport]) -> list[RenderableType]:
    """The graphs with most GPU time."""
    if not graphs:
        return []
    names = {"graph of", "batch", "ranks"}
    columns = [
        Column(title, _NEEDS.get(title, 9), figures=title not in names) for title in GRAPH_TITLES
    ]
    rows = [[safe(cell) for cell in graph_row(graph)] for graph in graphs[:_SHOWN]]
    table = indented(fitted(columns, rows, width=_width()))
    parts: list[RenderableType] = [bold("CUDA graphs"), table]
    if more := len(graphs) - _SHOWN:
        parts += [f"  ... and {count(more)} more: --format json has them all"] if more > 0 else []
    if note := replay_only_note(graphs):
        parts.append(note)
    return [*parts, ""]


def draft_steps(report: Report) -> list[RenderableType]:
    """Draft steps and layers, where ranges tell them."""
    parts: list[RenderableType] = []
    if rows := step_rows(report):
        names = {"draft step", "batch"}
        columns = [Column(title, 8, figures=title not in names) for title in STEP_TITLES]
        table = fitted(columns, [[safe(cell) for cell in row] for row in rows], width=_width())
        parts += [bold("Draft steps"), indented(table), ""]
    if lines := layer_lines(report):
        parts += [bold("Layers"), *(f"  {safe(line)}" for line in lines), ""]
    return parts


def _width() -> int:
    return screen_width() - 2
