"""Killed, interrupted or out of room at any moment: no half file under a final name."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import REPOSITORY
from tests.importers.fake_nsys import NEW_HELP, write_exports, write_fake_nsys
from traceanalyzer import load
from traceanalyzer.report import Report

if TYPE_CHECKING:
    from pathlib import Path

# Moments are shares of the time of a whole first run; a fork spares most of Python's own start.
_FORKING = """
import os, random, signal, sys, time
from traceanalyzer.__main__ import main
arguments, moments = sys.argv[2:], [float(it) for it in sys.argv[1].split(",")]
def run():
    try:
        main(arguments)
    except SystemExit as ended:
        os._exit(ended.code)
for moment in (None, *moments):
    child = os.fork()
    if not child:
        run()
    if moment is None:
        began = time.monotonic()
        os.waitpid(child, 0)
        whole = time.monotonic() - began
        continue
    time.sleep(moment * whole)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""


def _start(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "POLARS_MAX_THREADS": "1"},
        capture_output=True,
        check=False,
        timeout=120,
        **more,
    )


def _killed_ten_times(seed: int, *arguments: str | Path) -> None:
    dice = random.Random(seed)
    moments = ",".join(f"{0.05 + 0.1 * step + 0.1 * dice.random():.3f}" for step in range(10))
    done = _start("-c", _FORKING, moments, *arguments)
    assert done.stdout.count(b"killed") == 10, done.stderr


def _traceanalyzer(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return _start("-m", "traceanalyzer", *arguments, **more)


def test_a_report_is_whole_or_not_there(server: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "report.json"
    output.parent.mkdir()
    _killed_ten_times(1, "report", server, "-o", output)
    assert Report.from_json(output.read_bytes()).capture.ops > 0
    assert _traceanalyzer("report", server, "-o", output).returncode == 0
    assert Report.from_json(output.read_bytes()).capture.ops > 0


def test_an_export_is_whole_or_not_there(server: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "tables"
    output.parent.mkdir()
    _killed_ten_times(2, "export", server, "--to", "parquet", "--force", "-o", output)
    if output.exists():
        assert load(output).ops.height == load(server).ops.height
    assert (
        _traceanalyzer("export", server, "--to", "parquet", "--force", "-o", output).returncode == 0
    )
    assert load(output).ops.height == load(server).ops.height


def test_a_cached_export_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(cache))
    nsys = write_fake_nsys(
        tmp_path / "bin" / "nsys",
        write_exports(tmp_path),
        version="2030.1.1.1-0",
        help_text=NEW_HELP,
    )
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 2025@3@2@474-2532\n" + bytes(100))
    dice = random.Random(3)
    for _ in range(3):
        for kept in cache.glob("run*"):
            load(kept)
        moments = ",".join(f"{dice.random():.3f}" for _ in range(3))
        _start("-c", _FORKING, moments, "report", report, "--nsys", nsys.path, "-o", os.devnull)
        for kept in cache.glob("run*"):
            load(kept)
    assert _traceanalyzer("report", report, "--nsys", nsys.path).returncode == 0


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
