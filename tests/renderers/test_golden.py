"""Every form of the report of two small captures, as it is in tests/golden.

TRACEANALYZER_UPDATE_GOLDEN=1 writes them anew: read the difference before you keep it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import traceanalyzer
from tests.harness import REPOSITORY, SAMPLE_TRACES
from tests.renderers import scenes
from traceanalyzer import Report, analyze, load
from traceanalyzer.analyses.range_tables import kernel_table, range_table
from traceanalyzer.pipeline import AnalysisOptions
from traceanalyzer.renderers.csv_tables import render_csv
from traceanalyzer.renderers.markdown import render_markdown
from traceanalyzer.renderers.tables import render_table
from traceanalyzer.renderers.terminal import render_terminal
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from traceanalyzer import Trace

GOLDEN = REPOSITORY / "tests" / "golden"
SCENES = {"two_ranks": scenes.two_ranks, "graphs": scenes.graphs}


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def trace(scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.chdir(tmp_path)
    return load(SCENES[scene]().write_sqlite(Path(f"{scene}.sqlite")))


def assert_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    text = text.replace(traceanalyzer.__version__, "VERSION")
    if os.environ.get("TRACEANALYZER_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_terminal(scene: str, trace: Trace) -> None:
    assert_golden(f"{scene}.txt", render_terminal(analyze(trace), plain=True))


def test_markdown(scene: str, trace: Trace) -> None:
    assert_golden(f"{scene}.md", render_markdown(analyze(trace)))


def test_csv(scene: str, trace: Trace) -> None:
    assert_golden(f"{scene}.csv", render_csv(analyze(trace)))


def test_json(scene: str, trace: Trace) -> None:
    assert_golden(f"{scene}.json", analyze(trace).to_json().decode() + "\n")


def test_ranges(scene: str, trace: Trace) -> None:
    rules = AnalysisOptions().rules()
    for kind, table in (("ranges", range_table(trace, rules)), ("kernels", kernel_table(trace))):
        for form, suffix in (("terminal", "txt"), ("csv", "csv")):
            text = render_table(table, form, plain=True).decode()
            assert_golden(f"{scene}.{kind}.{suffix}", text)


def windows(report: Report, rank: int) -> dict[str, float]:
    """Mean window of each phase, ns."""
    return {
        phase.phase: phase.window_ns_per_cycle.mean
        for phase in report.ranks[rank].phases
        if phase.window_ns_per_cycle and phase.window_ns_per_cycle.mean
    }


def gaps(report: Report, rank: int) -> dict[tuple[str, str], float]:
    """Mean gap of each phase and cause, ns."""
    return {
        (phase.phase, gap.cause): gap.ns_per_cycle
        for phase in report.ranks[rank].phases
        for gap in phase.gaps
        if gap.ns_per_cycle
    }


def test_figures_of_two_ranks_are_those_on_paper(tmp_path: Path) -> None:
    report = analyze(load(scenes.two_ranks().write_sqlite(tmp_path / "trace.sqlite")))
    assert [rank.cycles.kept for rank in report.ranks] == [3, 3]
    assert windows(report, 0) == {
        "draft": 330_000,
        "verify": 540_000,
        "sample": 50_000,
        "draft_extend": 50_000,
    }
    assert windows(report, 1) == {
        "draft": 330_000,
        "verify": 520_000,
        "sample": 50_000,
        "draft_extend": 70_000,
    }
    shared = {
        ("draft", "host late"): 50_000,
        ("draft", "launch latency"): 60_000,
        ("draft", "dependency"): 50_000,
        ("verify", "synchronisation"): 140_000,
    }
    assert gaps(report, 0) == shared
    assert gaps(report, 1) == {**shared, ("draft_extend", "launch latency"): 20_000}
    (bucket,) = report.buckets
    assert (bucket.cycles, bucket.period_ns.mean, bucket.overlap_ns_per_cycle) == (
        6,
        1_000_000,
        30_000,
    )


def test_figures_of_graphs_are_those_on_paper(tmp_path: Path) -> None:
    report = analyze(load(scenes.graphs().write_sqlite(tmp_path / "trace.sqlite")))
    (rank,) = report.ranks
    cycles = rank.cycles
    assert (cycles.kept, cycles.dropped.interrupted, cycles.dropped.edge) == (4, 1, 2)
    phases = {phase.phase: phase for phase in rank.phases}
    assert (phases["verify"].graph_rows, phases["verify"].graph_row_ns) == (7, 4_200_000)
    assert (phases["draft"].kernels, phases["draft"].graph_launches) == (21, 7)
    assert phases["prefill"].busy_ns == 40_000
    assert phases["other"].kernel_ns == 10_000
    assert phases["unattributed"].kernel_ns == 10_000
    assert rank.coverage.not_collected == 1
    assert {method.method: method.busy_ns for method in rank.coverage.by_method} == {
        "launch in range": 40_000,
        "graph launch in range": 1_050_000,
        "whole-graph row": 4_200_000,
        "capture-time range": 0,
        "launched outside ranges": 10_000,
        "no launch row": 10_000,
    }
    assert sorted(bucket.cycles for bucket in report.buckets) == [2, 2]


SEED = SAMPLE_TRACES / "seed_case.sqlite"


@pytest.fixture(scope="module")
def judged_seed() -> Report:
    """The worked case against its baseline, as the README shows it."""
    baseline = measured_baseline(analyze(load(SAMPLE_TRACES / "seed_baseline_parquetdir")))
    report = analyze(load(SEED), AnalysisOptions(known=Known(baseline=baseline, tokens_per_s=71)))
    files = [replace(file, path=Path(file.path).name) for file in report.capture.files]
    return replace(report, capture=replace(report.capture, files=files))


def test_first_screen_of_the_worked_case(judged_seed: Report) -> None:
    assert_golden("seed_case.txt", render_terminal(judged_seed, plain=True))


def test_markdown_of_the_worked_case(judged_seed: Report) -> None:
    assert_golden("seed_case.md", render_markdown(judged_seed))


def test_the_worked_case_is_equal_after_a_trip_through_json(judged_seed: Report) -> None:
    assert Report.from_json(judged_seed.to_json()) == judged_seed
