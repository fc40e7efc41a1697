"""Cycles one by one: how long each took, when, on which rank, and what it accepted."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.renderers.charts.chart import (
    Chart,
    hover,
    in_ms,
    named_axis,
    written_ms,
)
from traceanalyzer.renderers.charts.cycle import CYCLE
from traceanalyzer.renderers.cycle_words import cycle_name, listed_note
from traceanalyzer.renderers.html.escaping import plotly_text
from traceanalyzer.renderers.palette import BLUE, phase_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketReport, CycleRow, Report

_NS_PER_S: Final = 1e9
_PANEL_PX: Final = 180
_HEAT_ROW_PX: Final = 24
_LEAST_PX: Final = 190
_FEW_TO_MANY: Final = [[0, phase_colour("decode")], [0.5, "#b0b7c1"], [1, BLUE]]
"""From cycles that accept nothing to those that accept all: holds on either ground."""

_SCALE: Final = "The colours reach from the 5 % quantile of the periods to that of 99 %."


def each_cycle(report: Report, place: int) -> Chart | None:
    """Period and target window of each cycle of a bucket in order of time, on its first rank."""
    rows = _rows_of(report, place)
    rows = [row for row in rows if row.rank == rows[0].rank]
    if len(rows) < 2:
        return None
    bucket, start_ns = report.buckets[place], min(row.start_ns for row in rows)
    series = [(CYCLE, [row.period_ns for row in rows])]
    if bucket.shape.kind in report.cycle_phases:
        window = report.cycle_phases.index(bucket.shape.kind)
        series.append((bucket.shape.kind, [row.windows_ns[window] for row in rows]))
    seconds = [(row.start_ns - start_ns) / _NS_PER_S for row in rows]
    table = [
        (
            cycle_name(row),
            f"{at:.3f}",
            *(written_ms(times[number], bucket.period_ns.mean) for _, times in series),
            "-" if row.accepted_drafts is None else str(row.accepted_drafts),
        )
        for number, (row, at) in enumerate(zip(rows, seconds, strict=True))
    ]
    columns = ("cycle", "at s", *(f"{name} ms" for name, _ in series), "accepted drafts")
    told = [hover(*_told(columns, row)) for row in table]
    return Chart(
        "each_cycle",
        "Cycle after cycle",
        [
            _points(seconds, times, told, _marker(rows), axis)
            for axis, (_, times) in enumerate(series)
        ],
        _panels([name for name, _ in series]),
        columns,
        table,
        note=f"On rank {rows[0].rank}. {listed_note(report)}".rstrip(),
    )


def _rows_of(report: Report, place: int) -> list[CycleRow]:
    rows = [row for row in report.cycle_rows if row.bucket == place]
    return sorted(rows, key=lambda row: (row.rank, row.cycle))


def _told(columns: Sequence[str], row: Sequence[str]) -> list[str]:
    return [f"{title}: {cell}" for title, cell in zip(columns, row, strict=True)]


def _marker(rows: Sequence[CycleRow]) -> dict[str, Any]:
    accepted = [row.accepted_drafts for row in rows]
    if all(each is None for each in accepted):
        return {"size": 5, "color": BLUE}
    return {"size": 5, "color": accepted, "coloraxis": "coloraxis"}


def _points(
    seconds: list[float], times: list[int], told: list[str], marker: dict[str, Any], axis: int
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": seconds,
        "y": [in_ms(ns) for ns in times],
        "yaxis": f"y{axis + 1}" if axis else "y",
        "marker": marker,
        "hoverinfo": "text",
        "hovertext": told,
        "showlegend": False,
    }


def _panels(names: Sequence[str]) -> dict[str, Any]:
    """One panel a series, each with the scale that shows how its times differ."""
    height = 1 / len(names)
    layout: dict[str, Any] = {
        "height": _PANEL_PX * len(names) + 60,
        "xaxis": {
            "title": {"text": "s since the first of them"},
            "anchor": f"y{len(names)}" if len(names) > 1 else "y",
            "zeroline": False,
        },
        "coloraxis": {
            "colorscale": _FEW_TO_MANY,
            "colorbar": {"title": {"text": "accepted"}, "thickness": 12, "nticks": 7},
        },
    }
    for place, name in enumerate(names):
        bottom = 1 - height * (place + 1)
        layout[f"yaxis{place + 1 if place else ''}"] = {
            "title": {"text": plotly_text(f"{name}, ms")},
            "domain": [bottom + 0.06 * height, bottom + height],
            "zeroline": False,
        }
    return layout


def rank_cycles(report: Report, place: int) -> Chart | None:
    """Period of each cycle of a bucket on each rank."""
    rows = _rows_of(report, place)
    ranks = list(dict.fromkeys(row.rank for row in rows))
    if len(ranks) < 2:
        return None
    columns = _columns(rows)
    cells = {(columns[row.cycle], row.rank): row for row in rows}
    size, bucket = 1 + max(columns.values()), report.buckets[place]
    names = [f"rank {rank}" for rank in ranks]
    layout = {
        "height": max(_HEAT_ROW_PX * len(ranks) + 100, _LEAST_PX),
        "xaxis": {"title": {"text": "cycles in order of time"}, "zeroline": False},
        "yaxis": named_axis(names),
    }
    named = _names_in(rows, columns)
    table = [
        (
            ", ".join(named[column]),
            *(_period(cells.get((column, rank)), bucket) for rank in ranks),
        )
        for column in range(size)
    ]
    return Chart(
        "rank_cycles",
        "Cycle after cycle on every rank, ms",
        [_heat(cells, ranks, size, bucket)],
        layout,
        ("cycle", *names),
        table,
        note=f"{_SCALE} {listed_note(report)}".rstrip(),
    )


def _columns(rows: Sequence[CycleRow]) -> dict[int, int]:
    """Column of each cycle: the next that is free on all of its ranks.

    Ranks of other groups run cycles of their own, and share the columns but not the cycles.
    """
    ranks_of: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        ranks_of[row.cycle].append(row.rank)
    free: dict[int, int] = defaultdict(int)
    columns = {}
    for cycle in sorted(ranks_of):
        columns[cycle] = max(free[rank] for rank in ranks_of[cycle])
        free.update(dict.fromkeys(ranks_of[cycle], columns[cycle] + 1))
    return columns


def _names_in(rows: Sequence[CycleRow], columns: dict[int, int]) -> dict[int, list[str]]:
    """Names of the cycles in each column."""
    found: dict[int, dict[str, None]] = defaultdict(dict)
    for row in rows:
        found[columns[row.cycle]][cycle_name(row)] = None
    return {column: list(names) for column, names in found.items()}


def _period(row: CycleRow | None, bucket: BucketReport) -> str:
    return written_ms(row.period_ns, bucket.period_ns.mean) if row else "-"


def _heat(
    cells: dict[tuple[int, int], CycleRow], ranks: Sequence[int], size: int, bucket: BucketReport
) -> dict[str, Any]:
    grid = [[cells.get((column, rank)) for column in range(size)] for rank in ranks]
    low, high = bucket.period_ns.p5, bucket.period_ns.p99
    limits = {"zmin": in_ms(low), "zmax": in_ms(high)} if low < high else {}
    return {
        "type": "heatmap",
        "z": [[in_ms(row.period_ns) if row else None for row in line] for line in grid],
        "y": list(range(len(ranks))),
        "colorscale": [[0, "#eef1f5"], [1, phase_colour("verify")]],
        **limits,
        "hoverinfo": "text",
        "hovertext": [
            [
                hover(f"rank {row.rank}, cycle {cycle_name(row)}", f"{_period(row, bucket)} ms")
                if row
                else ""
                for row in line
            ]
            for line in grid
        ],
        "colorbar": {"title": {"text": "ms"}, "thickness": 12},
    }
