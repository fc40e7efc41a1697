"""What the drafts were worth: acceptance by position, and where the verified slots went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.renderers.charts.chart import Chart, bars, hover, named_axis, value_axis
from traceanalyzer.renderers.figures import count, percent
from traceanalyzer.renderers.palette import phase_colour

if TYPE_CHECKING:
    from traceanalyzer.report import BucketAcceptance, BucketReport

_SLOTS: Final = {
    "committed": "#009E73",
    "rejected": "#D55E00",
    "overshoot": "#CC79A7",
    "stale": "#999999",
    "idle": "#56B4E9",
}


def acceptance(bucket: BucketReport) -> Chart | None:
    """How often each draft position is reached, and accepted given all before it."""
    found = bucket.acceptance
    if found is None or not found.survival:
        return None
    places = list(range(1, len(found.survival) + 1))
    layout = {
        "height": 300,
        "xaxis": {"title": {"text": "draft position"}, "dtick": 1, "showgrid": False},
        "yaxis": {"range": [0, 1.12], "tickformat": ".0%"},
        "bargap": 0.35,
    }
    rows = [
        (str(place), percent(share), _share(next_share))
        for place, share, next_share in zip(places, found.survival, found.conditional, strict=True)
    ]
    return Chart(
        "acceptance",
        "Acceptance by draft position",
        [_reached(places, found), _given(places, found)],
        layout,
        ("position", "reached", "given all before"),
        rows,
        note=f"Over {count(found.request_cycles)} request-cycles.",
    )


def _reached(places: list[int], found: BucketAcceptance) -> dict[str, Any]:
    texts = [percent(share) for share in found.survival]
    return {
        "type": "bar",
        "name": "reached: this position accepted, of all request-cycles",
        "x": places,
        "y": found.survival,
        "text": texts,
        "textposition": "outside",
        "cliponaxis": False,
        "hoverinfo": "text",
        "hovertext": [
            hover(f"position {place}", f"reached in {text} of request-cycles")
            for place, text in zip(places, texts, strict=True)
        ],
        "marker": {"color": phase_colour("draft")},
    }


def _given(places: list[int], found: BucketAcceptance) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "given that all before were accepted",
        "x": places,
        "y": found.conditional,
        "hoverinfo": "text",
        "hovertext": [
            hover(f"position {place}", f"accepted given all before: {_share(share)}")
            for place, share in zip(places, found.conditional, strict=True)
        ],
        "line": {"color": phase_colour("decode"), "width": 2},
        "marker": {"size": 8, "symbol": "diamond"},
    }


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def slots(bucket: BucketReport) -> Chart | None:
    """Where the verified token slots went."""
    ledger = bucket.acceptance.ledger if bucket.acceptance else None
    if ledger is None or not ledger.verified:
        return None
    parts = [(name, int(getattr(ledger, name))) for name in _SLOTS]
    rows = [(name, count(number), percent(number / ledger.verified)) for name, number in parts]
    traces = [
        bars(
            [0],
            [number],
            [f"{name} {share}"],
            name=name,
            hovertext=[hover(f"{name}: {shown} of {count(ledger.verified)} slots ({share})")],
            marker={"color": _SLOTS[name]},
        )
        for (name, number), (_, shown, share) in zip(parts, rows, strict=True)
        if number
    ]
    layout = {
        "height": 150,
        "xaxis": value_axis("verified token slots", ledger.verified, headroom=1.0),
        "yaxis": {**named_axis([""]), "showticklabels": False},
        "barmode": "stack",
    }
    rows.append(("verified", count(ledger.verified), percent(1.0)))
    title = "Where the verified slots went"
    return Chart("slots", title, traces, layout, ("slots", "number", "share"), rows)
