"""A page of sections: each appears where its subject has something to show, and is absent else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from traceanalyzer.renderers.charts.chart import Chart, drawing
from traceanalyzer.renderers.figures import NS_PER_MS, milliseconds
from traceanalyzer.renderers.html.escaping import Markup, element, joined
from traceanalyzer.renderers.html.page import html_page, static_text
from traceanalyzer.renderers.html.plotly_source import plotly_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
Part = Markup | Chart


@dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    """A part of a page.

    Attributes:
        id: Its anchor.
        title: Its heading.
        parts: Its content for a subject; none where it has nothing to show.
        wide: Whether it takes the whole width of a wide screen.
    """

    id: str
    title: str
    parts: Callable[[T], Sequence[Part]]
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table whose value sorts and copies otherwise than it reads."""

    content: str
    value: float | str


_NO_SCRIPT: Final = "Charts, sorting and copying need JavaScript; every table here does not."


def sections_page(
    title: str, heading: Sequence[Markup], sections: Sequence[Section[T]], subject: T
) -> bytes:
    """The page as bytes to write.

    Args:
        title: Of the window.
        heading: What stands above the sections.
        sections: In order.
        subject: What they are about.
    """
    shown = [(each, list(each.parts(subject))) for each in sections]
    shown = [(each, parts) for each, parts in shown if parts]
    charts = [part for _, parts in shown for part in parts if isinstance(part, Chart)]
    body = [
        element("header", *heading, _navigation([each for each, _ in shown])),
        element("noscript", element("p", _NO_SCRIPT, class_="warning")),
        element("main", *(_section(each, parts) for each, parts in shown)),
    ]
    figures = {chart.name: drawing(chart) for chart in charts}
    blobs = {"figures": json.dumps(figures, allow_nan=False).encode()}
    page = html_page(
        title,
        body,
        scripts=[static_text("report.js")],
        styles=[static_text("report.css")],
        data_blobs=blobs if charts else None,
        lazy_scripts={"plotly": plotly_source()} if charts else None,
        inline_styles=True,
    )
    return page.encode()


def _navigation(sections: Sequence[Section[Any]]) -> Markup:
    links = [element("a", each.title, href=f"#{each.id}") for each in sections]
    button = element("button", "dark / light", type="button", id="theme")
    return element("nav", *links, button, aria_label="Sections")


def _section(section: Section[T], parts: Sequence[Part]) -> Markup:
    content = (_block(part) for part in _with_charts_together(parts))
    return element(
        "section",
        element("h2", section.title),
        *content,
        id=section.id,
        class_="wide" if section.wide else None,
    )


def _with_charts_together(parts: Sequence[Part]) -> list[Markup | list[Chart]]:
    """Charts that follow one another stand in one row where there is room."""
    found: list[Markup | list[Chart]] = []
    for part in parts:
        if not isinstance(part, Chart):
            found.append(part)
        elif found and isinstance(found[-1], list):
            found[-1].append(part)
        else:
            found.append([part])
    return found


def _block(part: Markup | list[Chart]) -> Markup:
    if isinstance(part, Markup):
        return part
    return element("div", *(chart_block(chart) for chart in part), class_="figures")


def chart_block(chart: Chart) -> Markup:
    """Room for a chart, its title and note, and its table for those who cannot see it."""
    height = chart.layout.get("height", 300)
    plot = element(
        "div",
        id=f"plot-{chart.name}",
        class_="plot",
        role="img",
        aria_label=f"Chart: {chart.title}. The table below holds the same figures.",
        style=f"min-height:{int(height)}px",
    )
    note = [element("p", chart.note, class_="muted")] if chart.note else []
    figures = table(chart.columns, chart.rows, words=chart.words)
    if not chart.table_beside:
        figures = element("details", element("summary", "as a table"), figures)
    return element(
        "figure",
        element("figcaption", chart.title),
        element("div", element("div", plot, *note), figures, class_="beside")
        if chart.table_beside
        else joined(plot, *note, figures),
        id=f"figure-{chart.name}",
    )


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    words: Sequence[int] = (0,),
    id_: str | None = None,
    sortable: bool = False,
) -> Markup:
    """A table.

    Args:
        columns: Titles.
        rows: Cells; text is escaped unless it is Markup.
        words: Places of the columns that hold words; the others hold figures, right-aligned.
        id_: Its id.
        sortable: Whether the titles sort it.
    """
    kinds = [None if place in words else "figure" for place in range(len(columns))]
    heads = (
        element(
            "th",
            element("button", title, type="button") if sortable and title else title,
            scope="col",
            class_=kind,
        )
        for title, kind in zip(columns, kinds, strict=True)
    )
    body = (
        element("tr", *(_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True)))
        for row in rows
    )
    whole = element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        id=id_,
        class_="sortable" if sortable else None,
    )
    return element("div", whole, class_="scroll")


def _cell(cell: str | Cell, kind: str | None) -> Markup:
    if isinstance(cell, Cell):
        return element("td", cell.content, class_=kind, data_value=str(cell.value))
    return element("td", cell, class_=kind)


def in_ms(ns: float, decimals: int = 3) -> Cell:
    """A time as a cell in milliseconds, which copies with all its digits."""
    return Cell(milliseconds(ns, decimals=decimals), ns / NS_PER_MS)


def tool_bar(table_id: str, what: str) -> Markup:
    """Filter a table, and copy what is shown as CSV."""
    return element(
        "p",
        element(
            "input",
            type="search",
            placeholder=f"filter {what}",
            aria_label=f"filter {what}",
            data_filters=table_id,
        ),
        " ",
        element("button", "copy as CSV", type="button", data_copies=table_id),
        " ",
        element("span", class_="muted", role="status", id=f"{table_id}-status"),
        class_="tools",
    )


def lines(*texts: str) -> list[Markup]:
    """Paragraphs."""
    return [element("p", text) for text in texts if text]


def folded(summary: str, *parts: str) -> Markup:
    """Content behind a title that opens it."""
    return element("details", element("summary", summary), joined(*parts), class_="folded")
