"""A short stretch of a timeline as a plotly figure, for a notebook.

Every span is a bar of its own, which a browser bears a few thousand of; the page that
`traceanalyzer timeline` writes has no such limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.analyses.timeline_lanes.model import COLLECTIVES, NONE
from traceanalyzer.assembly.timeline import whole_timeline
from traceanalyzer.errors import InputError
from traceanalyzer.phases.rules import Rules
from traceanalyzer.renderers.charts.chart import (
    Chart,
    bars,
    drawing,
    height_of,
    hover,
    named_axis,
)
from traceanalyzer.renderers.figures import NS_PER_MS, duration, milliseconds
from traceanalyzer.renderers.palette import BLUE, OTHER_COLOUR, phase_colour

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.analyses.timeline_lanes.model import Lane, TimelineLanes
    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]

MOST_SPANS: Final = 2_000

_NO_PHASE: Final = "no phase"
_LEGEND_PX: Final = 44


def timeline_figure(
    trace: Trace, window_ns: tuple[int, int], *, infer: bool = True, dark: bool = False
) -> Any:
    """The cycles, phases, streams, ranges and API calls of a window, one bar a span.

    Args:
        trace: The tables; the shipped phase rules tell what its ranges mean.
        window_ns: Start and end, ns from the first instant of the trace.
        infer: Whether to infer phases where no range means one.
        dark: Whether it stands on a dark ground.

    Returns:
        A `plotly.graph_objects.Figure` with a trace of bars a phase; `customdata` holds the full
        name of each span.

    Raises:
        InputError: The window holds nothing, or more than `MOST_SPANS` spans.
    """
    if window_ns[0] >= window_ns[1]:
        raise InputError(f"{window_ns} is no window: its start is not before its end")
    lanes = whole_timeline(trace, Rules.shipped(), infer=infer)
    start, end = (lanes.origin_ns + time for time in window_ns)
    rows, lane = _spans_in(lanes, start, end)
    if not rows.size:
        length = milliseconds(lanes.end_ns - lanes.origin_ns)
        raise InputError(f"the trace is {length} ms long and has nothing in this window")
    if rows.size > MOST_SPANS:
        raise InputError(
            f"this window holds {rows.size:,} spans, and a figure can show {MOST_SPANS:,}",
            next_step="Choose a shorter window, or look at the whole trace with: "
            "traceanalyzer timeline TRACE -o timeline.html",
        )
    import plotly.graph_objects as go

    drawn = drawing(_chart(lanes, rows, lane, window_ns), dark=dark, titled=True)
    return go.Figure({**drawn, "layout": {**drawn["layout"], "template": "none"}})


def _spans_in(lanes: TimelineLanes, start: int, end: int) -> tuple[Int64s, Int64s]:
    """Rows of the spans that reach into a window, and the lane of each.

    Collectives are drawn on their streams alone.
    """
    spans = lanes.spans
    found = [np.zeros(0, np.int64)]
    lane = [np.zeros(0, np.int64)]
    for place, each in enumerate(lanes.lanes):
        own = slice(each.first, each.end)
        inside = (spans.start_ns[own] < end) & (spans.end_ns[own] >= start)
        if each.kind != COLLECTIVES and inside.any():
            found.append(each.first + np.flatnonzero(inside))
            lane.append(np.full(found[-1].size, place))
    return np.concatenate(found), np.concatenate(lane)


def _chart(lanes: TimelineLanes, rows: Int64s, lane: Int64s, window_ns: tuple[int, int]) -> Chart:
    shown, height = np.unique(lane, return_inverse=True)
    titles = [_title(lanes, lanes.lanes[place]) for place in shown.tolist()]
    phase = lanes.spans.phase[rows]
    return Chart(
        name="timeline",
        title=f"{milliseconds(window_ns[0])} to {milliseconds(window_ns[1])} ms",
        traces=[
            _bars(lanes, rows[phase == each], height[phase == each])
            for each in np.unique(phase).tolist()
        ],
        layout={
            "barmode": "overlay",
            "xaxis": {
                "title": {"text": "ms from the beginning"},
                "range": [time / NS_PER_MS for time in window_ns],
            },
            "yaxis": named_axis(titles),
            "height": height_of(len(titles)) + _LEGEND_PX,
            "margin": {"b": 44 + _LEGEND_PX},
            "legend": {
                "orientation": "h",
                "x": 0,
                "y": 0,
                "yref": "container",
                "yanchor": "bottom",
            },
        },
        columns=("lane", "span", "for"),
        rows=[
            (titles[place], *written)
            for place, written in zip(height.tolist(), _written(lanes, rows), strict=True)
        ],
    )


def _bars(lanes: TimelineLanes, rows: Int64s, height: Int64s) -> dict[str, Any]:
    """The spans of one phase."""
    start = lanes.spans.start_ns[rows] - lanes.origin_ns
    length = lanes.spans.end_ns[rows] - lanes.spans.start_ns[rows]
    phase, colour = _look(lanes, int(lanes.spans.phase[rows[0]]))
    written = _written(lanes, rows)
    return bars(
        height.tolist(),
        (length / NS_PER_MS).tolist(),
        [],
        base=(start / NS_PER_MS).tolist(),
        width=0.8,
        name=phase,
        marker={"color": colour},
        customdata=[name for name, _ in written],
        hovertext=[hover(name, phase, time) for name, time in written],
    )


def _written(lanes: TimelineLanes, rows: Int64s) -> list[tuple[str, str]]:
    """Name and length of spans."""
    spans = lanes.spans.take(rows)
    length = (spans.end_ns - spans.start_ns).tolist()
    names = [lanes.names[name] for name in spans.name.tolist()]
    return [(name, duration(ns)) for name, ns in zip(names, length, strict=True)]


def _title(lanes: TimelineLanes, lane: Lane) -> str:
    """The rank without its GPU's name, and the lane."""
    rank = lanes.groups[lane.group].partition(" · ")[0]
    return f"{rank} · {lane.title}"


def _look(lanes: TimelineLanes, phase: int) -> tuple[str, str]:
    """What a phase is called and its colour; the last one stands for several at once."""
    if phase == NONE:
        return _NO_PHASE, OTHER_COLOUR
    name = lanes.phases[phase]
    return name, BLUE if phase == len(lanes.phases) - 1 else phase_colour(name)
