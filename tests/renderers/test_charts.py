"""Charts show what the report holds, in plotly's own schema, with every name whole."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import SAMPLE_TRACES
from tests.renderers.html.reports import HOSTILE, renamed, seed_report
from tests.strategies import examples
from tests.verdict import made
from traceanalyzer import analyze, load
from traceanalyzer.errors import InputError
from traceanalyzer.renderers.charts import FIGURES, chart_of, drawing, figure
from traceanalyzer.renderers.charts.comparison import comparison_charts
from traceanalyzer.renderers.charts.sweep import sweep_charts
from traceanalyzer.renderers.figures import safe
from traceanalyzer.speculation.acceptance import AcceptanceCounts
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.comparison import compare_reports
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known
from traceanalyzer.verdict.sweep import sweep_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.renderers.charts import Chart
    from traceanalyzer.report import Report

PHASES = ("draft", "verify", "sample", "draft_extend")
_MS = 1e6


def drawn(report: Report, name: str) -> Chart:
    chart = chart_of(report, name)
    assert chart is not None, name
    return chart


@pytest.fixture(scope="module")
def seed() -> Report:
    return seed_report()


def texts(value: Any) -> Iterator[str]:
    """Every text in a drawing."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_plotly_takes_every_figure(seed: Report, name: str, dark: bool) -> None:
    shown = figure(seed, name, dark=dark)
    assert isinstance(shown, go.Figure)
    assert shown.data, "something is drawn"
    assert shown.layout.title.text == html.escape(drawn(seed, name).title)


def test_what_a_figure_needs_is_told() -> None:
    report = made.report(made.decode_bucket(10.0))
    with pytest.raises(InputError, match="lacks"):
        figure(report, "acceptance")
    with pytest.raises(InputError, match="no figure 'pie'"):
        figure(report, "pie")
    with pytest.raises(InputError, match="no bucket 1"):
        figure(report, "waterfall", bucket=1)


def test_without_cycles_there_is_nothing_to_draw() -> None:
    assert [name for name in FIGURES if chart_of(made.report(), name)] == []


@st.composite
def cycles(draw: st.DrawFn) -> Report:
    """Cycles of any windows, with an overlap."""
    times = {name: draw(st.floats(0.001, 50)) for name in PHASES if draw(st.booleans())}
    times["verify"] = draw(st.floats(0.001, 50))
    overlap = draw(st.floats(0, 5))
    period = sum(times.values()) + overlap
    phases = [made.phase(name, ms, period) for name, ms in times.items()]
    bucket = made.verify_bucket(phases, None)
    spread = replace(bucket.period_ns, mean=period * _MS)
    share = overlap / period
    return made.report(
        replace(
            bucket,
            period_ns=spread,
            overlap_ns_per_cycle=overlap * _MS,
            overlap_share=share,
        )
    )


@given(cycles())
@examples(0.2)
def test_the_waterfall_ends_where_the_cycle_ends(report: Report) -> None:
    chart = drawn(report, "waterfall")
    (bars,) = chart.traces
    *steps, whole = zip(bars["base"], bars["x"], strict=True)
    end = 0.0
    for base, length in steps:
        assert base == pytest.approx(end)
        end = base + length
    assert whole == (0.0, pytest.approx(end))
    assert len(chart.rows) == len(steps) + 1


def test_every_bar_has_its_row_and_every_row_its_bar(seed: Report) -> None:
    bucket = seed.buckets[0]
    (bars,) = drawn(seed, "waterfall").traces
    assert bars["x"] == [
        *(phase.window_ns_per_cycle.mean / _MS for phase in bucket.phases),
        bucket.period_ns.mean / _MS,
    ]
    shown = [f"{ms} ms · {share}" for _, ms, share in drawn(seed, "waterfall").rows]
    assert bars["text"] == shown
    assert drawn(seed, "waterfall").rows[1] == ("verify", "28.45", "89.6 %")


def test_idle_time_lies_at_the_end_of_its_window() -> None:
    gaps = {"host late": 2.0, "dependency": 1.0}
    phases = [made.phase("draft", 4.0, 10.0), made.phase("verify", 6.0, 10.0, gaps=gaps)]
    chart = drawn(made.report(made.verify_bucket(phases, None)), "windows")
    whole, late, waits = chart.traces
    assert whole["x"] == [4.0, 6.0]
    assert (late["name"], late["y"], late["base"], late["x"]) == (
        "idle: host late",
        [1],
        [4.0],
        [2.0],
    )
    assert (waits["y"], waits["base"], waits["x"]) == ([1], [3.0], [1.0])
    assert chart.rows[1] == ("verify", "6.00", "3.00", "2.00", "1.00")


def test_host_time_has_no_idle_gpu(seed: Report) -> None:
    on_host = replace(seed, capture=replace(seed.capture, time_base="host"))
    assert chart_of(on_host, "windows") is None


def test_break_even_this_run_and_perfect_acceptance_lie_on_one_line(seed: Report) -> None:
    assert seed.verdict is not None
    verdict = seed.verdict.buckets[0]
    curve, *_ = drawn(seed, "break_even").traces
    assert verdict.break_even_accept_len is not None
    even = verdict.break_even_accept_len.value
    for x, y in zip(curve["x"], curve["y"], strict=True):
        assert y == pytest.approx(x / even)
    assert (even, 1.0) in zip(curve["x"], curve["y"], strict=True)
    assert curve["x"][-1] == 6.0, "all five drafts and the bonus token"


def test_the_runs_own_point_carries_its_intervals(seed: Report) -> None:
    (here,) = (each for each in drawn(seed, "break_even").traces if each.get("name") == "this run")
    assert seed.verdict is not None
    found = seed.verdict.buckets[0]
    for axis, value in (("x", found.accept_len), ("y", found.speedup)):
        assert value is not None
        error = here[f"error_{axis}"]
        assert here[axis] == [value.value]
        assert value.value - error["arrayminus"][0] == pytest.approx(value.low)
        assert value.value + error["array"][0] == pytest.approx(value.high)


def test_without_a_baseline_there_is_no_curve() -> None:
    bucket = made.seed_bucket()
    assert chart_of(judged(made.report(bucket), Known()), "break_even") is None


def test_slots_add_up_to_the_verified_ones(seed: Report) -> None:
    chart = drawn(seed, "slots")
    acceptance = seed.buckets[0].acceptance
    assert acceptance is not None
    assert acceptance.ledger is not None
    assert sum(each["x"][0] for each in chart.traces) == acceptance.ledger.verified
    assert chart.rows[-1] == ("verified", "1,542", "100.0 %")


def test_growth_stands_for_every_class_in_both(seed: Report) -> None:
    assert seed.verdict is not None
    growth = seed.verdict.buckets[0].growth
    plain, verify = drawn(seed, "verify_growth").traces
    assert plain["x"] == [row.decode_ns / _MS for row in growth]
    assert verify["x"] == [row.verify_ns / _MS for row in growth]
    assert [row[0] for row in drawn(seed, "verify_growth").rows] == [row.name for row in growth]


def test_classes_add_up_to_the_busy_time_of_each_phase(seed: Report) -> None:
    by_phase = {each["name"]: sum(each["x"]) for each in drawn(seed, "classes").traces}
    for phase in seed.buckets[0].phases:
        busy = sum(each.busy_ns_per_cycle for each in phase.classes)
        assert by_phase[phase.phase] == pytest.approx(busy / _MS)


def test_quantiles_are_those_of_the_report(seed: Report) -> None:
    chart = drawn(seed, "distribution")
    period = seed.buckets[0].period_ns
    between, median, mean, tail = chart.traces[:4]
    assert between["base"] == [period.p5 / _MS]
    assert between["base"][0] + between["x"][0] == pytest.approx(period.p95 / _MS)
    assert (median["x"], mean["x"]) == ([period.p50 / _MS], [period.mean / _MS])
    assert tail["x"] == [period.p99 / _MS]
    assert len(chart.traces) == 4 * (1 + len(seed.buckets[0].phases))


def test_a_late_rank_stands_out() -> None:
    report = analyze(load(SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"))
    slow = replace(report.ranks[1].phases[0])
    assert slow.window_ns_per_cycle is not None
    window = replace(slow.window_ns_per_cycle, mean=10 * slow.window_ns_per_cycle.mean)
    phases = [replace(slow, window_ns_per_cycle=window), *report.ranks[1].phases[1:]]
    report = replace(report, ranks=[report.ranks[0], replace(report.ranks[1], phases=phases)])
    chart = drawn(report, "ranks")
    (heat,) = chart.traces
    column = chart.columns.index(slow.phase) - 1
    assert heat["z"][1][column] == max(each for row in heat["z"] for each in row)
    assert heat["z"][0][column] == 0


def test_one_rank_is_compared_with_none(seed: Report) -> None:
    assert chart_of(replace(seed, ranks=seed.ranks[:1]), "ranks") is None


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_names_are_text_to_plotly(seed: Report, place: int) -> None:
    hostile = HOSTILE[place]
    report = renamed(seed, lambda _: hostile)
    for name in FIGURES:
        chart = drawn(report, name)
        for text in texts(drawing(chart, titled=True)):
            assert "<" not in text.replace("<br>", "")
            assert "%{" not in text.replace("%{text}", "")
            assert "$" not in text
            assert text.replace("%\u200b{", "").isprintable()


def test_a_kernels_name_is_shown_whole(seed: Report) -> None:
    report = renamed(seed, lambda text: f"void f<b>(int) {text}"[:60])
    assert "void f&lt;b&gt;(int)" in "".join(texts(drawn(report, "verify_growth").traces))


def test_names_that_look_alike_stay_apart(seed: Report) -> None:
    """Shortened to one text, they still are two bars."""
    report = renamed(seed, lambda text: "k" * 200 + text)
    phases = seed.buckets[0].phases
    bars = drawn(report, "waterfall").traces[0]
    assert bars["y"] == list(range(len(phases) + 1))
    assert len(drawn(report, "classes").layout["yaxis"]["tickvals"]) == len(
        {each.kernel_class for phase in phases for each in phase.classes}
    )
    assert safe("k" * 200)[:43] in drawn(report, "waterfall").layout["yaxis"]["ticktext"][0]


HISTOGRAM = [430, 245, 140, 80, 45, 60]


def sweep_reports() -> list[Report]:
    baseline = measured_baseline(made.report(made.decode_bucket(11.1)))
    found = []
    for k, ms in ((1, 24.97), (3, 26.71), (5, 28.45)):
        shorter = [*HISTOGRAM[:k], sum(HISTOGRAM[k:])]
        counts = AcceptanceCounts.from_histogram(k, shorter)
        phases = [made.phase("draft", 0.4 * k, 30), made.phase("verify", ms, 30)]
        bucket = made.verify_bucket(phases, counts, n=k + 1)
        found.append(judged(made.report(bucket, path=f"k{k}"), Known(baseline=baseline)))
    return found


def test_a_sweep_is_drawn_as_it_was_measured() -> None:
    sweep = sweep_of(sweep_reports())
    batch = sweep.batches[0]
    lengths, costs = sweep_charts(sweep, 0)
    for chart in (lengths, costs):
        go.Figure(drawing(chart))
    captures = next(each for each in lengths.traces if each["name"] == "captures")
    assert captures["y"] == [each.tokens_per_s.value for each in batch.points if each.tokens_per_s]
    verify = costs.traces[0]
    assert verify["x"] == [each.verified_tokens for each in batch.points]
    assert verify["y"] == [each.target_ns.value / _MS for each in batch.points]


def test_the_cost_line_runs_through_captures_of_a_straight_cost() -> None:
    _, costs = sweep_charts(sweep_of(sweep_reports()), 0)
    verify, line = costs.traces[:2]
    (x0, x1), (y0, y1) = line["x"], line["y"]
    for n, ms in zip(verify["x"], verify["y"], strict=True):
        assert y0 + (y1 - y0) * (n - x0) / (x1 - x0) == pytest.approx(ms, rel=1e-3)


def test_changes_run_from_one_cycle_to_the_other(seed: Report) -> None:
    plain = made.report(made.decode_bucket(11.1))
    comparison = compare_reports(plain, seed, tool=seed.tool)
    sides, changes = comparison_charts(comparison, 0)
    for chart in (sides, changes):
        go.Figure(drawing(chart))
    (bars,) = changes.traces
    pair = comparison.buckets[0]
    assert pair.period_ns.ratio is not None
    end = bars["base"][-2] + bars["x"][-2]
    assert end == pytest.approx(pair.period_ns.ratio.value)
    assert bars["x"][-1] == pair.period_ns.ratio.value
    assert sides.traces[1]["x"][-1] == pytest.approx(seed.buckets[0].period_ns.mean / _MS)
