"""The timeline page in a real browser: opening, decoding, hostile names, light and dark."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tests.harness import needs_chromium
from tests.renderers.html.browsers import Opened, opened
from tests.renderers.html.looking import HOSTILE, READY, point, view, written
from traceanalyzer.analyses.timeline_lanes.choice import within_limit
from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.html.lane_pack import packed_lanes
from traceanalyzer.renderers.html.pack import Column, pack, unpack

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext

    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes

pytestmark = needs_chromium


# Opening.


def test_it_opens_without_complaint_or_request(page: Opened, lanes: TimelineLanes) -> None:
    assert page.js("document.title") == "a<b>.sqlite - timeline"
    assert page.page.locator("h1").text_content() == "a<b>.sqlite"
    counted = page.js("timelinePage.store.lanes.reduce((sum, lane) => sum + lane.size, 0)")
    assert counted == lanes.spans.size


def test_the_page_decodes_what_was_packed(page: Opened, lanes: TimelineLanes) -> None:
    _, columns = unpack(packed_lanes(lanes))
    for index, lane in enumerate(lanes.lanes):
        own = slice(lane.first, lane.end)
        found = page.js(
            """index => {
              const lane = timelinePage.store.lanes[index];
              return Object.fromEntries(["start", "end", "name", "phase", "cycle", "correlation"]
                .map(name => [name, Array.from(lane[name])]));
            }""",
            index,
        )
        spans = lanes.spans
        assert found["start"] == (spans.start_ns[own] - lanes.origin_ns).tolist()
        assert found["end"] == (spans.end_ns[own] - lanes.origin_ns).tolist()
        for name in ("name", "cycle", "correlation"):
            assert found[name] == getattr(spans, name)[own].tolist()
        assert found["phase"] == (spans.phase[own] + 1).tolist()
        assert columns[f"{index}.cycle"].tolist() == found["cycle"]


def test_wide_and_folded_columns_are_decoded(page: Opened) -> None:
    wide = [0, 1, 2**32, 2**53, 2**52 + 1]
    folded = [5, -1, -(2**40), 2**40, 0]
    packed = pack(
        {},
        {
            "wide": Column(np.array(wide, np.int64)),
            "folded": Column(np.array(folded, np.int64), differences=True),
            "four": Column(np.array([2**32 - 1, 65_536], np.int64)),
        },
    )
    found = page.js(
        """bytes => {
          const columns = new Columns(Uint8Array.from(bytes));
          return ["wide", "folded", "four"].map(
            name => Array.from(columns.read(name, Float64Array)));
        }""",
        list(packed),
    )
    assert found == [wide, folded, [2**32 - 1, 65_536]]


def test_more_names_than_16_bits_can_number(page: Opened, lanes: TimelineLanes) -> None:
    names = tuple(f"kernel {number}" for number in range(70_000))
    spans = lanes.spans.take(np.arange(2))
    spans = replace(spans, name=np.array([3, 69_999]))
    lane = replace(lanes.lanes[0], first=0, end=2)
    many = replace(lanes, names=names, name_class=(-1,) * len(names), spans=spans, lanes=(lane,))
    found = page.js(
        """async text => {
          const store = new Store(bytesOfBase64(text));
          return Array.from(store.lanes[0].name, name => store.names[name]);
        }""",
        base64.b64encode(packed_lanes(many)).decode(),
    )
    assert found == ["kernel 3", "kernel 69999"]


# Names.


def test_hostile_names_are_shown_literally(page: Opened, lanes: TimelineLanes) -> None:
    for text in HOSTILE:
        name = lanes.names.index(text)
        row = int(np.flatnonzero(lanes.spans.name == name)[0])
        index = next(i for i, lane in enumerate(lanes.lanes) if lane.first <= row < lane.end)
        lane = lanes.lanes[index]
        page.js(
            "([i, row]) => timelinePage.timeline.reveal(timelinePage.store.lanes[i], row)",
            [index, row - lane.first],
        )
        page.js(
            "() => timelinePage.timeline.fit("
            "...(({ lane, row }) => [lane.start[row], lane.end[row]])"
            "(timelinePage.timeline.selected))"
        )
        assert page.page.locator("#span .name").text_content() == safe(text)
        time = (int(lanes.spans.start_ns[row]) + int(lanes.spans.end_ns[row])) / 2
        page.page.mouse.move(*point(page, time - lanes.origin_ns, lane.title, lane.group))
        assert page.page.locator("#tip .name").text_content() == safe(text)
    inside = "#span, #tip, #totals"
    assert page.page.locator(inside).locator("script, img, svg, a, b").count() == 0
    assert page.js("typeof window.hit") == "undefined"


def test_a_template_argument_is_not_lost(page: Opened, lanes: TimelineLanes) -> None:
    page.js("() => timelinePage.timeline.setRegion(0, timelinePage.store.end)")
    titles = page.js("() => [...document.querySelectorAll('#totals bdi')].map(each => each.title)")
    assert "void f<b>(int)" in titles


# Light and dark.


def test_dark_and_light(page: Opened) -> None:
    corner = "timelinePage.timeline.context.getImageData(3, 3, 1, 1).data.slice(0, 3).join()"
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.js(ground) == "rgb(255, 255, 255)"
    page.page.locator("#theme").click()
    page.js("() => timelinePage.timeline.draw()")
    assert page.js("document.documentElement.dataset.theme") == "dark"
    assert page.js(corner) == "22,24,29"
    assert page.js(ground) == "rgb(22, 24, 29)"
    page.js("() => document.getElementById('timeline').focus()")
    page.page.keyboard.press("t")
    assert page.js("theme.dark") is False
    page.page.emulate_media(color_scheme="dark")
    page.wait_for("theme.dark")
    page.page.emulate_media(color_scheme="light")
    page.wait_for("!theme.dark")


def test_texts_read_well_on_both_grounds(page: Opened) -> None:
    for dark in (False, True):
        contrasts = page.js(
            """dark => {
              const palette = new Palette(timelinePage.store, dark);
              const { css } = palette;
              const ratio = (a, b) => {
                const [low, high] = [a, b].map(luminance).sort((x, y) => x - y);
                return (high + 0.05) / (low + 0.05);
              };
              const ground = channels(css.ground);
              const texts = ["ink", "muted", "mark", "accent"];
              return [
                ...texts.map(name => ratio(channels(css[name]), ground)),
                ...palette.gpu.map(colour => ratio(colour, channels(Palette.inkOn(colour)))),
                ...palette.host.map(colour => ratio(colour, channels(Palette.inkOn(colour)))),
              ];
            }""",
            dark,
        )
        assert min(contrasts) >= 4.5


# A part of a trace.


def test_a_part_says_that_it_is_one(
    browser: BrowserContext, lanes: TimelineLanes, tmp_path: Path
) -> None:
    part = within_limit(lanes, int(lanes.spans.size * 0.4))
    page = opened(browser, written(part, tmp_path), READY, "#t=0,1000000&m=5")
    assert view(page) == (0, 1_000_000)
    assert page.js("timelinePage.timeline.marks") == [5]
    banner = page.page.locator("p.warning").first
    assert banner.inner_text() == part.notes[0]
    page.js("() => { timelinePage.timeline.showAll(); timelinePage.timeline.draw(); }")
    hatched = page.js(
        """() => {
          const { timeline } = timelinePage;
          const row = timeline.layout.rows.find(each => each.lane && each.lane.kind === "stream");
          const { frame } = timeline;
          const line = row.top + 3;
          const pixels = frame.pixels.subarray(line * frame.width, (line + 1) * frame.width);
          return pixels.filter(pixel => pixel === timeline.palette.pixel.hatch).length;
        }"""
    )
    assert hatched > 20
    page.js("() => timelinePage.timeline.setRegion(0, timelinePage.store.end)")
    assert "of this region is in this file" in page.page.locator("#totals").inner_text()
    assert page.complaints == []
    page.page.close()
