"""One chart: its drawing in plotly's figure schema, and the same figures as a table.

A drawing is plain data that plotly.js reads and `plotly.graph_objects.Figure` checks; making it
takes neither. Positions on an axis are numbers with tick texts, never categories: two names that
look alike after shortening would become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.renderers.figures import NS_PER_MS, decimals_for, milliseconds
from traceanalyzer.renderers.html.escaping import plotly_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import Estimated

FONT: Final = "system-ui, sans-serif"
_LABEL_LENGTH: Final = 44
_ROW_PX: Final = 30
_AROUND_PX: Final = 92
_HEADROOM: Final = 1.2
_LIGHT: Final = ("#1d2127", "#d9dde3")
_DARK: Final = ("#d7dae0", "#353a44")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        name: Identifier, a word.
        title: What it shows.
        traces: Plotly traces.
        layout: Plotly layout without title, fonts and colours of the ground.
        columns: Titles of the table.
        rows: The same figures as text, one a mark of the chart.
        note: How to read it, where that isn't plain.
        words: Places of the table's columns that hold words; the others hold figures.
        table_beside: Whether the table says more than the drawing, and stands open beside it.
    """

    name: str
    title: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str | None = None
    words: tuple[int, ...] = (0,)
    table_beside: bool = False


def drawing(chart: Chart, *, dark: bool = False, titled: bool = False) -> dict[str, Any]:
    """Plotly's figure as plain data.

    Args:
        chart: The chart.
        dark: Whether the ground is dark; a page colours texts and lines by its own style sheet.
        titled: Whether the title is part of the drawing.
    """
    ink, line = _DARK if dark else _LIGHT
    layout: dict[str, Any] = {
        "font": {"family": FONT, "size": 12, "color": ink},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 12, "r": 16, "t": 40 if titled else 12, "b": 44},
        "hoverlabel": {"bgcolor": "#1f2229", "font": {"color": "#ffffff"}, "align": "left"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#8a919c", "activecolor": "#0072B2"},
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
        },
    }
    if titled:
        layout["title"] = {"text": plotly_text(chart.title), "font": {"size": 14}}
    margin = {**layout["margin"], **chart.layout.get("margin", {})}
    layout = {**layout, **chart.layout, "margin": margin}
    axis = {"gridcolor": line, "zerolinecolor": line, "linecolor": line, "automargin": True}
    for key, value in layout.items():
        if key.startswith(("xaxis", "yaxis")):
            layout[key] = {**axis, **value}
    return {"data": chart.traces, "layout": layout}


def named_axis(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names from top to bottom, at 0, 1, 2, ..."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [plotly_text(name, length=_LABEL_LENGTH) for name in names],
        "range": [len(names) - 0.5, -0.5],
        "automargin": True,
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
    }


def value_axis(
    title: str, highest: float, *, headroom: float = _HEADROOM, **more: Any
) -> dict[str, Any]:
    """An axis of values from 0, with room for a text beside the longest bar."""
    return {
        "title": {"text": title},
        "range": [0, highest * headroom or 1],
        "automargin": True,
        "zeroline": True,
        **more,
    }


def height_of(rows: int) -> int:
    """Pixels for so many horizontal bars."""
    return _AROUND_PX + _ROW_PX * rows


def bars(
    positions: Sequence[float], values: Sequence[float], texts: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Horizontal bars.

    Args:
        positions: Places on the axis of names.
        values: Lengths.
        texts: Written at each bar.
        more: Any other attribute of the trace.
    """
    return {
        "type": "bar",
        "orientation": "h",
        "y": list(positions),
        "x": list(values),
        "text": list(texts),
        "textposition": "auto",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "cliponaxis": False,
        "hoverinfo": "text",
        **more,
    }


def hover(*lines: str) -> str:
    """Text of a hover box, one line each."""
    return "<br>".join(plotly_text(line, length=400) for line in lines)


def error_bar(found: Sequence[Estimated], scale: float = 1.0) -> dict[str, Any]:
    """The 95 % intervals of values as error bars; none where there is no interval."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [_reach(each.high, each.value) * scale for each in found],
        "arrayminus": [_reach(each.low, each.value) * scale for each in found],
        "thickness": 1.5,
        "width": 4,
        "color": "#8a919c",
    }


def _reach(end: float | None, value: float) -> float:
    return 0.0 if end is None else abs(end - value)


def in_ms(ns: float) -> float:
    """Nanoseconds on an axis of milliseconds."""
    return ns / NS_PER_MS


def written_ms(ns: float, of_ns: float) -> str:
    """Milliseconds with the decimals that suit a whole."""
    return milliseconds(ns, decimals=decimals_for(of_ns))
