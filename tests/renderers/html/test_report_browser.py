"""The report's page in a real browser: it opens alone, draws, sorts, copies and prints."""

from __future__ import annotations

import csv
import io
import re
import zlib
from typing import TYPE_CHECKING, Final

import pytest

from tests.harness import needs_chromium
from tests.renderers.html.browsers import Opened, opened
from tests.renderers.html.reports import HOSTILE, renamed, seed_report
from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.html.report_page import render_report_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page

pytestmark = needs_chromium

READY: Final = "document.documentElement.dataset.charts === 'ready'"
LOCAL: Final = ("file:", "data:", "blob:")
_CLIPBOARD: Final = "navigator.clipboard.readText()"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The seed case's page, and one on which every name is hostile."""
    folder = tmp_path_factory.mktemp("pages")
    seed = seed_report()
    names = iter(HOSTILE * 100)
    hostile = renamed(seed, lambda _: next(names))
    found = {}
    for name, report in (("seed", seed), ("hostile", hostile)):
        found[name] = folder / f"{name}.html"
        found[name].write_bytes(render_report_page(report))
    return found


@pytest.fixture(scope="module")
def shared(browser: BrowserContext, files: dict[str, Path]) -> Iterator[Opened]:
    found = opened(browser, files["seed"], READY)
    yield found
    found.page.close()


@pytest.fixture
def page(shared: Opened) -> Iterator[Page]:
    """The seed case's page; nothing may have gone wrong in it."""
    yield shared.page
    assert_quiet(shared)


def assert_quiet(found: Opened) -> None:
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith(LOCAL)] == []


def draw_all(page: Page) -> int:
    """Bring every chart into view; returns how many there are."""
    plots = page.locator(".plot")
    for place in range(plots.count()):
        plots.nth(place).scroll_into_view_if_needed()
        plots.nth(place).locator("svg.main-svg").first.wait_for()
    return plots.count()


def column(page: Page, number: int) -> list[str]:
    """The cells of a column of the kernel table that are shown."""
    cells = page.locator(f"#kernels-table tbody tr:visible td:nth-child({number})")
    return cells.all_text_contents()


def test_every_chart_is_drawn(page: Page) -> None:
    assert draw_all(page) == 11
    bars = page.locator("#plot-waterfall .bars path")
    assert bars.count() == len(seed_report().buckets[0].phases) + 1
    texts = page.locator("#plot-waterfall .bartext").all_text_contents()
    assert texts[1] == "28.45 ms · 89.6 %"


def test_bars_are_as_long_as_their_times(page: Page) -> None:
    draw_all(page)
    boxes = [each.bounding_box() for each in page.locator("#plot-waterfall .bars path").all()]
    draft, verify, _, cycle = (box["width"] for box in boxes if box)
    assert verify / cycle == pytest.approx(0.896, abs=0.005)
    assert draft / cycle == pytest.approx(0.069, abs=0.005)


def test_the_kernel_table_sorts(page: Page) -> None:
    head = page.locator("#kernels-table th", has_text="busy ms/cycle")
    head.locator("button").click()
    falling = [float(text) for text in column(page, 4)]
    assert falling == sorted(falling, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").press("Enter")
    assert [float(text) for text in column(page, 4)] == falling[::-1]
    page.locator("#kernels-table th", has_text="phase").locator("button").click()
    assert column(page, 1) == sorted(column(page, 1))


def test_the_kernel_table_filters_and_copies_what_it_shows(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    field = page.locator("[data-filters=kernels-table]")
    field.fill("VERIFY flashinfer")
    kernels = [
        each
        for phase in seed_report().buckets[0].phases
        for each in phase.classes
        if phase.phase == "verify" and "flashinfer" in (each.longest_kernel or "")
    ]
    assert len(column(page, 1)) == len(kernels) > 0
    page.locator("[data-copies=kernels-table]").click()
    page.locator("#kernels-table-status", has_text=f"{len(kernels)} rows copied").wait_for()
    copied = page.evaluate(_CLIPBOARD)
    titles, *rows = csv.reader(io.StringIO(copied))
    assert titles == ["phase", "class", "ops/cycle", "busy ms/cycle", "longest kernel"]
    assert {(row[1], float(row[3]), row[4]) for row in rows} == {
        (each.kernel_class, each.busy_ns_per_cycle / 1e6, each.longest_kernel) for each in kernels
    }
    field.fill("")


def names_column(page: Page, number: int) -> list[str]:
    """The cells of a column of the table of kernels by name that are shown."""
    cells = page.locator(f"#kernel-names-table tbody tr:visible td:nth-child({number})")
    return cells.all_text_contents()


def test_kernels_by_name_sort_filter_and_copy_whole(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    kernels = seed_report().kernels
    head = page.locator("#kernel-names-table th", has_text="busy ms")
    head.locator("button").click()
    longest = sorted(kernels, key=lambda each: -each.busy_ns)
    assert names_column(page, 4) == [f"{each.busy_ns / 1e6:,.3f}" for each in longest]
    field = page.locator("[data-filters=kernel-names-table]")
    field.fill("VERIFY gemm")
    wanted = [
        each
        for each in longest
        if each.phase == "verify" and "gemm" in f"{each.kernel} {each.kernel_class}".lower()
    ]
    assert names_column(page, 6) == [each.kernel for each in wanted]
    page.locator("[data-copies=kernel-names-table]").click()
    page.locator("#kernel-names-table-status", has_text=f"{len(wanted)} rows copied").wait_for()
    _, *rows = csv.reader(io.StringIO(page.evaluate(_CLIPBOARD)))
    copied = [(row[1], int(row[2]), float(row[3]), float(row[4]), row[5]) for row in rows]
    assert copied == [
        (each.kernel_class, each.ops, each.busy_ns / 1e6, each.share, each.kernel)
        for each in wanted
    ]
    assert len(copied) > 1
    field.fill("")


def test_cells_of_the_heatmap_and_points_are_drawn(page: Page) -> None:
    draw_all(page)
    rows = seed_report().cycle_rows
    points = page.locator("#plot-each_cycle .scatterlayer .point")
    assert points.count() == 2 * sum(row.rank == rows[0].rank for row in rows)
    assert page.locator("#plot-rank_cycles .heatmaplayer image").count() == 1


def test_dark_mode_reaches_the_charts(page: Page) -> None:
    draw_all(page)
    tick = page.locator("#plot-waterfall .ytick text").first

    def colours() -> tuple[str, str]:
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return ground, tick.evaluate("element => getComputedStyle(element).fill")

    light = colours()
    page.locator("#theme").click()
    dark = colours()
    page.locator("#theme").click()
    assert light == ("rgb(255, 255, 255)", "rgb(29, 33, 39)")
    assert dark == ("rgb(22, 24, 29)", "rgb(215, 218, 224)")
    assert colours() == light


@pytest.mark.parametrize("width", [640, 1280, 3840])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1280, "height": 900})


def test_charts_fit_the_paper_while_it_is_printed(page: Page) -> None:
    draw_all(page)
    drawing = page.locator("#plot-waterfall svg.main-svg").first
    before = drawing.get_attribute("width")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert drawing.get_attribute("width") == "680"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert drawing.get_attribute("width") == before


def test_it_prints_its_charts(browser: BrowserContext, files: dict[str, Path]) -> None:
    page = opened(browser, files["seed"], READY).page
    assert page.locator(".plot[data-drawn]").count() < 11, "those below are not drawn yet"
    printed = page.pdf(format="A4")
    assert 4 <= len(re.findall(rb"/Type /Page\b", printed)) <= 12
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", printed, re.DOTALL)
    strokes = sum(len(re.findall(rb"\bf\*?\n", inflated(each))) for each in streams)
    assert strokes > 300, "bars, boxes and letters are painted"
    assert page.locator(".plot[data-drawn]").count() == 11
    page.close()


def inflated(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


def test_hostile_names_are_shown_and_do_nothing(
    browser: BrowserContext, files: dict[str, Path]
) -> None:
    found = opened(browser, files["hostile"], READY)
    page = found.page
    draw_all(page)
    assert page.evaluate("window.hit") is None
    assert page.locator("a[href^='http'], img, [onload], [onerror]").count() == 0
    shown = page.locator("body").inner_text()
    for name in HOSTILE:
        assert " ".join(safe(name).split()) in " ".join(shown.split())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("[data-copies=kernels-table]").click()
    page.locator("#kernels-table-status", has_text="copied").wait_for()
    cells = {each for row in csv.reader(io.StringIO(page.evaluate(_CLIPBOARD))) for each in row}
    assert "'=HYPERLINK(1,2)" in cells, "a spreadsheet must not run it"
    assert "void f<b>(int)" in cells
    assert_quiet(found)
    page.close()


def test_a_kernels_angle_brackets_are_drawn(
    browser: BrowserContext, files: dict[str, Path], tmp_path: Path
) -> None:
    name = "void f<b>(int)"
    path = tmp_path / "brackets.html"
    path.write_bytes(render_report_page(renamed(seed_report(), lambda _: name)))
    page = opened(browser, path, READY).page
    draw_all(page)
    ticks = page.locator("#plot-waterfall .ytick text").all_text_contents()
    assert ticks == [name] * 3 + ["cycle"]
    page.close()
