"""The comparison with peers at tiny sizes and without peers: traces, truth, measuring, page."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "benchmarks"))

from peers import kineto_growth, nsys_growth, run
from peers.comparison import missing_row
from peers.judging import Error, errors, shown, worst
from peers.measuring import Limits, timed
from peers.page import page
from peers.range_truth import (
    EVERYTHING,
    INCLUSIVE,
    INNERMOST,
    PHASES,
    PROJECTED,
    phase_name,
    truths,
)
from peers.results import Row, Session, merged, read_rows, times_ours, write_rows
from peers.targets import Target, targets
from peers.tools import nsys_stats, ours
from peers.tools.tool import Missing
from peers.traces import KINETO, SQLITE, Wanted, made

from traceanalyzer import analyze, load
from traceanalyzer.simulation import (
    Eagle3Settings,
    eagle3_server,
    write_kineto,
    write_nsys_parquetdir,
    write_nsys_sqlite,
)

if TYPE_CHECKING:
    from pathlib import Path


COPIES = 3
WORK = ("KERNEL", "MEMCPY", "MEMSET")


@pytest.fixture(scope="module")
def settings() -> Eagle3Settings:
    return replace(Eagle3Settings.small(), ranks=2, graph_share=0.5)


def phases_found(path: Path) -> dict[str, float]:
    totals: dict[str, float] = {}
    for rank in analyze(load(path)).ranks:
        for row in rank.phases:
            name = phase_name(row.phase)
            totals[name] = totals.get(name, 0) + row.kernel_ns + row.graph_row_ns
            totals[EVERYTHING] = totals.get(EVERYTHING, 0) + row.kernel_ns + row.graph_row_ns
    return totals


def test_the_command_measures_and_writes_a_page(tmp_path: Path) -> None:
    arguments = ("--folder", str(tmp_path / "made"), "--results", str(tmp_path))
    run.main([*arguments, "--forms", "sqlite", "--sizes", "", "--peers", "none", "--runs", "1"])
    rows = read_rows(tmp_path / "peers.json")
    assert {row.runs for row in rows} == {1}
    assert all(row.cpu_s > 0 and row.peak_mb > 0 and row.failure is None for row in rows)
    (report,) = (row for row in rows if row.tool == ours.REPORT)
    assert report.floor_cpu_s is not None
    assert report.errors
    assert all(error.share == 0 for error in report.errors)
    assert f"| {ours.REPORT} |" in (tmp_path / "peers.md").read_text()


def test_grown_exports_hold_their_truth(tmp_path: Path, settings: Eagle3Settings) -> None:
    small, large = tmp_path / "small.sqlite", tmp_path / "large.sqlite"
    recording = eagle3_server(settings)
    write_nsys_sqlite(recording, small)
    nsys_growth.grow_sqlite(small, large, COPIES, settings.cycles + 1)
    expected = {name: ns * COPIES for name, ns in truths(recording)[PHASES].items()}
    assert phases_found(large) == expected


def test_traces_are_made_once(tmp_path: Path) -> None:
    trace = made(Wanted(SQLITE, 2_000), tmp_path)
    before = trace.path.stat().st_mtime_ns
    assert made(Wanted(SQLITE, 2_000, peers=False), tmp_path) == replace(trace, peers=False)
    assert trace.path.stat().st_mtime_ns == before


def test_repetitions_share_no_id_and_no_time(tmp_path: Path, settings: Eagle3Settings) -> None:
    small, large = tmp_path / "small.sqlite", tmp_path / "large.sqlite"
    write_nsys_sqlite(eagle3_server(settings), small)
    nsys_growth.grow_sqlite(small, large, COPIES, settings.cycles + 1)
    with closing(sqlite3.connect(small)) as one, closing(sqlite3.connect(large)) as three:
        for table in ("RUNTIME", *WORK):
            query = f"SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_{table}"
            count, length = one.execute(query).fetchone()
            assert three.execute(query).fetchone() == (count * COPIES, length * COPIES)
        pairs = (
            "SELECT count(*) FROM (SELECT DISTINCT globalTid, correlationId "
            "FROM CUPTI_ACTIVITY_KIND_RUNTIME)"
        )
        assert three.execute(pairs).fetchone()[0] == COPIES * one.execute(pairs).fetchone()[0]
        cycles = (
            "SELECT count(DISTINCT int64Value) FROM NVTX_EVENTS JOIN StringIds ON id = textId "
            "WHERE value = 'cycle'"
        )
        assert three.execute(cycles).fetchone()[0] == COPIES * one.execute(cycles).fetchone()[0]


def test_both_forms_grow_alike(tmp_path: Path, settings: Eagle3Settings) -> None:
    small, large = tmp_path / "small.sqlite", tmp_path / "large.sqlite"
    recording = eagle3_server(settings)
    write_nsys_sqlite(recording, small)
    write_nsys_parquetdir(recording, tmp_path / "tables")
    nsys_growth.grow_sqlite(small, large, COPIES, settings.cycles + 1)
    step = nsys_growth.step_of(small, settings.cycles + 1)
    nsys_growth.grow_parquetdir(tmp_path / "tables", tmp_path / "grown", COPIES, step)
    with closing(sqlite3.connect(large)) as database:
        for table in (*(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in WORK), "NVTX_EVENTS"):
            rows = database.execute(f"SELECT start, end FROM {table}").fetchall()
            tables = pl.read_parquet(tmp_path / "grown" / f"{table}.parquet")
            assert sorted(rows, key=str) == sorted(tables.select("start", "end").rows(), key=str)


@pytest.mark.parametrize("layout", [None, *kineto_growth.LAYOUTS])
def test_json_grows_in_its_own_layout(
    layout: str | None, tmp_path: Path, settings: Eagle3Settings
) -> None:
    path = tmp_path / "trace.json"
    write_kineto(eagle3_server(replace(settings, ranks=1)), path)
    text = kineto_growth.read_text(path)
    text = text if layout is None else kineto_growth.relaid(text, layout)
    kineto_growth.grow(text, path, COPIES, settings.cycles + 1)
    grown = path.read_text()
    small, large = (json.loads(each)["traceEvents"] for each in (text, grown))
    kernels = [
        [event for event in events if event.get("cat") == "kernel"] for events in (small, large)
    ]
    assert len(kernels[1]) == COPIES * len(kernels[0])
    ids = [{event["args"]["correlation"] for event in each} for each in kernels]
    assert len(ids[1]) == COPIES * len(ids[0])
    starts = [event["ts"] for event in kernels[1]]
    assert starts[: len(kernels[0])] == [event["ts"] for event in kernels[0]]
    assert len(set(starts)) > 2 * len(kernels[0])
    if layout is not None:  # Kineto's own layout mixes two
        assert json.dumps(json.loads(grown), **kineto_growth.LAYOUTS[layout]) == grown


def test_grown_json_holds_its_truth(tmp_path: Path) -> None:
    trace = made(Wanted(KINETO, 3, layout="minified"), tmp_path)
    assert phases_found(trace.path) == trace.truth[PHASES]


def test_truth_of_each_question_fits_the_phases(tmp_path: Path) -> None:
    truth = made(Wanted(SQLITE, 2_000), tmp_path).truth
    phases = truth[PHASES]
    assert truth[INCLUSIVE]["verify"] == phases["verify"] + phases["sample"]
    assert truth[INNERMOST]["sample"] == truth[INCLUSIVE]["sample"] == phases["sample"]
    assert truth[INCLUSIVE]["draft"] == truth[INNERMOST]["draft"] + truth[INNERMOST]["draft.step"]
    assert truth[PROJECTED].keys() <= truth[INCLUSIVE].keys()


def test_a_range_that_a_tool_does_not_list_is_wholly_wrong() -> None:
    rows = errors({"verify": 2e6, "draft": 3e6}, {"verify": 2e6, "draft": 2e6, "sample": 1e6})
    assert [(row.name, row.share) for row in rows] == [
        ("draft", 0.5),
        ("verify", 0.0),
        ("sample", -1.0),
    ]
    assert shown(rows) == Error("verify", 2.0, 2.0)
    assert worst(rows) == Error("sample", None, 1.0)
    assert shown([]) is worst([]) is None


def row(tool: str, cpu_s: float, floor_cpu_s: float, date: str, trace: Wanted) -> Row:
    session = Session(date, "c", "m")
    size = int(trace.size)
    figures = (3, cpu_s, cpu_s, 700.0, floor_cpu_s, session)
    return Row(trace.name, trace.form, size, 1.0, tool, "1.0", *figures)


def test_rows_of_two_runs_meet_through_what_reading_took(tmp_path: Path) -> None:
    """The machine was half as fast when the peer ran."""
    trace = Wanted(SQLITE, 2e6)
    before = [row(ours.REPORT, 20, 4, "1", trace), row("nsys-ai", 200, 4, "1", trace)]
    assert times_ours(before[1], before[0]) == 10
    later = row(ours.REPORT, 5, 2, "2", trace)
    assert times_ours(before[1], later) == 20
    write_rows(tmp_path / "rows.json", merged(before, [later]))
    kept = read_rows(tmp_path / "rows.json")
    assert sorted(kept, key=lambda one: one.tool) == [before[1], later]
    (ratio,) = (target for target in targets(kept) if "nsys-ai" in target.text)
    assert (ratio.measured, ratio.holds) == (20, False)
    assert "not measured" in page(kept)


def test_a_missing_tool_is_a_row_until_it_is_there(tmp_path: Path) -> None:
    trace = made(Wanted(SQLITE, 2_000), tmp_path)
    tool = Missing("nsys-ai", (SQLITE,), "not installed: no such thing")
    absent = missing_row(trace, tool, Session("1", "c", "m"))
    assert "| nsys-ai | | | | | | | | not installed: no such thing | 1 |" in page([absent])
    there = row("nsys-ai", 20, 4, "2", Wanted(SQLITE, 2_000))
    assert merged([absent], [there]) == [there]


def test_bounds() -> None:
    assert Target("", 2, 2, at_least=True, unit="x").holds
    assert Target("", 2, 1.9, at_least=True, unit="x").holds is False
    assert Target("", 2, 2, at_least=False, unit="x").holds
    assert Target("", 2, 2.1, at_least=False, unit="x").holds is False
    assert Target("", 2, None, at_least=False, unit="x").holds is None


def test_a_tool_that_is_not_there_is_a_row() -> None:
    (tool,) = nsys_stats.tools(["no-such-nsys"])
    assert isinstance(tool, Missing)
    assert tool.reason == "not installed: no no-such-nsys"


def test_failures_are_told(tmp_path: Path) -> None:
    program = "import sys; sys.exit('no such table')"
    failed = timed([sys.executable, "-c", program], tmp_path, Limits())
    assert failed.failure == "exit code 1: no such table"
    slow = timed(["sleep", "60"], tmp_path, Limits(wall_s=0.2))
    assert slow.failure == "stopped after 0 s"
    big = timed([sys.executable, "-c", "bytes(2 * 10**9)"], tmp_path, Limits(memory_gb=1))
    assert big.failure == "exit code 1: MemoryError"
