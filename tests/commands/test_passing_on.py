"""What is written to be passed on tells no person; the terminal shows what was typed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.harness import SAMPLE_TRACES
from traceanalyzer.commands.passing_on import PassedOn
from traceanalyzer.report import Report

if TYPE_CHECKING:
    from tests.commands.conftest import Cli

SAMPLE = SAMPLE_TRACES / "seed_case.sqlite"
BASELINE = SAMPLE_TRACES / "seed_baseline_parquetdir"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody's home folder with a trace and a baseline; the working directory is another."""
    home = tmp_path / "home" / "zelda"
    (home / "my runs").mkdir(parents=True)
    shutil.copy(SAMPLE, home / "my runs" / "t.sqlite")
    shutil.copytree(BASELINE, home / "my runs" / "base")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return home


@pytest.mark.parametrize(
    ("folder", "given", "shown"),
    [
        ("/runs", "/home/zelda/t.sqlite", "[home]/t.sqlite"),
        ("/runs", "/mnt/home/zelda/a/t.sqlite", "[home]/t.sqlite"),
        ("/runs", "/home/zelda/my runs/t.sqlite", "[home]/t.sqlite"),
        ("/home/zelda/eagle", "../../ganon/t.sqlite", "[home]/t.sqlite"),
        ("/runs", "/runs/run/t.sqlite", "run/t.sqlite"),
        ("/runs", "run/t.sqlite", "run/t.sqlite"),
        ("/runs", "../data/t.sqlite", "../data/t.sqlite"),
        ("/runs", "/data/t.sqlite", "/data/t.sqlite"),
        ("/runs", "/data/link/t.sqlite", "/data/link/t.sqlite"),
        ("/runs", "/scratch/link/../link/t", "/scratch/link/../link/t"),
        ("/home/zelda/eagle", "/home/zelda/eagle/run/t.sqlite", "run/t.sqlite"),
        ("/home/zelda/eagle", "/home/zelda/t.sqlite", "[home]/t.sqlite"),
        ("/home/zelda/eagle", "../t.sqlite", "[home]/t.sqlite"),
        ("/home/zelda/eagle", "home/link/t.sqlite", "[home]/t.sqlite"),
        ("/home/zelda", "/home/zelda/t.sqlite", "t.sqlite"),
        ("/home", "/home/zelda/t.sqlite", "[home]/t.sqlite"),
        ("/home", "zelda/t.sqlite", "[home]/t.sqlite"),
        ("/", "/home/zelda/t.sqlite", "[home]/t.sqlite"),
        ("/", "home/zelda/t.sqlite", "[home]/t.sqlite"),
        ("/", "/data/t.sqlite", "data/t.sqlite"),
        ("/runs", "/scratch/ganon/t.sqlite", "/scratch/[somebody]/t.sqlite"),
        ("/scratch", "ganon/t.sqlite", "/scratch/[somebody]/t.sqlite"),
        ("/scratch/ganon", "/scratch/ganon/t.sqlite", "t.sqlite"),
    ],
)
def test_a_path_shows_no_person(
    folder: str, given: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "ganon")
    monkeypatch.setattr(os, "getcwd", lambda: folder)
    told = PassedOn([Path(given)])
    assert told.text(given) == shown
    assert told.text(f"12 cycles of {given}, and more") == f"12 cycles of {shown}, and more"
    assert told.text(shown) == shown


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("HOME", "/data/ganon", "/scratch/[somebody]/tmp/t.sqlite"),
        ("SUDO_USER", "ganon", "/scratch/[somebody]/tmp/t.sqlite"),
        ("HOME", "/tmp", "/scratch/ganon/tmp/t.sqlite"),
        ("USER", "root", "/scratch/ganon/tmp/t.sqlite"),
    ],
)
def test_who_runs_it_is_a_person(
    variable: str, value: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    given = "/scratch/ganon/tmp/t.sqlite"
    assert PassedOn([Path(given)]).text(given) == shown


def test_paths_that_would_look_alike_are_numbered() -> None:
    given = [Path(f"/home/{name}/t.sqlite") for name in ("zelda", "ganon", "zelda")]
    told = PassedOn(given)
    assert [told.text(str(path)) for path in given] == [
        "[home]/t.sqlite",
        "[home]/t.sqlite (2)",
        "[home]/t.sqlite",
    ]


def test_a_text_without_persons_stays_the_same_object() -> None:
    text = "9 decode cycles of run/t.sqlite"
    assert PassedOn([Path("run/t.sqlite"), Path("..")]).text(text) is text


@pytest.mark.parametrize("form", ["json", "markdown", "csv", "html"])
def test_no_form_of_a_report_tells_a_person(form: str, home: Path, cli: Cli) -> None:
    given = ("report", home / "my runs" / "t.sqlite", "--baseline", home / "my runs" / "base")
    printed = cli(*given, "--format", form)
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert "zelda" not in printed.stdout
    if form != "csv":
        assert "t.sqlite" in printed.stdout


def test_files_tell_no_person_and_the_terminal_what_was_typed(home: Path, cli: Cli) -> None:
    trace = home / "my runs" / "t.sqlite"
    shown = cli("report", trace, "--baseline", home / "my runs" / "base", "--html", "r.html")
    assert "zelda" in shown.stdout
    for name in ("r.json", "r.txt", "r.md"):
        assert (
            cli("report", trace, "--baseline", home / "my runs" / "base", "-o", name).stdout == ""
        )
    for name in ("r.html", "r.json", "r.txt", "r.md"):
        assert "zelda" not in Path(name).read_text()
    report = json.loads(Path("r.json").read_text())
    assert report["capture"]["files"][0]["path"] == "[home]/t.sqlite"


def test_other_commands_tell_no_person(home: Path, cli: Cli) -> None:
    trace, base = home / "my runs" / "t.sqlite", home / "my runs" / "base"
    outputs = {
        "c.json": ("compare", trace, trace, "--html", "c.html"),
        "s.json": ("sweep", trace, "--baseline", base, "--html", "s.html"),
        "d.json": ("doctor", trace),
        "d.md": ("doctor", trace),
        "t.html": ("timeline", trace),
        "k.csv": ("ranges", trace),
    }
    for output, command in outputs.items():
        assert cli(*command, "-o", output).exit_code == 0
    written = [*outputs, "c.html", "s.html"]
    assert not [name for name in written if "zelda" in Path(name).read_text()]


def test_exported_tables_tell_no_person(home: Path, cli: Cli) -> None:
    for form in ("parquet", "csv"):
        assert cli("export", home / "my runs" / "t.sqlite", "--to", form, "-o", form).exit_code == 0
    assert pl.read_parquet("parquet/files.parquet")["path"].to_list() == ["[home]/t.sqlite"]
    assert pl.read_csv("csv/files.csv")["path"].to_list() == ["[home]/t.sqlite"]
    assert cli("report", "parquet").exit_code == 0


def test_written_reports_are_as_good_as_traces(home: Path, cli: Cli) -> None:
    trace, base = home / "my runs" / "t.sqlite", home / "my runs" / "base"
    for output, capture in (("a.json", trace), ("b.json", base)):
        assert cli("report", capture, "-o", output).exit_code == 0
    stored = cli("compare", "a.json", "b.json", "--format", "json")
    assert stored.exit_code == 0
    assert stored.stdout == cli("compare", trace, base, "--format", "json").stdout
    with_stored = cli("report", "a.json", "--format", "json")  # only traces are read here
    assert with_stored.exit_code == 2
    judged = cli("report", trace, "--baseline", "b.json", "--format", "json")
    anew = cli("report", trace, "--baseline", base, "--format", "json")
    assert Report.from_json(judged.stdout.encode()) == Report.from_json(anew.stdout.encode())
