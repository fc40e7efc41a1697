"""`python -m traceanalyzer.simulation`: what it writes, and what it says when it cannot."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.harness import REPOSITORY
from traceanalyzer.simulation.__main__ import main


def test_runs_as_a_module(tmp_path):
    command = [sys.executable, "-m", "traceanalyzer.simulation", str(tmp_path / "t.sqlite")]
    done = subprocess.run(
        [*command, "--preset", "small", "--cycles", "3"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.sqlite", "t.truth.json"]


@pytest.mark.parametrize(
    ("options", "ranks", "cycles", "graph_rows"),
    [
        ([], 2, 12, False),
        (["--ranks", "3", "--cycles", "4"], 3, 4, False),
        (["--graph-mode", "graph"], 2, 12, True),
        (["--graph-mode", "eager", "--set", "layers=1"], 2, 12, False),
    ],
)
def test_truth_beside_the_trace_fits_the_options(options, ranks, cycles, graph_rows, tmp_path):
    out = tmp_path / "t.sqlite"
    assert main([str(out), "--preset", "small", *options]) == 0
    truth = json.loads((tmp_path / "t.truth.json").read_text())
    assert len(truth["ranks"]) == ranks
    assert all(len(rank["cycles"]) == cycles for rank in truth["ranks"])
    kernels = sum(phase["kernels"] for rank in truth["ranks"] for phase in rank["phases"].values())
    with closing(sqlite3.connect(out)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        counted = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    assert counted == (kernels,)
    assert ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in names) is graph_rows
    assert ("META_DATA_EXPORT" in names) is graph_rows


@pytest.mark.parametrize(
    ("name", "options", "truth"),
    [
        ("folder", ["--format", "parquetdir"], "folder.truth.json"),
        ("t.json.gz", ["--format", "kineto", "--ranks", "1"], "t.truth.json"),
        ("t.json", ["--format", "kineto", "--ranks", "1"], "t.truth.json"),
    ],
)
def test_other_formats(name, options, truth, tmp_path):
    assert main([str(tmp_path / name), "--preset", "small", "--cycles", "2", *options]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, truth])


def test_truth_can_count_cycles_instead_of_listing_them(tmp_path):
    arguments = [str(tmp_path / "t.sqlite"), "--preset", "small"]
    assert main(arguments) == 0
    listed = json.loads((tmp_path / "t.truth.json").read_text())
    assert main([*arguments, "--truth-totals", "--force"]) == 0
    counted = json.loads((tmp_path / "t.truth.json").read_text())
    for rank, short in zip(listed["ranks"], counted["ranks"], strict=True):
        states = [cycle["status"] for cycle in rank.pop("cycles")]
        assert short.pop("cycles") == {state: states.count(state) for state in states}
    assert counted == listed


def test_truth_can_list_every_op(tmp_path):
    arguments = [str(tmp_path / "t.sqlite"), "--preset", "small", "--cycles", "2", "--truth-ops"]
    assert main(arguments) == 0
    rank = json.loads((tmp_path / "t.truth.json").read_text())["ranks"][0]
    assert len(rank["ops"]) == sum(phase["ops"] for phase in rank["phases"].values())


def test_a_trace_that_is_there_is_replaced_only_by_force(tmp_path, capsys):
    out = tmp_path / "t.sqlite"
    out.write_text("a real trace")
    arguments = [str(out), "--preset", "small", "--cycles", "2"]
    assert main(arguments) == 2
    assert out.read_text() == "a real trace"
    assert "is there already" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
    assert out.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranks", "0"], "ranks: must be between 1 and 1024, not 0"),
        (["--set", "wings=2"], "no such setting: wings"),
        (["--set", "layers=many"], "--set layers: not a int: 'many'"),
        (["--set", "marks=perhaps"], "--set marks: not a bool: 'perhaps'"),
        (["--set", "verify_ms=0.001"], "verify_ms: "),
        (["--graph-mode", "graph", "--flavour", "2022.4"], "no table for whole-graph rows"),
        (["--format", "kineto"], "a Kineto trace holds one process, this recording 2"),
    ],
)
def test_says_what_is_wrong(options, message, tmp_path, capsys):
    assert main([str(tmp_path / "t.sqlite"), "--preset", "small", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert list(tmp_path.iterdir()) == []


def test_needs_a_file_and_its_folder(tmp_path, capsys):
    assert main([]) == 2
    assert "no file to write" in capsys.readouterr().err
    assert main([str(tmp_path / "none" / "t.sqlite")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_folder_in_the_way_is_not_removed(tmp_path, capsys):
    (tmp_path / "t.sqlite").mkdir()
    arguments = [str(tmp_path / "t.sqlite"), "--preset", "small", "--cycles", "2", "--force"]
    assert main(arguments) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert (tmp_path / "t.sqlite").is_dir()
