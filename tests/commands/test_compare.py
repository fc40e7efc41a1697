"""`traceanalyzer compare` on simulated servers: forms, inputs, the gate, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands.test_report import assert_tables
from traceanalyzer.report.comparison import Comparison
from traceanalyzer.simulation import (
    NSYS_2022_4,
    Eagle3Settings,
    eagle3_server,
    write_kineto,
    write_nsys_sqlite,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Cli

SMALL = replace(Eagle3Settings.small(), ranks=1, cycles=24, prefill_every=0, straddle_every=0)
SERVERS = {
    "before": SMALL,
    "after": replace(SMALL, verify_ms=3.4, seed=2),
    "plain": replace(SMALL, draft_tokens=0),
    "timed": replace(SMALL, synchronise=True),
    "unmarked": replace(SMALL, marks=False),
    "batch two": replace(SMALL, batch_sizes=(2,)),
    "other gpu": replace(SMALL, gpu="rtx_pro_6000"),
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each server's trace; `torch` is that of torch.profiler."""
    folder = tmp_path_factory.mktemp("traces")
    paths = {name: folder / f"{name}.sqlite" for name in SERVERS}
    for name, settings in SERVERS.items():
        write_nsys_sqlite(eagle3_server(settings), paths[name], NSYS_2022_4)
    paths["torch"] = folder / "torch.json.gz"
    write_kineto(eagle3_server(SMALL), paths["torch"])
    return paths


def compared(cli: Cli, *arguments: str | Path) -> dict[str, Any]:
    result = cli("compare", *arguments, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert Comparison.from_json(result.stdout.encode())
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_what_was_changed_in_the_server_is_found(traces: dict[str, Path], cli: Cli) -> None:
    found = compared(cli, traces["before"], traces["after"])
    (pair,) = found["buckets"]
    verify = next(each for each in pair["phases"] if each["phase_a"] == "verify")
    asked = (3.4 - SMALL.sample_ms) / (SMALL.verify_ms - SMALL.sample_ms)
    assert verify["ns_per_cycle"]["ratio"]["low"] < asked < verify["ns_per_cycle"]["ratio"]["high"]
    assert "verify +" in found["summary"]
    assert [each["files"] for each in (found["a"], found["b"])] == [
        [str(traces["before"])],
        [str(traces["after"])],
    ]


def test_a_report_stands_for_its_trace(traces: dict[str, Path], cli: Cli, tmp_path: Path) -> None:
    report = tmp_path / "stored"  # what it is, its content tells
    assert cli("report", traces["before"], "--format", "json", "-o", report).exit_code == 0
    wanted = compared(cli, traces["before"], traces["after"])
    assert compared(cli, report, traces["after"]) == wanted
    folder = tmp_path / "ranks"
    folder.mkdir()
    shutil.copy(traces["before"], folder / "before.sqlite")
    of_folder = compared(cli, folder, traces["after"])
    assert of_folder["summary"] == wanted["summary"]


def test_forms(traces: dict[str, Path], cli: Cli, tmp_path: Path) -> None:
    pair = traces["before"], traces["after"]
    shown = cli("compare", *pair)
    assert (shown.exit_code, shown.stderr) == (0, "")
    summary = compared(cli, *pair)["summary"]
    assert summary[:30] in shown.stdout
    markdown = cli("compare", *pair, "--format", "markdown").stdout
    assert_tables(markdown)
    assert "| verify |" in markdown
    for name, wanted in (("c.md", markdown), ("c.txt", shown.stdout)):
        assert cli("compare", *pair, "-o", tmp_path / name).exit_code == 0
        assert (tmp_path / name).read_text() == wanted


def test_speculation_off_against_on(traces: dict[str, Path], cli: Cli) -> None:
    found = compared(cli, traces["plain"], traces["before"])
    (pair,) = found["buckets"]
    assert pair["relation"] == "speculation"
    window = next(each for each in pair["phases"] if each["phase_a"] == "decode")
    assert window["phase_b"] == "verify"
    asked = (SMALL.verify_ms - SMALL.sample_ms) / (SMALL.decode_ms - SMALL.sample_ms)
    assert window["ns_per_cycle"]["ratio"]["value"] == pytest.approx(asked, rel=0.05)
    shown = cli("compare", traces["plain"], traces["before"]).stdout
    assert "speculation off against on" in shown


def test_torch_profiler_traces_compare_too(traces: dict[str, Path], cli: Cli) -> None:
    found = compared(cli, traces["torch"], traces["before"])
    (pair,) = found["buckets"]
    assert pair["period_ns"]["ratio"]["value"] == pytest.approx(1, rel=0.02)
    assert "profiler" in [each["obstacle"] for each in found["obstacles"]]


@pytest.mark.parametrize(
    ("other", "obstacle"),
    [("timed", "synchronisation"), ("batch two", "shape"), ("other gpu", "GPUs")],
)
def test_captures_that_are_not_comparable_fail_the_gate_alone(
    other: str, obstacle: str, traces: dict[str, Path], cli: Cli
) -> None:
    found = compared(cli, traces["before"], traces[other])
    assert found["outcome"] == "not comparable"
    assert obstacle in [each["obstacle"] for each in found["obstacles"] if each["blocks"]]
    pair = traces["before"], traces[other]
    assert "Not comparable" in cli("compare", *pair).stdout
    result = cli("compare", *pair, "--fail-on-regression", "5%")
    assert result.exit_code == 3
    assert "cannot be ruled out" in result.stderr


@pytest.mark.parametrize(("allowed", "code"), [("5%", 3), ("5 %", 3), ("0.05", 3), ("30%", 0)])
def test_the_gate(
    allowed: str, code: int, traces: dict[str, Path], cli: Cli, tmp_path: Path
) -> None:
    """Accept lengths by number: only the cycle is in doubt, and it is a fifth longer."""
    slow = tmp_path / "slow.sqlite"
    write_nsys_sqlite(eagle3_server(replace(SMALL, verify_ms=3.5, marks=False)), slow, NSYS_2022_4)
    given = ("--accept-len-a", "2", "--accept-len-b", "2")
    pair = traces["unmarked"], slow
    result = cli("compare", *pair, *given, "--fail-on-regression", allowed)
    assert result.exit_code == code
    assert "net -" in result.stdout, "the comparison is printed all the same"
    if code:
        assert "allowed" in result.stderr
        assert "tokens/s" in result.stderr
    faster = cli("compare", *reversed(pair), *given, "--fail-on-regression", allowed)
    assert (faster.exit_code, faster.stderr) == (0, "")


def test_a_doubtful_loss_is_told_and_passes(traces: dict[str, Path], cli: Cli) -> None:
    result = cli("compare", traces["before"], traces["after"], "--fail-on-regression", "1%")
    found = compared(cli, traces["before"], traces["after"])
    ratio = found["buckets"][0]["tokens_per_s"]["ratio"]
    assert ratio["value"] < 0.99 < ratio["high"]
    assert result.exit_code == 0
    assert "not sure" in result.stderr


def test_unmarked_cycles_need_an_accept_len(traces: dict[str, Path], cli: Cli) -> None:
    pair = traces["unmarked"], traces["before"]
    assert "net unknown" in compared(cli, *pair)["summary"]
    assert "net unknown" not in compared(cli, *pair, "--accept-len-a", "1.7")["summary"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "TRACE"),
        (("before",), "two captures"),
        (("before", "after", "plain"), "two captures"),
        (("before", "missing.sqlite"), "missing.sqlite"),
        (("before", ""), "empty"),
        (("before", "after", "--fail-on-regression", "5"), "5% or 0.05"),
        (("before", "after", "--fail-on-regression", "100%"), "5% or 0.05"),
        (("before", "after", "--fail-on-regression", "-5%"), "5% or 0.05"),
        (("before", "after", "--fail-on-regression", "nan"), "5% or 0.05"),
        (("before", "after", "--fail-on-regression", ""), "5% or 0.05"),
        (("before", "after", "--accept-len-a", "2"), "--accept-len-a"),
        (("unmarked", "after", "--accept-len-a", "0.98"), "bonus"),
        (("unmarked", "after", "--accept-len-a", "0"), "--accept-len-a"),
        (("before", "after", "--format", "csv"), "csv"),
        (("before", "after", "--phases", "missing.toml"), "missing.toml"),
        (("before", "after", "-o", "before"), "a trace that is read"),
    ],
)
def test_bad_input_is_told_and_exits_with_2(
    arguments: tuple[str, ...], told: str, traces: dict[str, Path], cli: Cli
) -> None:
    given = [traces.get(each, each) for each in arguments]
    result = cli("compare", *given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_a_damaged_report_is_named(traces: dict[str, Path], cli: Cli, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    cli("report", traces["before"], "-o", report)
    whole = report.read_text()
    for text in (whole[:2000], whole.replace('"schema_version": 1', '"schema_version": 99', 1)):
        report.write_text(text)
        result = cli("compare", report, traces["after"])
        assert (result.exit_code, result.stdout) == (2, "")
        assert str(report) in result.stderr
    comparison = tmp_path / "comparison.json"
    cli("compare", traces["before"], traces["after"], "-o", comparison)
    result = cli("compare", comparison, traces["after"])
    assert result.exit_code == 2
    assert str(comparison) in result.stderr


def test_hostile_names_steer_nothing(traces: dict[str, Path], cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "[b]o|d`d\x1b[31m\\[b]"
    folder.mkdir()
    path = folder / "tr[red]ace.sqlite"
    shutil.copy(traces["before"], path)
    for form in ("terminal", "markdown", "json"):
        result = cli("compare", path, traces["after"], "--format", form)
        assert (result.exit_code, result.stderr) == (0, "")
        assert all(char.isprintable() or char == "\n" for char in result.stdout)
    assert_tables(cli("compare", path, traces["after"], "--format", "markdown").stdout)
