"""The small timeline for notebooks: each span of the window is a bar, and too many are refused."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import traceanalyzer.renderers.timeline_figure as module
from tests.harness import SAMPLE_TRACES
from tests.strategies import build
from traceanalyzer import InputError, load, timeline_figure
from traceanalyzer.assembly.timeline import whole_timeline
from traceanalyzer.phases.rules import Rules
from traceanalyzer.renderers.palette import OTHER_COLOUR, phase_colour

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

WINDOW = (45_000_000, 50_000_000)


@pytest.fixture(scope="module")
def nodes() -> Trace:
    return load(SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite")


def test_every_span_of_the_window_is_a_bar(nodes: Trace) -> None:
    figure = timeline_figure(nodes, WINDOW)
    lanes = whole_timeline(nodes, Rules.shipped())
    spans, names = lanes.spans, list(figure.layout.yaxis.ticktext)
    wanted = Counter()
    for lane in lanes.lanes:
        if lane.kind == "collectives":
            continue
        for row in range(lane.first, lane.end):
            start, end = (int(t[row]) - lanes.origin_ns for t in (spans.start_ns, spans.end_ns))
            if start < WINDOW[1] and end >= WINDOW[0]:
                phase = int(spans.phase[row])
                wanted[
                    f"rank {lane.group} · {lane.title}",
                    start,
                    end - start,
                    lanes.names[spans.name[row]],
                    lanes.phases[phase] if phase >= 0 else "no phase",
                ] += 1
    found = Counter(
        (names[lane], round(base * 1e6), round(length * 1e6), name, bars.name)
        for bars in figure.data
        for lane, base, length, name in zip(bars.y, bars.base, bars.x, bars.customdata, strict=True)
    )
    assert found == wanted
    assert list(figure.layout.xaxis.range) == [45.0, 50.0]
    assert figure.layout.title.text == "45.000 to 50.000 ms"


def test_phases_have_their_colours(nodes: Trace) -> None:
    colours = {bars.name: bars.marker.color for bars in timeline_figure(nodes, WINDOW).data}
    assert colours["verify"] == phase_colour("verify")
    assert colours["no phase"] == OTHER_COLOUR
    assert colours["two phases or more"] not in {phase_colour(name) for name in colours}


def test_names_are_drawn_literally() -> None:
    name = "void f<b>(int) %{x} <script>"
    trace = build(ops=[{"start_ns": 0, "end_ns": 5, "name": name}])
    figure = timeline_figure(trace, (0, 10))
    (bars,) = (bars for bars in figure.data if name in bars.customdata)
    text = bars.hovertext[bars.customdata.index(name)]
    assert text == "void f&lt;b&gt;(int) %\u200b{x} &lt;script&gt;<br>unattributed<br>5 ns"


def test_too_many_spans_are_refused_with_the_way_to_see_them(
    nodes: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = sum(len(bars.x) for bars in timeline_figure(nodes, WINDOW).data)
    monkeypatch.setattr(module, "MOST_SPANS", spans)
    timeline_figure(nodes, WINDOW)
    monkeypatch.setattr(module, "MOST_SPANS", spans - 1)
    with pytest.raises(InputError, match=f"holds {spans} spans") as caught:
        timeline_figure(nodes, WINDOW)
    assert "traceanalyzer timeline TRACE" in str(caught.value.next_step)


@pytest.mark.parametrize("window", [(10**12, 2 * 10**12), (-50, -10)])
def test_an_empty_window_is_refused(nodes: Trace, window: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="nothing in this window"):
        timeline_figure(nodes, window)


@pytest.mark.parametrize("window", [(5, 5), (50_000_000, 45_000_000)])
def test_a_window_that_ends_before_it_begins_is_refused(
    nodes: Trace, window: tuple[int, int]
) -> None:
    with pytest.raises(InputError, match="is no window"):
        timeline_figure(nodes, window)


def test_a_trace_without_gpu_work() -> None:
    trace = load(SAMPLE_TRACES / "eagle3_host_only.sqlite")
    figure = timeline_figure(trace, (0, 3_000_000), dark=True)
    assert all(text.startswith("process ") for text in figure.layout.yaxis.ticktext)
