"""`report --totals --shares` and `capture --two-pass`, from the command line."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.commands import fake_nsys
from traceanalyzer.simulation import (
    NSYS_2025_5,
    Eagle3Settings,
    eagle3_server,
    write_nsys_sqlite,
)
from traceanalyzer.simulation.presets import tiny

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Cli


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both passes of a small server."""
    folder = tmp_path_factory.mktemp("passes")
    server = replace(
        tiny(), cycles=12, lag_cycles=1, verify_ms=3.0, draft_ms=0.5, draft_extend_ms=0.5
    )
    modes: dict[str, Eagle3Settings] = {
        "graph": replace(server, graph_mode="graph", seed=2),
        "node": replace(server, node_overhead_us=0.5, replay_overhead_us=4.0),
    }
    for mode, settings in modes.items():
        write_nsys_sqlite(eagle3_server(settings), folder / f"{mode}.sqlite", NSYS_2025_5)
    return folder


def test_times_are_those_of_one_pass_and_classes_those_of_the_other(passes: Path, cli: Cli) -> None:
    totals, shares = passes / "graph.sqlite", passes / "node.sqlite"
    alone = json.loads(cli("report", totals, "--format", "json").stdout)
    done = cli("report", "--totals", totals, "--shares", shares, "--format", "json")
    assert done.exit_code == 0, done.stderr
    both = json.loads(done.stdout)
    assert both["ranks"] == alone["ranks"]
    assert both["acceptance"] == alone["acceptance"]
    phases = {row["phase"]: row for row in both["buckets"][0]["phases"]}
    before = {row["phase"]: row for row in alone["buckets"][0]["phases"]}
    assert not before["verify"]["classes"]
    assert phases["verify"]["classes"]
    for name, row in phases.items():
        assert row["window_ns"] == before[name]["window_ns"]
    assert both["node_recording"]["shares_from"] == str(shares)


def test_written_reports_do_as_well_as_traces(passes: Path, cli: Cli, tmp_path: Path) -> None:
    named = {}
    for mode in ("graph", "node"):
        named[mode] = tmp_path / f"{mode}.json"
        cli("report", passes / f"{mode}.sqlite", "-o", named[mode])
    written = cli("report", "--totals", named["graph"], "--shares", named["node"])
    traces = cli("report", "--totals", passes / "graph.sqlite", "--shares", passes / "node.sqlite")
    assert written.exit_code == 0, written.stderr
    assert written.stdout == traces.stdout


def test_a_baseline_of_two_passes_says_why_verify_is_dearer(
    passes: Path, cli: Cli, tmp_path: Path
) -> None:
    step = replace(tiny(), cycles=12, lag_cycles=1, draft_tokens=0)
    modes = {"graph": replace(step, graph_mode="graph"), "node": replace(step, seed=4)}
    for mode, settings in modes.items():
        write_nsys_sqlite(eagle3_server(settings), tmp_path / f"{mode}.sqlite", NSYS_2025_5)
    plain = tmp_path / "plain.json"
    cli(
        *("report", "--totals", tmp_path / "graph.sqlite"),
        *("--shares", tmp_path / "node.sqlite", "-o", plain),
    )
    both = ("report", "--totals", passes / "graph.sqlite", "--shares", passes / "node.sqlite")
    done = cli(*both, "--baseline", plain, "--format", "json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    growth = report["verdict"]["buckets"][0]["growth"]
    target = sum(
        row["whole_window_ns"]["value"] if row["whole_window_ns"] else row["class_window_ns"]
        for row in report["buckets"][0]["phases"]
        if row["phase"] in ("verify", "sample")
    )
    assert sum(row["verify_ns"] for row in growth) == pytest.approx(target)
    kernels = [row for row in growth if row["kernels"]]
    assert kernels, "the shares' kernels stand for those of the totals"
    for row in kernels:
        together = sum(each["verify_ns"] for each in row["kernels"])
        assert together == pytest.approx(row["verify_ns"])
    (step_bucket,) = json.loads(plain.read_text())["buckets"]
    step_ns = sum(
        row["class_window_ns"] for row in step_bucket["phases"] if row["phase"] == "decode"
    )
    assert sum(row["decode_ns"] for row in growth) == pytest.approx(step_ns)


@pytest.mark.parametrize(("form", "title"), [("terminal", "Node recording"), ("markdown", "## N")])
def test_the_report_says_what_recording_nodes_cost(
    form: str, title: str, passes: Path, cli: Cli
) -> None:
    done = cli(
        *("report", "--totals", passes / "graph.sqlite", "--shares", passes / "node.sqlite"),
        *("--format", form),
    )
    assert title in done.stdout
    assert "us a node" in done.stdout
    assert "whole-graph rows: busy blocks" not in done.stdout


def test_a_pass_with_wholes_alone_says_what_nodes_would_add(passes: Path, cli: Cli) -> None:
    text = " ".join(cli("report", passes / "graph.sqlite").stdout.split())
    assert "graph launches a cycle" in text
    assert "0.5-3 us a node, as assumed" in text
    assert "capture --two-pass" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["report"], "Missing argument"),
        (["report", "--totals", "graph.sqlite"], "go together"),
        (["report", "x", "--totals", "graph.sqlite", "--shares", "node.sqlite"], "not both"),
        (["report", "--totals", "node.sqlite", "--shares", "node.sqlite"], "no cycle of this"),
        (["report", "--totals", "graph.sqlite", "--shares", "graph.sqlite"], "no cycle of this"),
    ],
)
def test_what_are_not_two_passes_is_refused(
    arguments: list[str], told: str, passes: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(passes)
    done = cli(*arguments)
    assert done.exit_code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


def capture(out: Path, nsys: Path, *arguments: str) -> list[str | Path]:
    return ["capture", "--no-hooks", "--nsys", nsys, "-o", out, "--two-pass", *arguments]


def exits(code: int) -> list[str]:
    return ["--", sys.executable, "-S", "-c", f"raise SystemExit({code})"]


def test_a_capture_in_two_passes_is_one_report(
    passes: Path, tools: Path, tmp_path: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, "whole", passes)
    done = cli(*capture(tmp_path / "run", nsys, *exits(0)))
    assert done.exit_code == 0, done.stderr
    assert "Node recording" in done.stdout
    assert done.stdout.count("Can it be trusted?") == 1
    left = sorted(path.name for path in tmp_path.glob("run*"))
    assert left == ["run-shares.nsys-rep", "run-totals.nsys-rep"]


def test_a_first_pass_that_fails_ends_it_all(
    passes: Path, tools: Path, tmp_path: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, "whole", passes)
    done = cli(*capture(tmp_path / "run", nsys, *exits(7)))
    assert done.exit_code == 7
    assert "kept" in done.stderr
    assert [path.name for path in tmp_path.glob("run*")] == ["run-totals.nsys-rep"]


def test_both_command_lines_are_printed_when_asked(tools: Path, tmp_path: Path, cli: Cli) -> None:
    nsys = fake_nsys.install(tools, "whole")
    done = cli(*capture(tmp_path / "run", nsys, "--print", *exits(0)))
    first, second = done.stdout.splitlines()
    assert "--cuda-graph-trace=graph" in first
    assert "--cuda-graph-trace=node" in second
    assert not list(tmp_path.glob("run*"))


@pytest.mark.parametrize(
    "option",
    [["--no-cuda"], ["--graphs", "graph"], ["--untraced-check", "90"], ["--window", "until:x"]],
)
def test_what_makes_no_two_passes_is_refused(
    option: list[str], tools: Path, tmp_path: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, "whole")
    done = cli(*capture(tmp_path / "run", nsys, *option, *exits(0)))
    assert done.exit_code == 2
    assert option[0] in done.stderr
    assert not list(tmp_path.glob("run*"))
