"""How ranks differ: the mean windows of each, and who is late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.renderers.charts.chart import Chart, height_of, hover, named_axis, written_ms
from traceanalyzer.renderers.charts.cycle import CYCLE
from traceanalyzer.renderers.html.escaping import plotly_text
from traceanalyzer.renderers.palette import phase_colour

if TYPE_CHECKING:
    from traceanalyzer.report import RankReport, Report

_DARKEST_SHARE: Final = 0.05
_LEAST_PX: Final = 190
_NOTE: Final = (
    "Over the kept cycles of each rank, whatever their shape. The colour tells what a rank loses "
    "to the fastest in the same phase, as a share of the cycle."
)


def ranks(report: Report) -> Chart | None:
    """Mean windows by rank and phase; the colour tells slow ranks from fast ones."""
    found = [rank for rank in report.ranks if rank.cycles.period_ns]
    if len(found) < 2:
        return None
    by_rank = [_means(rank) for rank in found]
    columns = list(dict.fromkeys(name for means in by_rank for name in means))
    names = [_rank_name(rank) for rank in found]
    texts = [
        [written_ms(means[name], means[name]) if name in means else "" for name in columns]
        for means in by_rank
    ]
    layout = {
        "height": max(height_of(len(names)) - 24, _LEAST_PX),
        "margin": {"b": 12},
        "xaxis": {
            "tickmode": "array",
            "tickvals": list(range(len(columns))),
            "ticktext": [plotly_text(name) for name in columns],
            "side": "top",
            "showgrid": False,
            "zeroline": False,
        },
        "yaxis": named_axis(names),
    }
    return Chart(
        "ranks",
        "Mean windows by rank, ms a cycle",
        [_heat(by_rank, columns, texts, names)],
        layout,
        ("rank", *columns),
        [(name, *(text or "-" for text in row)) for name, row in zip(names, texts, strict=True)],
        note=_NOTE,
    )


def _heat(
    by_rank: list[dict[str, float]], columns: list[str], texts: list[list[str]], names: list[str]
) -> dict[str, Any]:
    fastest = {name: min(means[name] for means in by_rank if name in means) for name in columns}
    return {
        "type": "heatmap",
        "z": [
            [
                (means[name] - fastest[name]) / fastest[CYCLE] if name in means else None
                for name in columns
            ]
            for means in by_rank
        ],
        "x": list(range(len(columns))),
        "y": list(range(len(names))),
        "zmin": 0,
        "zmax": _DARKEST_SHARE,
        "colorscale": [[0, "#eef1f5"], [1, phase_colour("verify")]],
        "xgap": 2,
        "ygap": 2,
        "text": texts,
        "texttemplate": "%{text}",
        "hoverinfo": "text",
        "hovertext": [
            [
                hover(f"{rank}, {name}", f"{text} ms/cycle")
                for name, text in zip(columns, row, strict=True)
            ]
            for rank, row in zip(names, texts, strict=True)
        ],
        "colorbar": {"title": {"text": "lost"}, "thickness": 12, "tickformat": ".0%"},
    }


def _means(rank: RankReport) -> dict[str, float]:
    assert rank.cycles.period_ns, "has kept cycles"
    windows = {
        phase.phase: phase.window_ns_per_cycle.mean
        for phase in rank.phases
        if phase.window_ns_per_cycle and phase.window_ns_per_cycle.mean > 0
    }
    return {CYCLE: rank.cycles.period_ns.mean, **windows}


def _rank_name(rank: RankReport) -> str:
    return f"rank {rank.rank}" + (f", GPU {rank.device.index}" if rank.device else "")
