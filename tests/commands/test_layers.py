"""`report --layers-from`: draft steps and layers of another capture, and what is said without."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from traceanalyzer import analyze, load
from traceanalyzer.pipeline import AnalysisOptions
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

SERVER = replace(tiny(), layers=5, cycles=12, lag_cycles=1, inner_ranges=True)
WITHOUT = replace(SERVER, capture_recorded=False, seed=2)
LONGER = replace(WITHOUT, verify_ms=3.0, draft_ms=0.5, draft_extend_ms=0.5)
CAPTURES: dict[str, Eagle3Settings] = {
    "known": replace(SERVER, capture_recorded=True),
    "replays": WITHOUT,
    "deeper": replace(WITHOUT, layers=6),
    "totals": replace(LONGER, graph_mode="graph", seed=3),
    "shares": replace(LONGER, node_overhead_us=0.5, replay_overhead_us=4.0),
}
FORMATS = ("terminal", "markdown", "html")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of simulated captures; one holds the construction of the server's graphs."""
    folder = tmp_path_factory.mktemp("captures")
    for name, settings in CAPTURES.items():
        write_nsys_sqlite(eagle3_server(settings), folder / f"{name}.sqlite", NSYS_2025_5)
    return folder


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("form", FORMATS)
def test_without_lineage_the_report_says_so_and_how_to_record_it(
    form: str, captures: Path, cli: Cli
) -> None:
    without = one_line(cli("report", captures / "replays.sqlite", "--format", form).stdout)
    assert "Phase at replay only" in without
    assert "--cuda-graph-trace=node:nvtx-precapture" in without
    assert "--layers-from TRACE" in without
    known = one_line(cli("report", captures / "known.sqlite", "--format", form).stdout)
    assert "Phase at replay only" not in known


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_carried_over_is_marked_with_its_source_and_score(
    form: str, captures: Path, cli: Cli
) -> None:
    known, replays = captures / "known.sqlite", captures / "replays.sqlite"
    done = cli("report", replays, "--layers-from", known, "--format", form)
    assert done.exit_code == 0, done.stderr
    text = one_line(done.stdout)
    assert "draft 0 (carried over)" in text
    assert "verify at batch 1: 5 layers" in text
    assert "by the order of kernels, 100.0 % of which match" in text
    assert known.name in text
    assert "Phase at replay only" not in text


def test_tables_are_those_that_ranges_of_its_own_would_give(captures: Path, cli: Cli) -> None:
    known, replays = captures / "known.sqlite", captures / "replays.sqlite"
    done = cli("report", replays, "--layers-from", known, "--format", "json")
    report = json.loads(done.stdout)
    told = json.loads(cli("report", known, "--format", "json").stdout)
    shape = [
        (phases["phase"], phases["part"], [part["number"] for part in phases["parts"]])
        for phases in told["parts"]
    ]
    assert [
        (phases["phase"], phases["part"], [part["number"] for part in phases["parts"]])
        for phases in report["parts"]
    ] == shape
    assert {phases["carried_score"] for phases in report["parts"]} == {1.0}
    assert {phases["carried_score"] for phases in told["parts"]} == {None}
    assert {each["source"] for each in report["carried"]} == {str(known)}
    assert told["carried"] == []
    in_phases = [each for each in report["graphs"] if each["phases"] != ["prefill"]]
    assert {each["inside"] for each in in_phases} == {"order of kernels"}
    assert {row["check"]: row["status"] for row in report["trust"]}["layers"] == "ok"


def test_the_library_takes_the_other_capture_as_an_option(captures: Path) -> None:
    other = load(captures / "known.sqlite")
    report = analyze(load(captures / "replays.sqlite"), AnalysisOptions(layers_from=other))
    assert {phases.carried_score for phases in report.parts} == {1.0}


@pytest.mark.parametrize("form", FORMATS)
def test_a_model_with_other_layers_is_refused_in_a_sentence(
    form: str, captures: Path, cli: Cli
) -> None:
    known, deeper = captures / "known.sqlite", captures / "deeper.sqlite"
    done = cli("report", deeper, "--layers-from", known, "--format", form)
    assert done.exit_code == 0
    text = one_line(done.stdout)
    assert "replays of verify get no draft steps or layers from" in text
    assert "of their kernels match in order" in text
    assert "Record the other capture with the same model" in text
    assert "verify at batch 1" not in text
    assert "Phase at replay only" in text


def test_another_capture_that_lacks_nothing_or_helps_nothing_is_told(
    captures: Path, cli: Cli
) -> None:
    known = captures / "known.sqlite"
    for name in ("known", "totals"):
        done = cli("report", captures / f"{name}.sqlite", "--layers-from", known)
        assert "tells no draft step or layer that a replay" in one_line(done.stdout)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("replays.sqlite", "tells no draft steps or layers of kernels"),
        ("nowhere.sqlite", "nowhere.sqlite"),
        ("host.json", "tells no GPU work"),
        ("report.json", "report.json"),
    ],
)
def test_a_capture_that_tells_nothing_is_refused_with_what_to_record(
    other: str, told: str, captures: Path, cli: Cli
) -> None:
    range_ = {"ph": "X", "cat": "user_annotation", "name": "layer 3", "pid": 1, "tid": 1}
    events = {"traceEvents": [{**range_, "ts": 1.0, "dur": 2.0}]}
    (captures / "host.json").write_text(json.dumps(events))
    cli("report", captures / "known.sqlite", "-o", captures / "report.json")
    done = cli("report", captures / "replays.sqlite", "--layers-from", captures / other)
    assert done.exit_code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    if other in ("replays.sqlite", "host.json"):
        assert "Record one in which ranges tell them" in done.stderr


def two_passes(captures: Path) -> list[str | Path]:
    return [
        *("report", "--totals", captures / "totals.sqlite"),
        *("--shares", captures / "shares.sqlite"),
        *("--layers-from", captures / "known.sqlite"),
    ]


def test_two_passes_take_carried_steps_and_layers_too(captures: Path, cli: Cli) -> None:
    done = cli(*two_passes(captures), "--format", "json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    (verify,) = (each for each in report["parts"] if each["phase"] == "verify")
    assert verify["carried_score"] == 1.0
    assert len(verify["parts"]) == SERVER.layers
    assert all(part["corrected_ns"]["low"] is not None for part in verify["parts"])
    assert [row["check"] for row in report["trust"]].count("layers") == 1
    steps = [each for each in report["parts"] if each["part"] == "draft step"]
    intervals = [
        f"[{part['corrected_ns']['low'] / 1e6:.4f}, {part['corrected_ns']['high'] / 1e6:.4f}]"
        for phases in steps
        for part in phases["parts"]
    ]
    assert len(intervals) == SERVER.draft_tokens - 1
    for form in FORMATS:
        text = one_line(cli(*two_passes(captures), "--format", form).stdout.replace("\\", ""))
        assert [each for each in intervals if each not in text] == []
