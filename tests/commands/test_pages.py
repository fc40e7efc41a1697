"""`--html FILE` and an output named .html give one page, beside or instead of what is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.harness import SAMPLE_TRACES, run_cli

if TYPE_CHECKING:
    from pathlib import Path

TRACE = SAMPLE_TRACES / "eagle3_torch.json.gz"
SWEEP = [SAMPLE_TRACES / f"seed_k{k:02}_parquetdir" for k in (1, 3)]


def test_a_page_is_written_beside_what_is_printed(tmp_path: Path) -> None:
    beside, instead = tmp_path / "beside.html", tmp_path / "instead.html"
    done = run_cli("report", TRACE, "--html", beside)
    assert done.exit_code == 0
    assert done.stdout.startswith(str(TRACE))
    assert run_cli("report", TRACE, "-o", instead).stdout == ""
    assert beside.read_bytes() == instead.read_bytes()
    assert beside.read_bytes().startswith(b"<!doctype html>\n")


def test_a_sweep_has_a_page_too(tmp_path: Path) -> None:
    text, page = tmp_path / "sweep.md", tmp_path / "sweep.html"
    assert run_cli("sweep", *SWEEP, "-o", text, "--html", page).exit_code == 0
    assert text.read_text().startswith("# Sweep")
    assert page.read_bytes().startswith(b"<!doctype html>\n")


def test_a_page_never_replaces_a_trace_or_the_other_output(tmp_path: Path) -> None:
    trace = tmp_path / "t.json.gz"
    trace.write_bytes(TRACE.read_bytes())
    for arguments, told in (
        (["--html", trace], "this is a trace that is read"),
        (["-o", tmp_path / "r", "--html", tmp_path / "r"], "name the same file"),
        (["--html", tmp_path], "this is a folder"),
        (["--html", tmp_path / "none" / "r.html"], "it cannot be written"),
    ):
        done = run_cli("report", trace, *arguments)
        assert done.exit_code == 2
        assert told in done.stderr
    assert trace.read_bytes() == TRACE.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["t.json.gz"]
