"""Killed, interrupted or out of room at any moment: no half file under a final name."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import REPOSITORY
from tests.kills import KILLED, Program, killed, moments_of

if TYPE_CHECKING:
    from pathlib import Path


def _start(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "POLARS_MAX_THREADS": "1"},
        capture_output=True,
        check=False,
        timeout=120,
        **more,
    )


def _traceanalyzer(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return _start("-m", "traceanalyzer", *arguments, **more)


@pytest.mark.parametrize("what", KILLED)
def test_what_was_written_is_whole_or_not_there(what: str, tmp_path: Path) -> None:
    """A few moments each; `benchmarks/bad_input.py --kills` tries ten."""
    found = KILLED[what](tmp_path, moments_of(seed=3, count=2))
    assert (found.damaged, found.next_run) == (0, "succeeds")
    assert found.kills > 0


def test_a_file_that_is_written_in_place_is_found_out(tmp_path: Path) -> None:
    target = tmp_path / "file"
    body = """with open(sys.argv[1], "wb") as file:
            for _ in range(40):
                file.write(bytes(100_000))
                time.sleep(0.01)"""

    def is_whole() -> bool:
        return target.stat().st_size == 40 * 100_000

    found = killed(Program(tmp_path, is_whole, (target,), parts=("", body)), (0.5,))
    assert (found.kills, found.damaged, found.next_run) == (1, 1, "succeeds")


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_full_disk_leaves_the_old_file(server: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / f"report.{form}"
    output.write_text("old")

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = _traceanalyzer("report", server, "-o", output, preexec_fn=no_room)
    assert (done.returncode, output.read_text()) == (2, "old")
    assert b"it cannot be written" in done.stderr
    assert sorted(path.name for path in tmp_path.glob(".trace*")) == []


def test_ctrl_c_leaves_the_old_file(server: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    output.write_text("old")
    code = (
        "import signal, pathlib, traceanalyzer.__main__ as m\n"
        "pathlib.Path.replace = lambda *_: signal.raise_signal(signal.SIGINT)\n"
        "m.main()\n"
    )
    done = _start("-c", code, "report", server, "-o", output)
    assert (done.returncode, output.read_text()) == (130, "old")
    assert list(tmp_path.glob(".trace*")) == []
