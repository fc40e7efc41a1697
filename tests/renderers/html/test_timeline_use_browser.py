"""Finding, following and moving in the timeline: search, flows, links, keys and pointer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from tests.harness import needs_chromium
from tests.renderers.html.looking import PIXELS, point, selected, view
from traceanalyzer.renderers.figures import safe

if TYPE_CHECKING:
    from tests.renderers.html.browsers import Opened
    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes
    from traceanalyzer.phases.phased import PhasedTrace

pytestmark = needs_chromium


# Search.


def test_search_counts_every_hit(page: Opened, lanes: TimelineLanes) -> None:
    names = [safe(text).lower() for text in lanes.names]
    frame = pl.DataFrame({"name": lanes.spans.name}).with_columns(
        text=pl.col("name").replace_strict(dict(enumerate(names)))
    )
    for text in ("<b>", "verify", "X" * 40, "nothing of the kind"):
        page.page.locator("#search").fill(text)
        expected = frame.filter(pl.col("text").str.contains(text.lower(), literal=True)).height
        noun = "span" if expected == 1 else "spans"
        page.wait_for(f"document.getElementById('hits').textContent === {f'{expected:,} {noun}'!r}")
        assert expected or text.startswith("nothing")


def test_a_hit_below_a_pixel_has_a_tick(page: Opened, lanes: TimelineLanes) -> None:
    stream = next(lane for lane in lanes.lanes if lane.title == "stream 7" and lane.group == 0)
    names = lanes.spans.name[stream.first : stream.end]
    rare = min(Counter(names.tolist()).items(), key=lambda item: (item[1], item[0]))[0]
    page.js("text => timelinePage.timeline.find(text)", safe(lanes.names[rare]))
    shown = page.js(PIXELS, "stream 7")
    rows = np.flatnonzero(names == rare) + stream.first
    times = lanes.spans.start_ns[rows] - lanes.origin_ns
    for time in times.tolist():
        column = shown["columns"][int((time - shown["from"]) / shown["perPixel"])]
        assert max(column.values()) == shown["height"]


def test_next_and_previous_walk_all_hits_in_order(page: Opened, lanes: TimelineLanes) -> None:
    page.page.locator("#search").fill("cudaGraphLaunch")
    page.wait_for("timelinePage.timeline.search.count > 0")
    hits = sorted(
        (int(lanes.spans.start_ns[row]) - lanes.origin_ns, index, row - lane.first)
        for index, lane in enumerate(lanes.lanes)
        for row in range(lane.first, lane.end)
        if "cudaGraphLaunch" in lanes.names[lanes.spans.name[row]]
    )
    walked = []
    for _ in hits[:12]:
        page.page.keyboard.press("Enter")
        walked.append(selected(page))
    assert walked == [(index, row) for _, index, row in hits[:12]]
    for _, index, row in reversed(hits[:11]):
        page.page.keyboard.press("Shift+Enter")
        assert selected(page) == (index, row)


# Flows.


def test_a_graph_launch_leads_to_its_ops_and_back(
    page: Opened, phased: PhasedTrace, lanes: TimelineLanes
) -> None:
    index, lane = next(
        (index, lane) for index, lane in enumerate(lanes.lanes) if lane.kind == "graph launches"
    )
    row = lane.first + 20
    number = int(lanes.spans.correlation[row])
    ops = phased.trace.ops.filter(
        (pl.col("correlation_id") == number) & (pl.col("process") == lanes.processes[lane.group])
    )
    page.js(
        "([i, row]) => timelinePage.timeline.select(timelinePage.store.lanes[i], row)", [index, 20]
    )
    found = page.js(
        """() => {
          const { lane, row, flows } = timelinePage.timeline.selected;
          return flows.map(each => [each.lane.track, each.count, launchLag(lane, row, each)]);
        }"""
    )
    counts: Counter[int] = Counter()
    for stream, count, _ in found:
        counts[stream] += count
    lags = {stream: min(lag for own, _, lag in found if own == stream) for stream in counts}
    start = int(lanes.spans.start_ns[row])
    assert counts == Counter(ops["stream_id"].to_list())
    for (stream,), own in ops.group_by("stream_id"):
        assert lags[stream] == own["start_ns"].min() - start
    assert "launch to start" in page.page.locator("#span .flow").first.inner_text()
    page.page.keyboard.press("Enter")
    assert selected(page) != (index, 20)
    page.page.keyboard.press("Enter")
    assert selected(page) == (index, 20)


# Links, history, keys.


def test_a_deep_link_restores_what_was_seen(page: Opened) -> None:
    link = "#t=1000000,2500000&s=3:7&r=1200000,1300000&m=1100000,1400000&q=verify%20%26"
    page.js("link => { location.hash = link; }", link)
    page.wait_for("timelinePage.timeline.marks.length === 2")
    assert view(page) == (1_000_000, 2_500_000)
    assert selected(page) == (3, 7)
    assert page.js("timelinePage.timeline.region") == {"from": 1_200_000, "to": 1_300_000}
    assert page.js("document.getElementById('search').value") == "verify &"
    assert page.js("timelinePage.link.text()") == link


@pytest.mark.parametrize(
    "link",
    ["#t=a,b", "#t=5,1", "#t=1,2,3", "#s=9999:1", "#s=0:99999", "#m=x", "#r=1e999,2", "#%%", "#"],
)
def test_a_broken_link_changes_nothing(page: Opened, link: str) -> None:
    before = view(page)
    page.js("link => { location.hash = link; }", link)
    page.settle()
    page.js("() => timelinePage.link.restore()")
    assert view(page) == before
    assert selected(page) is None
    assert page.js("timelinePage.timeline.marks") == []


def test_the_address_follows_the_view(page: Opened) -> None:
    page.js("() => timelinePage.timeline.show(2_000_000, 3_000_000)")
    page.wait_for("location.hash.startsWith('#t=2000000,3000000')")


def test_keys_zoom_and_pan(page: Opened) -> None:
    page.page.mouse.move(5, 5)
    press = page.page.keyboard.press
    start, end = view(page)
    press("w")
    closer = view(page)
    assert closer[1] - closer[0] < end - start
    press("s")
    assert view(page)[1] - view(page)[0] > closer[1] - closer[0]
    page.js("() => timelinePage.timeline.show(2_000_000, 3_000_000)")
    press("d")
    assert view(page)[0] > 2_000_000
    assert view(page)[1] - view(page)[0] == pytest.approx(1_000_000)
    press("a")
    press("a")
    assert view(page)[0] < 2_000_000
    press("0")
    assert view(page) == (start, end)
    press("Backspace")
    assert view(page)[1] - view(page)[0] == pytest.approx(1_000_000)


def test_keys_choose_and_follow_spans(page: Opened, lanes: TimelineLanes) -> None:
    press = page.page.keyboard.press
    press("ArrowDown")
    assert selected(page) is not None
    assert selected(page)[0] == 0
    press("ArrowDown")
    press("ArrowDown")
    lane, row = selected(page)
    assert lanes.lanes[lane].kind == "stream"
    press("ArrowRight")
    assert selected(page) == (lane, row + 1)
    press("ArrowLeft")
    assert selected(page) == (lane, row)
    press("f")
    start, end = view(page)
    span = lanes.lanes[lane].first + row
    times = [int(lanes.spans.start_ns[span]), int(lanes.spans.end_ns[span])]
    assert start <= times[0] - lanes.origin_ns < times[1] - lanes.origin_ns <= end
    press("r")
    region = page.js("timelinePage.timeline.region")
    assert [region["from"], region["to"]] == [time - lanes.origin_ns for time in times]
    press("m")
    assert page.js("timelinePage.timeline.marks") == [times[0] - lanes.origin_ns]
    assert page.page.locator("#marks li").count() == 1
    press("Shift+M")
    assert page.js("timelinePage.timeline.marks") == []
    press("Escape")
    assert selected(page) is None
    assert page.js("timelinePage.timeline.region") is None


def test_keys_pin_collapse_and_search(page: Opened, lanes: TimelineLanes) -> None:
    press = page.page.keyboard.press
    rows = (
        "timelinePage.timeline.layout.rows.map(row => row.lane ? row.lane.index : -1 - row.group)"
    )
    whole = page.js(rows)
    page.js("() => timelinePage.timeline.select(timelinePage.store.lanes[2], 0)")
    press("p")
    assert page.js(rows) == [2, *(row for row in whole if row != 2)]
    press("p")
    press("c")
    phases = next(i for i, lane in enumerate(lanes.lanes) if lane.kind == "phases")
    second = whole.index(-2)
    assert page.js(rows) == [-1, phases, *whole[second:]]
    press("c")
    assert page.js(rows) == whole
    press("/")
    assert page.js("document.activeElement.id") == "search"
    press("Escape")
    assert page.js("document.activeElement.id") == "timeline"
    press("?")
    assert page.js("document.getElementById('help').open") is True
    press("?")


def test_tab_reaches_everything(page: Opened) -> None:
    page.js("() => document.activeElement.blur()")
    reached = []
    for _ in range(60):
        page.page.keyboard.press("Tab")
        reached.append(page.js("document.activeElement.id || document.activeElement.tagName"))
    for wanted in ("search", "theme", "SUMMARY", "timeline", "strip-order", "strip-canvas"):
        assert wanted in reached
    labelled = page.js(
        "() => [...document.querySelectorAll('canvas[tabindex], aside')]"
        ".every(each => each.getAttribute('aria-label'))"
    )
    assert labelled
    assert page.js("document.getElementById('span').getAttribute('aria-live')") == "polite"


# The pointer.


def test_the_wheel_zooms_at_the_cursor_down_to_100_ns(page: Opened, lanes: TimelineLanes) -> None:
    time = int(lanes.cycles.start_ns[4]) - lanes.origin_ns
    x, y = point(page, time, "stream 7")
    page.page.mouse.move(x, y)
    for _ in range(30):
        page.page.mouse.wheel(0, -300)
    page.wait_for("timelinePage.timeline.span <= 101")
    start, end = view(page)
    assert end - start == pytest.approx(100, abs=1)
    # A pixel of the whole view is the most that the cursor's own place leaves open.
    whole = lanes.end_ns - lanes.origin_ns
    assert abs((start + end) / 2 - time) < whole / 500


def test_dragging_pans_and_history_comes_back(page: Opened) -> None:
    page.js("() => timelinePage.timeline.show(10_000_000, 20_000_000)")
    x, y = point(page, 15_000_000, "stream 7")
    width = page.js("timelinePage.timeline.plotWidth")
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x - 100, y, steps=3)
    page.page.mouse.up()
    start, end = view(page)
    assert start == pytest.approx(10_000_000 + 100 / width * 10_000_000, rel=1e-6)
    assert end - start == pytest.approx(10_000_000)
    page.page.keyboard.press("Backspace")
    assert view(page) == (10_000_000, 20_000_000)


def test_hovering_a_crowded_pixel_tells_its_busy_share(page: Opened, lanes: TimelineLanes) -> None:
    picked = page.js(
        """() => {
          const { timeline } = timelinePage;
          const row = timeline.layout.rows.find(each => each.lane?.title === "stream 7");
          const y = timeline.yOf(row) + row.height / 2;
          for (let x = GUTTER; ; x++) {
            const found = timeline.pick(x, y);
            if (found?.count > 5) return { from: found.from, to: found.to, count: found.count };
          }
        }"""
    )
    page.page.mouse.move(*point(page, (picked["from"] + picked["to"]) / 2, "stream 7"))
    title, shares, first = page.page.locator("#tip").inner_text().split("\n")
    assert title.startswith(f"{picked['count']} spans in this pixel")
    assert first.startswith("first: ")
    lane = next(lane for lane in lanes.lanes if lane.title == "stream 7")
    own = slice(lane.first, lane.end)
    start = lanes.spans.start_ns[own] - lanes.origin_ns
    end = lanes.spans.end_ns[own] - lanes.origin_ns
    busy = np.clip(np.minimum(end, picked["to"]) - np.maximum(start, picked["from"]), 0, None)
    for told in shares.split(", "):
        phase, share, _ = told.split()
        of_phase = lanes.spans.phase[own] == lanes.phases.index(phase)
        expected = 100 * busy[of_phase].sum() / (picked["to"] - picked["from"])
        assert float(share) == pytest.approx(expected, abs=0.06)
