"""Cycles on the timeline page: the way from one to the next, the lists, and the strip."""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.harness import needs_chromium
from tests.renderers.html.looking import view
from traceanalyzer.phases.cycles import KEPT

if TYPE_CHECKING:
    from tests.renderers.html.browsers import Opened
    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes

pytestmark = needs_chromium


def test_braces_jump_from_cycle_to_cycle(page: Opened, lanes: TimelineLanes) -> None:
    facts = lanes.cycles
    page.js("() => timelinePage.cycles.open(timelinePage.cycles.facts[3])")
    for key, cycle in (("}", 4), ("}", 5), ("{", 4), ("{", 3), ("{", 2)):
        page.page.keyboard.press(key)
        start, end = view(page)
        assert start <= facts.start_ns[cycle] - lanes.origin_ns
        assert end >= facts.end_ns[cycle] - lanes.origin_ns
        period = int(facts.end_ns[cycle] - facts.start_ns[cycle])
        assert end - start == pytest.approx(1.06 * period, rel=1e-6)


def test_slowest_and_rejected_cycles_are_listed(page: Opened, lanes: TimelineLanes) -> None:
    facts = lanes.cycles
    rows = [row for row in range(12) if facts.state[row] == KEPT]
    period = facts.end_ns - facts.start_ns
    slowest = sorted(rows, key=lambda row: -period[row] / facts.usual_ns[row])
    rejected = [row for row in rows if facts.drafted[row] > 0 and facts.accepted[row] == 0]
    lists = page.page.locator("#lists ol")
    first = [text.split()[0] for text in lists.nth(0).locator("button").all_inner_texts()]
    assert first == [f"#{facts.ordinal[row]}" for row in slowest[:12]]
    second = [text.split()[0] for text in lists.nth(1).locator("button").all_inner_texts()]
    assert second == [f"#{facts.ordinal[row]}" for row in rejected[:12]]
    lists.nth(1).locator("button").first.click()
    start, end = view(page)
    middle = (start + end) / 2 + lanes.origin_ns
    assert facts.start_ns[rejected[0]] < middle < facts.end_ns[rejected[0]]


def test_the_strip_filters_and_orders(page: Opened, lanes: TimelineLanes) -> None:
    facts = lanes.cycles
    own = range(12)
    period = facts.end_ns - facts.start_ns
    kept = [row for row in own if facts.state[row] == KEPT]
    expected = {
        "all": list(own),
        "kept": kept,
        "rejected": [row for row in kept if facts.drafted[row] and not facts.accepted[row]],
        "slow": [row for row in kept if period[row] >= 1.15 * facts.usual_ns[row]],
    }
    shown = "timelinePage.strip.facts.map(fact => fact.cycle)"
    for choice, rows in expected.items():
        page.page.locator("#strip-only").select_option(choice)
        assert page.js(shown) == rows
    page.page.locator("#strip-only").select_option("all")
    page.page.locator("#strip-order").select_option("slowest")
    assert page.js(shown) == sorted(own, key=lambda row: -period[row])
    page.page.locator("#strip-order").select_option("time")


def test_the_strip_draws_each_cycle_from_its_start(page: Opened, lanes: TimelineLanes) -> None:
    found = page.js(
        """() => {
          const { strip, timeline } = timelinePage;
          strip.draw();
          const { plain } = timeline.palette.sets.gpu;
          return strip.visible.slice(2, 7).map(({ fact, y }) => {
            const line = Math.round((y - STRIP.top + strip.rowHeight / 2) * timeline.ratio);
            const pixels = strip.frame.pixels.subarray(
              line * strip.frame.width, (line + 1) * strip.frame.width);
            return { cycle: fact.cycle, perPixel: strip.perPixel,
              colours: Array.from(pixels, pixel => plain.indexOf(pixel)) };
          });
        }"""
    )
    colours = [None, *page.js("timelinePage.store.colours")]
    phases = next(lane for lane in lanes.lanes if lane.kind == "phases" and lane.group == 0)
    spans, checked = lanes.spans, 0
    for shown in found:
        begin = int(lanes.cycles.start_ns[shown["cycle"]])
        for row in range(phases.first, phases.end):
            if spans.cycle[row] != shown["cycle"]:
                continue
            first, last = (
                (int(time) - begin) / shown["perPixel"]
                for time in (spans.start_ns[row], spans.end_ns[row])
            )
            # Columns that a phase fills alone.
            full = shown["colours"][ceil(first) : floor(last)]
            expected = colours[spans.phase[row] + 1]
            assert {colours[max(0, place)] for place in full} <= {expected}
            checked += len(full)
        after = ceil((int(lanes.cycles.end_ns[shown["cycle"]]) - begin) / shown["perPixel"])
        assert set(shown["colours"][after:]) <= {-1}, "nothing is drawn after the cycle's end"
    assert checked > 1_000


def test_the_strip_opens_a_cycle_by_click_and_by_keyboard(
    page: Opened, lanes: TimelineLanes
) -> None:
    facts = lanes.cycles
    canvas = page.page.locator("#strip-canvas")
    canvas.scroll_into_view_if_needed()
    y = page.js("STRIP.top + 5.5 * timelinePage.strip.rowHeight")
    canvas.click(position={"x": 300, "y": y})
    assert inside_cycle(page, lanes) == 5
    canvas.focus()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    assert inside_cycle(page, lanes) == 6
    assert f"#{facts.ordinal[6]}" in (canvas.get_attribute("aria-label") or "")
    page.js("() => scrollTo(0, 0)")


def inside_cycle(page: Opened, lanes: TimelineLanes) -> int:
    start, end = view(page)
    middle = (start + end) / 2 + lanes.origin_ns
    return int(np.searchsorted(lanes.cycles.start_ns[:12], middle, "right")) - 1


def test_the_time_scale_of_the_strip_narrows_at_the_pointer(page: Opened) -> None:
    canvas = page.page.locator("#strip-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    widest = page.js("timelinePage.strip.widest")
    left, width = page.js("[STRIP.left, timelinePage.strip.plotWidth]")
    page.page.mouse.move(box["x"] + left + 0.75 * width, box["y"] + 60)
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -300)
    page.page.keyboard.up("Control")
    page.wait_for("timelinePage.strip.range.from > 0")
    found = page.js("timelinePage.strip.range")
    assert found["to"] - found["from"] < 0.6 * widest
    share = (0.75 * widest - found["from"]) / (found["to"] - found["from"])
    assert share == pytest.approx(0.75, abs=0.01)
    canvas.focus()
    for key in ("+", "ArrowRight", "ArrowLeft", "-", "-", "-", "-", "-", "-"):
        page.page.keyboard.press(key)
    assert page.js("timelinePage.strip.range") == {"from": 0, "to": widest}
    page.js("() => scrollTo(0, 0)")
