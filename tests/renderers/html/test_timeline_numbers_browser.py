"""What the page adds up and how it draws it, against brute force and the report."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from tests.harness import needs_chromium
from tests.renderers.html.looking import PIXELS, point
from traceanalyzer.analyses.kernel_classes import ROWS, busy_pieces, class_time
from traceanalyzer.kernels.classification import class_of_ops
from traceanalyzer.phases.device_order import device_order
from traceanalyzer.phases.op_groups import op_groups
from traceanalyzer.renderers.figures import safe

if TYPE_CHECKING:
    from tests.renderers.html.browsers import Opened
    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes
    from traceanalyzer.phases.phased import PhasedTrace

pytestmark = needs_chromium


# Totals of a region.


def expected_totals(phased: PhasedTrace, start: int, end: int) -> dict[str, Any]:
    """By brute force: every instant of the region between two borders, one after another."""
    ops = phased.trace.ops.with_columns(
        row=pl.int_range(pl.len()),
        lane=pl.Series(phased.ops.lane),
        phase=pl.Series([phased.labels[label] for label in phased.label.tolist()]),
        text=phased.trace.text("name"),
        one_class=pl.Series([ROWS[each] for each in class_of_ops(phased.trace).tolist()]),
        a=pl.col("start_ns").clip(start, end),
        b=pl.col("end_ns").clip(start, end),
    ).filter((pl.col("start_ns") < end) & (pl.col("end_ns") > start))
    totals: dict[str, Any] = {
        "phases": Counter(),
        "classes": Counter(),
        "kernels": Counter(),
        "counts": Counter(ops["phase"].to_list()),
        "ranks": Counter(),
    }
    for (lane,), own in ops.group_by("lane"):
        totals["ranks"][lane] = union_ns(own.select("a", "b").rows())
    for (_, phase), own in ops.group_by("lane", "phase"):
        rows = own.sort("start_ns", "row").rows(named=True)
        borders = sorted({row["a"] for row in rows} | {row["b"] for row in rows})
        for since, until in pairwise(borders):
            running = [row for row in rows if row["a"] <= since and row["b"] >= until]
            if not running:
                continue
            several = len({row["stream_id"] for row in running}) > 1
            first = running[0]
            ns = until - since
            totals["phases"][phase] += ns
            totals["classes"]["overlap across streams" if several else first["one_class"]] += ns
            totals["kernels"]["overlap across streams" if several else first["text"]] += ns
    return totals


def union_ns(spans: list[tuple[int, int]]) -> int:
    total, reached = 0, -(2**63)
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


TOTALS = """([from, to]) => {
  const { store } = timelinePage;
  const totals = regionTotals(store, from, to);
  const name = key => key === OVERLAP ? "overlap across streams" : null;
  const rows = (list, text) => list.map(row => [name(row.key) ?? text(row.key), row.ns, row.count]);
  return {
    phases: rows(totals.phases, key => store.phaseText(key)),
    classes: rows(totals.classes, key => store.classes[key]),
    kernels: rows(totals.kernels, key => store.names[key]),
    ranks: totals.groups.map(each => [each.group, each.busy]),
  };
}"""


def summed(rows: list[list[Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, ns, _ in rows:
        found[name] += ns
    return +found


def check_region(page: Opened, phased: PhasedTrace, origin: int, start: int, end: int) -> None:
    found = page.js(TOTALS, [start, end])
    expected = expected_totals(phased, origin + start, origin + end)
    assert summed(found["phases"]) == expected["phases"]
    assert summed(found["classes"]) == expected["classes"]
    kernels: Counter[str] = Counter()
    for text, ns in expected["kernels"].items():
        kernels[safe(text)] += ns
    assert summed(found["kernels"]) == kernels
    assert dict(map(tuple, found["ranks"])) == {
        lane: expected["ranks"].get(lane, 0) for lane in range(2)
    }
    counts = {name: count for name, _, count in found["phases"] if count}
    assert counts == dict(expected["counts"])


def test_totals_of_a_dragged_region_are_exact(
    page: Opened, phased: PhasedTrace, lanes: TimelineLanes
) -> None:
    x0, y = point(page, lanes.cycles.start_ns[4] - lanes.origin_ns, "stream 7")
    mouse, keyboard = page.page.mouse, page.page.keyboard
    keyboard.down("Shift")
    mouse.move(x0, y)
    mouse.down()
    mouse.move(x0 + 50, y)
    mouse.move(x0 + 111, y + 5)
    mouse.up()
    keyboard.up("Shift")
    region = page.js("timelinePage.timeline.region")
    assert region["to"] > region["from"]
    check_region(page, phased, lanes.origin_ns, region["from"], region["to"])
    rows = page.page.locator("#totals table").nth(1).locator("tbody tr").all_inner_texts()
    shown = page.js(TOTALS, [region["from"], region["to"]])
    assert [row.split("\t")[0] for row in rows] == [name for name, _, _ in shown["phases"]]
    assert page.page.locator("#totals h2").inner_text().startswith("Region of ")


def test_totals_of_drawn_regions_are_exact(
    page: Opened, phased: PhasedTrace, lanes: TimelineLanes
) -> None:
    length = lanes.end_ns - lanes.origin_ns
    chosen = np.random.default_rng(3)
    for width in (700, 40_000, 900_000, 6_000_000):
        for _ in range(3):
            start = int(chosen.integers(0, length - width))
            check_region(page, phased, lanes.origin_ns, start, start + width)


def test_totals_of_the_whole_trace_are_the_reports(
    page: Opened, phased: PhasedTrace, lanes: TimelineLanes
) -> None:
    found = page.js(TOTALS, [0, lanes.end_ns - lanes.origin_ns])
    pieces = busy_pieces(phased, device_order(phased), op_groups(phased))
    table = class_time(phased, pieces)
    classes = Counter(dict(table.group_by("class").agg(pl.col("busy_ns").sum()).iter_rows()))
    assert summed(found["classes"]) == +Counter({ROWS[each]: ns for each, ns in classes.items()})
    labels = dict(table.group_by("label").agg(pl.col("busy_ns").sum()).iter_rows())
    assert summed(found["phases"]) == +Counter(
        {phased.labels[label]: ns for label, ns in labels.items()}
    )


# The index of busy time.


def test_busy_time_between_any_two_instants_is_exact(page: Opened, lanes: TimelineLanes) -> None:
    index, lane = max(enumerate(lanes.lanes), key=lambda each: each[1].end - each[1].first)
    own = slice(lane.first, lane.end)
    assert lane.end - lane.first > 500, "far more than two blocks of the index"
    start, end = (
        times[own] - lanes.origin_ns for times in (lanes.spans.start_ns, lanes.spans.end_ns)
    )
    drawn = np.random.default_rng(5).integers(0, lanes.end_ns - lanes.origin_ns, (60, 2))
    windows = np.sort(drawn, axis=1).tolist()
    found = page.js(
        """([index, windows]) => windows.map(
          ([from, to]) => Array.from(timelinePage.store.lanes[index].busy(from, to)))""",
        [index, windows],
    )
    for (since, until), by_phase in zip(windows, found, strict=True):
        busy = np.clip(np.minimum(end, until) - np.maximum(start, since), 0, None)
        expected = np.bincount(lanes.spans.phase[own] + 1, weights=busy, minlength=256)
        assert by_phase == expected.tolist()


# Pixels.


@pytest.mark.parametrize("zoom", [1, 7, 60, 900])
def test_columns_show_the_true_busy_share(page: Opened, lanes: TimelineLanes, zoom: int) -> None:
    whole = lanes.end_ns - lanes.origin_ns
    middle = int(lanes.cycles.start_ns[5]) - lanes.origin_ns + 250_000
    page.js(
        "([from, to]) => timelinePage.timeline.show(from, to)",
        [middle - whole / zoom / 2, middle + whole / zoom / 2],
    )
    shown = page.js(PIXELS, "stream 7")
    (lane,) = [lane for lane in lanes.lanes if lane.title == "stream 7" and lane.group == 0]
    own = slice(lane.first, lane.end)
    start = (lanes.spans.start_ns[own] - lanes.origin_ns).astype(float)
    end = (lanes.spans.end_ns[own] - lanes.origin_ns).astype(float)
    assert len(shown["columns"]) > 500
    used = 0
    for column, counts in enumerate(shown["columns"]):
        since = shown["from"] + column * shown["perPixel"]
        until = since + shown["perPixel"]
        share = np.clip(np.minimum(end, until) - np.maximum(start, since), 0, None).sum()
        share /= shown["perPixel"]
        expected = share * shown["height"]
        height = sum(counts.values())
        begins = bool(((start > since) & (start < until)).any())
        # Half a pixel of rounding; what runs or begins at all, be it for 0 ns, has two pixels.
        assert abs(height - expected) <= 0.51 or (height == 2 and expected < 2)
        assert counts or not begins
        assert begins or share > 0 or not counts
        used += bool(counts)
    assert used > 20


def test_columns_are_stacked_by_phase(page: Opened, lanes: TimelineLanes) -> None:
    shown = page.js(PIXELS, "phases")
    (lane,) = [lane for lane in lanes.lanes if lane.title == "phases" and lane.group == 0]
    found: Counter[str] = Counter()
    for counts in shown["columns"]:
        for place, pixels in counts.items():
            found[lanes.phases[int(place) - 1]] += pixels
    expected: dict[str, float] = defaultdict(float)
    for row in range(lane.first, lane.end):
        length = int(lanes.spans.end_ns[row] - lanes.spans.start_ns[row])
        expected[lanes.phases[lanes.spans.phase[row]]] += length
    colours = page.js("timelinePage.store.colours")
    by_colour: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for phase, ns in expected.items():
        by_colour[colours[lanes.phases.index(phase)]][0] += ns / shown["perPixel"]
    for phase, pixels in found.items():
        by_colour[colours[lanes.phases.index(phase)]][1] += pixels / shown["height"]
    for columns, drawn in by_colour.values():
        assert drawn == pytest.approx(columns, rel=0.08, abs=2)
