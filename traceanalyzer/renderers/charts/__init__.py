"""The report's charts: plotly figures of what the report holds, each with its table.

They draw and never compute: a number that a chart shows stands in the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.errors import InputError
from traceanalyzer.renderers.charts import (
    acceptance,
    break_even,
    cycle,
    each_cycle,
    growth,
    ranks,
    spread,
)
from traceanalyzer.renderers.charts.chart import Chart, drawing
from traceanalyzer.renderers.verdict_text import main_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.report import BucketReport, BucketVerdict, Report

__all__ = ["FIGURES", "Chart", "chart_of", "drawing", "figure"]

_OF_BUCKET: Final[dict[str, Callable[[BucketReport], Chart | None]]] = {
    "waterfall": cycle.waterfall,
    "windows": cycle.windows,
    "acceptance": acceptance.acceptance,
    "slots": acceptance.slots,
    "distribution": spread.distribution,
    "classes": cycle.classes,
}
_OF_CYCLES: Final[dict[str, Callable[[Report, int], Chart | None]]] = {
    "each_cycle": each_cycle.each_cycle,
    "rank_cycles": each_cycle.rank_cycles,
}
FIGURES: Final = (*_OF_BUCKET, *_OF_CYCLES, "break_even", "verify_growth", "ranks")
"""Names of the figures of a report; one is absent where the report lacks what it shows."""


def chart_of(report: Report, name: str, bucket: int | None = None) -> Chart | None:
    """One chart of a report.

    Args:
        report: The report.
        name: One of `FIGURES`.
        bucket: Place in the report's buckets; None is the one that speaks for the capture.

    Returns:
        None where the report lacks what the chart shows.
    """
    if name == "ranks":
        return ranks.ranks(report)
    on_gpu = report.capture.time_base == "gpu"
    if not report.buckets or (name == "windows" and not on_gpu):
        return None
    place = main_place(report) if bucket is None else bucket
    found = report.buckets[place]
    if name == "break_even":
        return break_even.break_even(found, _verdict(report, place))
    if name == "verify_growth":
        return growth.verify_growth(_verdict(report, place))
    if name in _OF_CYCLES:
        return _OF_CYCLES[name](report, place)
    return _OF_BUCKET[name](found)


def main_place(report: Report) -> int:
    """Place of the bucket that speaks for the capture."""
    main = main_bucket(report.verdict) if report.verdict else None
    return main.bucket if main else 0


def _verdict(report: Report, place: int) -> BucketVerdict | None:
    found = report.verdict.buckets if report.verdict else []
    return next((each for each in found if each.bucket == place), None)


def figure(report: Report, name: str, *, bucket: int | None = None, dark: bool = False) -> Any:
    """A chart of a report as a plotly figure, for a notebook.

    Args:
        report: The report.
        name: One of `FIGURES`.
        bucket: Place in the report's buckets; None is the one that speaks for the capture.
        dark: Whether it stands on a dark ground.

    Returns:
        A `plotly.graph_objects.Figure`.

    Raises:
        InputError: There is no figure of this name, or this report lacks what it shows.
    """
    if name not in FIGURES:
        raise InputError(f"there is no figure {name!r}", next_step=f"Name one of: {_all()}.")
    if bucket is not None and not 0 <= bucket < len(report.buckets):
        raise InputError(f"there is no bucket {bucket}: the report has {len(report.buckets)}")
    chart = chart_of(report, name, bucket)
    if chart is None:
        raise InputError(f"this report lacks what the figure {name!r} shows")
    import plotly.graph_objects as go

    drawn = drawing(chart, dark=dark, titled=True)
    return go.Figure({**drawn, "layout": {**drawn["layout"], "template": "none"}})


def _all() -> str:
    return ", ".join(FIGURES)
