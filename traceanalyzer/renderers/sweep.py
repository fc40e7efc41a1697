"""A sweep for a person: per batch the captures, the cost curve, what each length would give."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers import sweep_text as words
from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.markdown_tables import escaped, markdown_table
from traceanalyzer.renderers.screen import Column, bold, capture, fitted, indented, screen_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from traceanalyzer.report.sweep import Sweep

# What a column is needed for when space is short: the lengths and their outcome stay longest.
_POINT_NEEDS: Final = (8, 9, 7, 3, 6, 5, 4, 9)
_PREDICTION_NEEDS: Final = (9, 4, 3, 8, 7, 6)
_TEXT_TITLES: Final = ("capture", "")


def render_sweep_terminal(sweep: Sweep, *, plain: bool) -> str:
    """Render for a terminal; `plain` leaves out colour."""
    parts: list[RenderableType] = []
    for batch in sweep.batches:
        parts += [bold(words.title(batch)), *(safe(line) for line in words.sentences(batch)), ""]
        points = [(PurePath(name).name, *rest) for name, *rest in words.point_rows(batch)]
        parts += [_table(words.POINT_TITLES, _POINT_NEEDS, points), ""]
        if batch.predictions:
            rows = words.prediction_rows(batch)
            parts += [_table(words.PREDICTION_TITLES, _PREDICTION_NEEDS, rows), ""]
    parts += [safe(line) for line in words.closing(sweep)]
    return capture(parts, plain=plain)


def _table(
    titles: Sequence[str], needs: Sequence[int], rows: Sequence[Sequence[str]]
) -> RenderableType:
    columns = [
        Column(title, need, figures=title not in _TEXT_TITLES)
        for title, need in zip(titles, needs, strict=True)
    ]
    cells: list[list[str | Text]] = [[safe(cell) for cell in row] for row in rows]
    return indented(fitted(columns, cells, width=screen_width() - 2))


def render_sweep_markdown(sweep: Sweep) -> str:
    """Render as GitHub-flavoured Markdown."""
    parts = ["# Sweep"]
    for batch in sweep.batches:
        parts += [f"## {words.title(batch)}", *(escaped(line) for line in words.sentences(batch))]
        parts.append(markdown_table(words.POINT_TITLES, words.point_rows(batch)))
        if batch.predictions:
            table = markdown_table(words.PREDICTION_TITLES, words.prediction_rows(batch))
            parts.append(table)
    closing = (escaped(line) for line in words.closing(sweep))
    return "\n\n".join([*parts, *closing]) + "\n"
