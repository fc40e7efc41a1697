"""Charts of a sweep: tokens a second by draft length, and what verify costs by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.renderers.charts.chart import (
    Chart,
    error_bar,
    hover,
    in_ms,
    written_ms,
)
from traceanalyzer.renderers.figures import NS_PER_MS
from traceanalyzer.renderers.palette import BLUE, phase_colour
from traceanalyzer.renderers.sweep_text import remark
from traceanalyzer.renderers.verdict_text import with_interval

if TYPE_CHECKING:
    from traceanalyzer.report import Estimated
    from traceanalyzer.report.sweep import Sweep, SweepBatch, SweepPoint, SweepPrediction


def sweep_charts(sweep: Sweep, place: int) -> list[Chart]:
    """The charts of one batch of a sweep, given its place."""
    batch = sweep.batches[place]
    found = (tokens_by_length(batch, place), verify_cost(batch, place))
    return [chart for chart in found if chart is not None]


def tokens_by_length(batch: SweepBatch, place: int) -> Chart | None:
    """Tokens per second over k: the captures, and what a chain of each length would give."""
    measured = [
        point
        for point in batch.points
        if point.draft_tokens is not None and point.tokens_per_s is not None
    ]
    if not measured and not batch.predictions:
        return None
    traces = [*_predicted(batch.predictions), *([_captured(measured)] if measured else ())]
    layout = {
        "height": 340,
        "xaxis": {"title": {"text": "draft tokens k"}, "dtick": 1, "zeroline": False},
        "yaxis": {"title": {"text": "tok/s while decoding"}, "rangemode": "tozero"},
    }
    rows = [
        (f"capture {point.source}", str(point.draft_tokens), with_interval(point.tokens_per_s, 1))
        for point in measured
        if point.tokens_per_s
    ]
    rows += [
        (remark(each, batch), str(each.draft_tokens), with_interval(each.tokens_per_s, 1))
        for each in batch.predictions
    ]
    return Chart(
        f"tokens_by_length_{place}",
        "Tokens per second by draft length",
        traces,
        layout,
        ("", "k", "tok/s"),
        rows,
    )


def _captured(points: list[SweepPoint]) -> dict[str, Any]:
    rates = [point.tokens_per_s for point in points if point.tokens_per_s]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "captures",
        "x": [point.draft_tokens for point in points],
        "y": [rate.value for rate in rates],
        "error_y": error_bar(rates),
        "marker": {"size": 9, "color": phase_colour("decode")},
        "hoverinfo": "text",
        "hovertext": [
            hover(point.source, f"k = {point.draft_tokens}", f"{with_interval(rate, 1)} tok/s")
            for point, rate in zip(points, rates, strict=True)
        ],
    }


def _predicted(predictions: list[SweepPrediction]) -> list[dict[str, Any]]:
    if not predictions:
        return []
    lengths = [each.draft_tokens for each in predictions]
    rates = [each.tokens_per_s for each in predictions]
    symbols = ["circle-open" if each.extrapolated else "circle" for each in predictions]
    chain = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "a chain of this length (hollow: extrapolated)",
        "x": lengths,
        "y": [rate.value for rate in rates],
        "line": {"color": BLUE, "width": 2},
        "marker": {"size": 7, "symbol": symbols},
        "hoverinfo": "text",
        "hovertext": [
            hover(f"k = {length}", f"{with_interval(rate, 1)} tok/s")
            for length, rate in zip(lengths, rates, strict=True)
        ],
    }
    return [*_band(lengths, rates), chain]


def _band(lengths: list[int], rates: list[Estimated]) -> list[dict[str, Any]]:
    """The 95 % intervals as an area, where every length has one."""
    ends = [
        (rate.low, rate.high) for rate in rates if rate.low is not None and rate.high is not None
    ]
    if len(ends) < len(rates):
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "95 % interval",
            "x": [*lengths, *reversed(lengths)],
            "y": [*(low for low, _ in ends), *(high for _, high in reversed(ends))],
            "fill": "toself",
            "fillcolor": "rgba(0,114,178,0.18)",
            "line": {"width": 0},
            "hoverinfo": "skip",
        }
    ]


def verify_cost(batch: SweepBatch, place: int) -> Chart | None:
    """What verify costs by its tokens: the captures, a plain step, and the fitted line."""
    points = [point for point in batch.points if point.verified_tokens is not None]
    if not points:
        return None
    costs = [point.target_ns for point in points]
    tokens = [point.verified_tokens or 0 for point in points]
    longest = max(cost.value for cost in costs)
    rows = [
        (point.source, str(number), written_ms(cost.value, longest))
        for point, number, cost in zip(points, tokens, costs, strict=True)
    ]
    captured = {
        "type": "scatter",
        "mode": "markers",
        "name": "verify, captures",
        "x": tokens,
        "y": [in_ms(cost.value) for cost in costs],
        "error_y": error_bar(costs, 1 / NS_PER_MS),
        "marker": {"size": 9, "color": phase_colour("verify")},
        "hoverinfo": "text",
        "hovertext": [hover(source, f"n = {n}", f"{ms} ms") for source, n, ms in rows],
    }
    traces = [captured, *_line(batch, max(tokens))]
    if batch.baseline_ns is not None:
        step = written_ms(batch.baseline_ns.value, longest)
        rows.insert(0, ("plain decode step", "1", step))
        traces.append(_plain_step(in_ms(batch.baseline_ns.value), step))
    layout = {
        "height": 340,
        "xaxis": {"title": {"text": "verified tokens of a request n"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "ms"}, "rangemode": "tozero"},
    }
    columns = ("", "n", "ms")
    return Chart(f"verify_cost_{place}", "What verify costs", traces, layout, columns, rows)


def _plain_step(ms: float, written: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "plain decode step",
        "x": [1],
        "y": [ms],
        "marker": {"size": 10, "symbol": "diamond", "color": phase_colour("decode")},
        "hoverinfo": "text",
        "hovertext": [hover("plain decode step", f"{written} ms")],
    }


def _line(batch: SweepBatch, most: int) -> list[dict[str, Any]]:
    """The fitted line, drawn from one token to the most that was captured."""
    base, fixed, token = batch.baseline_ns, batch.fixed_step_ns, batch.per_token_ns
    if base is None or fixed is None or token is None:
        return []
    start = base.value + fixed.value
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "plain step + fixed step + so much a token",
            "x": [1, most],
            "y": [in_ms(start), in_ms(start + token.value * (most - 1))],
            "line": {"color": BLUE, "width": 2, "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
