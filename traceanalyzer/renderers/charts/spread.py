"""How cycles differ from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.renderers.charts.chart import (
    Chart,
    hover,
    in_ms,
    named_axis,
    written_ms,
)
from traceanalyzer.renderers.charts.cycle import CYCLE
from traceanalyzer.renderers.figures import count
from traceanalyzer.renderers.palette import BLUE, phase_colour

if TYPE_CHECKING:
    from traceanalyzer.report import BucketReport, Spread

_ROW_PX: Final = 68
_BAR: Final = 0.5
_HALF: Final = 0.42


def distribution(bucket: BucketReport) -> Chart | None:
    """Quantiles of the cycle and of each phase's window, each row on its own scale."""
    if not bucket.phases:
        return None
    rows = [(CYCLE, bucket.period_ns, BLUE)]
    rows += [
        (phase.phase, phase.window_ns_per_cycle, phase_colour(phase.phase))
        for phase in bucket.phases
    ]
    layout: dict[str, Any] = {
        "height": _ROW_PX * len(rows) + 40,
        "margin": {"b": 24},
        "bargap": 0.3,
    }
    traces: list[dict[str, Any]] = []
    height = 1 / len(rows)
    for place, (name, spread, colour) in enumerate(rows):
        axis = "" if place == 0 else str(place + 1)
        bottom = 1 - height * (place + 1)
        layout[f"xaxis{axis}"] = {"anchor": f"y{axis}", "ticksuffix": " ms", "nticks": 7}
        layout[f"yaxis{axis}"] = {
            **named_axis([name]),
            "anchor": f"x{axis}",
            "domain": [bottom + _BAR * height, bottom + 0.98 * height],
        }
        traces += _row(name, spread, colour, axis)
    table = [(name, *_written(spread)) for name, spread, _ in rows]
    return Chart(
        "distribution",
        "Cycles are not all alike",
        traces,
        layout,
        ("", "5 % ms", "median ms", "mean ms", "95 % ms", "99 % ms"),
        table,
        note=f"Over {count(bucket.cycles)} cycles; each row has its own scale.",
    )


def _row(name: str, spread: Spread, colour: str, axis: str) -> list[dict[str, Any]]:
    on = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "hoverinfo": "text", "showlegend": not axis}
    titles = ("5 %", "median", "mean", "95 %", "99 %")
    told = [f"{title} {text} ms" for title, text in zip(titles, _written(spread), strict=True)]
    between = {
        "type": "bar",
        "orientation": "h",
        "name": "5 % to 95 %",
        "legendgroup": "between",
        "x": [in_ms(spread.p95 - spread.p5)],
        "base": [in_ms(spread.p5)],
        "y": [0],
        "marker": {"color": colour, "opacity": 0.75},
        "hovertext": [hover(name, *told)],
    }
    marks = (
        ("median", spread.p50, "diamond-tall", 16),
        ("mean", spread.mean, "circle", 9),
        ("99 %", spread.p99, "circle-open", 9),
    )
    return [
        between | on,
        *(
            {
                "type": "scatter",
                "mode": "markers",
                "name": title,
                "legendgroup": title,
                "x": [in_ms(ns)],
                "y": [0],
                "marker": _looks(symbol, size),
                "hovertext": [hover(name, *told)],
            }
            | on
            for title, ns, symbol, size in marks
        ),
    ]


def _looks(symbol: str, size: int) -> dict[str, Any]:
    """White with a dark edge, which shows on any bar and on either ground."""
    if symbol.endswith("-open"):
        return {"symbol": symbol, "size": size, "color": "#8a919c", "line": {"width": 2}}
    edge = {"color": "#1d2127", "width": 1.5}
    return {"symbol": symbol, "size": size, "color": "#ffffff", "line": edge}


def _written(spread: Spread) -> tuple[str, ...]:
    values = (spread.p5, spread.p50, spread.mean, spread.p95, spread.p99)
    return tuple(written_ms(value, spread.mean) for value in values)
