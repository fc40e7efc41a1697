"""The report as a page: its order, its figures, and that names from a trace stay names."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES
from tests.renderers.html.pages import Page, outside_blobs
from tests.renderers.html.reports import HOSTILE, renamed, seed_report
from tests.verdict import made
from traceanalyzer import analyze, load
from traceanalyzer.renderers.charts import FIGURES, chart_of, drawing
from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.graph_text import graph_row
from traceanalyzer.renderers.html import sections as page_sections
from traceanalyzer.renderers.html.comparison_page import render_comparison_page
from traceanalyzer.renderers.html.report_page import SECTIONS, render_report_page
from traceanalyzer.renderers.html.sweep_page import render_sweep_page
from traceanalyzer.report import Check, Finding
from traceanalyzer.verdict.comparison import compare_reports
from traceanalyzer.verdict.sweep import sweep_of

if TYPE_CHECKING:
    from traceanalyzer.report import Report


@pytest.fixture(scope="module")
def seed() -> Report:
    return seed_report()


@pytest.fixture(scope="module")
def data(seed: Report) -> bytes:
    return render_report_page(seed)


@pytest.fixture(scope="module")
def page(data: bytes) -> Page:
    return Page(data)


@pytest.fixture(scope="module")
def harmless(seed: Report) -> Page:
    return Page(render_report_page(renamed(seed, lambda _: "x")))


def sections(page: Page) -> list[str]:
    return [str(each.attributes["id"]) for each in page.all("section")]


def digest(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def test_the_answer_comes_first_and_sections_keep_their_order(page: Page) -> None:
    found = sections(page)
    assert found[:2] == ["verdict", "cycle"]
    assert len(set(found)) == len(found), "each once"
    places = [max(i for i, each in enumerate(SECTIONS) if each.id == id_) for id_ in found]
    assert places == sorted(places)


def test_every_section_can_be_jumped_to(page: Page) -> None:
    (navigation,) = page.all("nav")
    assert [link.attributes["href"] for link in navigation.all("a")] == [
        f"#{id_}" for id_ in sections(page)
    ]


def test_what_a_report_lacks_is_absent(seed: Report) -> None:
    report = made.report(made.decode_bucket(10.0))
    found = sections(Page(render_report_page(report)))
    assert "cycle" in found
    assert not {
        "acceptance",
        "break-even",
        "growth",
        "ranks",
        "kernels",
        "actions",
        "kernel-names",
    } & set(found)


def test_a_failed_check_stands_above_all_figures(seed: Report) -> None:
    failed = Check("coverage", "failed", "nothing fits", "Record again.")
    found = Page(render_report_page(replace(seed, trust=[*seed.trust, failed])))
    assert sections(found)[:2] == ["verdict", "trust"]
    assert "nothing fits" in found.by_id("trust").text
    assert "1 failed" in found.by_id("verdict").text


def test_a_trace_without_gpu_work_or_cycles_has_a_page_too() -> None:
    for name in ("eagle3_host_only.sqlite", "reference_cpu_torch.json.gz"):
        report = analyze(load(SAMPLE_TRACES / name))
        assert "provenance" in sections(Page(render_report_page(report)))
    assert "No complete decode cycle" in Page(render_report_page(made.report())).root.text


def test_the_first_screen_says_what_the_terminal_says(page: Page) -> None:
    answer = page.by_id("verdict").text
    assert "Speculation is losing: 71.0 tok/s vs 90.1 without it (0.79×" in answer
    for figure in ("0.79× [0.73, 0.85]", "2.25 [2.10, 2.42]", "2.86 [2.85, 2.87]", "31.74"):
        assert figure in answer


def test_the_cycle_table_holds_the_reports_figures(seed: Report, page: Page) -> None:
    rows = page.rows(page.by_id("cycle"))
    bucket = seed.buckets[0]
    assert [row[:3] for row in rows] == [
        *(
            [
                phase.phase,
                f"{phase.window_ns_per_cycle.mean / 1e6:.2f}",
                f"{100 * phase.window_share:.1f} %",
            ]
            for phase in bucket.phases
        ),
        ["cycle", "31.74", "100.0 %"],
    ]
    assert rows[1][6:8] == ["launch latency 100 %", "1 graph + 5 kernels"]


def test_the_kernel_table_copies_what_the_report_holds(seed: Report, page: Page) -> None:
    cells = [
        (float(str(row.all("td")[3].attributes["data-value"])), row.all("bdi")[0].text)
        for row in page.by_id("kernels-table").all("tbody")[0].all("tr")
    ]
    assert cells == [
        (each.busy_ns_per_cycle / 1e6, safe(each.longest_kernel or ""))
        for phase in seed.buckets[0].phases
        for each in phase.classes
    ]


def test_kernels_by_name_copy_what_the_report_holds(seed: Report, page: Page) -> None:
    rows = page.by_id("kernel-names-table").all("tbody")[0].all("tr")
    found = []
    for row in rows:
        phase, kernel_class, *figures, kernel = row.all("td")
        values = [float(str(each.attributes["data-value"])) for each in figures]
        found.append((phase.text, kernel_class.text, *values, kernel.text))
    assert found == [
        (
            each.phase,
            each.kernel_class,
            each.ops,
            each.busy_ns / 1e6,
            each.share,
            safe(each.kernel or ""),
        )
        for each in seed.kernels
    ]
    assert len(found) > 12


def test_the_slowest_cycles_are_those_of_the_report(seed: Report, page: Page) -> None:
    rows = page.rows(page.by_id("slowest"))
    periods: dict[int, int] = {}
    for row in seed.cycle_rows:
        periods[row.cycle] = max(periods.get(row.cycle, 0), row.period_ns)
    slowest = sorted(periods.values(), reverse=True)[: len(rows)]
    assert [row[5] for row in rows] == [f"{ns / 1e6:.2f}" for ns in slowest]
    assert len(rows) == 10
    numbers = {row.number for row in seed.cycle_rows if row.period_ns in slowest}
    assert {row[0] for row in rows} == {str(number) for number in numbers}


def test_that_cycles_are_left_out_is_said(seed: Report) -> None:
    found = Page(render_report_page(replace(seed, cycle_rows_of=123_456)))
    for id_ in ("each-cycle", "rank-cycles", "slowest"):
        assert "of 123,456 cycles" in found.by_id(id_).text


def test_every_chart_travels_with_its_drawing_and_its_table(seed: Report, page: Page) -> None:
    drawings = page.figures()
    assert set(drawings) == set(FIGURES)
    for name, drawn in drawings.items():
        chart = chart_of(seed, name)
        assert chart is not None
        assert drawn == json.loads(json.dumps(drawing(chart)))
        block = page.by_id(f"figure-{name}")
        assert page.rows(block) == [[safe(cell) for cell in row] for row in chart.rows]


def test_every_action_and_finding_is_there(seed: Report) -> None:
    told = replace(
        seed,
        findings=[
            Finding("padding", "a graph is padded", "Capture 6.", "error", "8 of 6", "slower")
        ],
    )
    page = Page(render_report_page(told))
    assert seed.verdict is not None
    for action in seed.verdict.actions:
        assert action.action in page.by_id("actions").text
    assert page.rows(page.by_id("findings")) == [
        ["error", "a graph is padded", "8 of 6", "slower", "Capture 6."]
    ]


def test_graphs_are_listed_as_elsewhere(seed: Report, page: Page) -> None:
    rows = [[safe(cell) for cell in graph_row(graph)] for graph in seed.graphs]
    assert page.rows(page.by_id("graphs")) == rows
    assert len(rows) > 2


def test_only_our_scripts_may_run(page: Page) -> None:
    policy = page.policy()
    assert policy["default-src"] == ["'none'"]
    assert policy["base-uri"] == policy["form-action"] == ["'none'"]
    scripts = [each for each in page.all("script") if each.attributes.get("type") is None]
    sources = [*(each.raw for each in scripts), page.blob("plotly").decode()]
    assert sorted(policy["script-src"]) == sorted(map(digest, sources))


def test_nothing_is_fetched(data: bytes, page: Page) -> None:
    assert "connect-src" not in page.policy(), "falls back to none"
    assert not re.search(r"https?:", outside_blobs(data))
    assert not re.search(r"@import|url\(", outside_blobs(data))
    attributes = page.attributes()
    assert [value for name, value in attributes if name == "href" and value[:1] != "#"] == []
    assert {name for name, _ in attributes} & {"src", "srcset", "action", "ping"} == set()
    assert [name for name, _ in attributes if name.startswith("on")] == []


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_no_name_becomes_markup(
    seed: Report, harmless: Page, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_sections, "plotly_source", lambda: "0;")
    hostile = HOSTILE[place]
    found = Page(render_report_page(renamed(seed, lambda _: hostile)))
    assert found.root.skeleton() == harmless.root.skeleton()
    for table in ("kernels-table", "kernel-names-table"):
        kernels = found.by_id(table).all("bdi")
        assert {each.text for each in kernels} == {safe(hostile)}, "shown whole and literally"


def test_nothing_of_ours_is_unprintable(data: bytes) -> None:
    assert "\ufffd" not in data.decode()


def test_a_page_is_the_same_each_time(seed: Report, data: bytes) -> None:
    assert render_report_page(seed) == data


def test_sweeps_and_comparisons_have_pages(seed: Report) -> None:
    sweep = sweep_of([seed])
    found = Page(render_sweep_page(sweep))
    assert {"tokens_by_length_0", "verify_cost_0"} == set(found.figures())
    assert sections(found) == ["batch-0", "provenance"], "one length alone is no answer"

    comparison = compare_reports(made.report(made.decode_bucket(11.1)), seed, tool=seed.tool)
    found = Page(render_comparison_page(comparison))
    assert {"sides_0", "changes_0"} == set(found.figures())
    assert comparison.summary in found.by_id("answer").text


def test_a_report_without_charts_carries_no_plotly() -> None:
    page = Page(render_report_page(made.report()))
    assert [each.attributes["id"] for each in page.all("script") if each.attributes] == []
