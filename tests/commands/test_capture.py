"""Recording with the real nsys, from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from ast import literal_eval
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness import REPOSITORY, needs_nsys, run_cli
from traceanalyzer.commands.recording import recorded_window_ns
from traceanalyzer.importers import load

if TYPE_CHECKING:
    from tests.commands.conftest import Cli

# Newer nvtx makes dummy domains under the nsys that Debian ships; plain C API ranges do not.
PROGRAM = """
import sys, time
from nvtx._lib import lib
import nvtx
def real_domain(cls, name=None):
    domain = object.__new__(cls)
    domain.handle = lib.DomainHandle(name)
    return domain
if hasattr(lib, "DomainHandle"):
    lib.Domain.__new__ = staticmethod(real_domain)
print("serving", flush=True)
for number in range(int(sys.argv[1])):
    with nvtx.annotate("verify", domain="eagle", payload=number):
        time.sleep(0.01)
    with nvtx.annotate("draft", domain="eagle", payload=number):
        time.sleep(0.002)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def capture(folder: Path, *arguments: str | Path) -> list[str | Path]:
    return ["capture", "--no-cuda", "--no-hooks", "-o", folder / "run", *arguments]


@needs_nsys
def test_a_program_is_recorded_and_reported_by_one_command(program: Path, tmp_path: Path) -> None:
    done = run_cli(*capture(tmp_path, "--", sys.executable, program, "40", "0"))
    assert done.exit_code == 0, done.stderr
    assert "verify cycles" in done.stdout
    assert "39 cycles" in done.stdout
    assert "host time" in done.stdout
    assert list(tmp_path.glob("run.*"))


@needs_nsys
def test_the_programs_own_failure_is_passed_on_and_what_it_left_is_reported(
    program: Path, tmp_path: Path
) -> None:
    done = run_cli(*capture(tmp_path, "--", sys.executable, program, "40", "7"))
    assert done.exit_code == 7
    assert "verify cycles" in done.stdout


@needs_nsys
def test_the_trace_says_when_it_was_recorded_on_the_clock_of_the_speed_watch(
    program: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    timed = program.with_name("timed.py")
    loop = PROGRAM.replace("for number", "times = [time.time_ns()]\nfor number")
    end = f"times.append(time.time_ns()); open({str(said)!r}, 'w').write(repr(times))\nsys.exit"
    timed.write_text(loop.replace("sys.exit", end))
    done = run_cli(*capture(tmp_path, "--", sys.executable, timed, "20", "0"))
    assert done.exit_code == 0, done.stderr
    (recorded,) = tmp_path.glob("run.*")
    window = recorded_window_ns(load(recorded))
    assert window is not None
    begun, ended = literal_eval(said.read_text())
    # The clock may be set while it runs, and nsys reads it once; NTP moves it by milliseconds.
    assert begun - 50_000_000 <= window[0] < window[1] <= ended + 50_000_000


@needs_nsys
def test_a_window_by_the_clock_ends_a_server(program: Path, tmp_path: Path) -> None:
    begun = time.monotonic()
    window = ("--window", "time:0:10")  # nsys and the program may take seconds to start
    done = run_cli(*capture(tmp_path, *window, "--", sys.executable, program, "100000", "0"))
    assert done.exit_code == 0, done.stderr
    assert "verify cycles" in done.stdout
    assert time.monotonic() - begun < 120


IGNORES_SIGTERM = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(1000)
"""


@needs_nsys
def test_a_program_that_ignores_the_end_is_not_left_behind(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traceanalyzer.capture.session._SECONDS_TO_END", 2)
    stubborn, told = tmp_path / "stubborn.py", tmp_path / "pid"
    stubborn.write_text(IGNORES_SIGTERM)
    window = ("--window", f"until:{told}")
    cli(*capture(tmp_path, *window, "--", sys.executable, stubborn, told))
    status = Path(f"/proc/{told.read_text()}/stat")
    assert not status.exists() or ") Z " in status.read_text()


KILLS_ITS_WORKER = """
import multiprocessing, pathlib, sys, time
def work(ready):
    namespace = {"__name__": "worker"}
    sys.argv[1:] = ["40", "0"]
    try:
        exec(pathlib.Path(sys.argv[0]).with_name("program.py").read_text(), namespace)
    except SystemExit:
        ready.set()
    time.sleep(1000)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    worker = context.Process(target=work, args=(ready,))
    worker.start()
    ready.wait()
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(float(sys.argv[2]))
    worker.kill()
"""


@needs_nsys
def test_a_worker_that_would_be_killed_is_complete_in_a_window_until_a_file(
    program: Path, tmp_path: Path
) -> None:
    killer = program.with_name("killer.py")
    killer.write_text(KILLS_ITS_WORKER)
    done_file = tmp_path / "done"
    window = ("--window", f"until:{done_file}")
    done = run_cli(*capture(tmp_path, *window, "--", sys.executable, killer, done_file, "1000"))
    assert done.exit_code == 0, done.stderr
    assert "39 cycles" in done.stdout


@needs_nsys
def test_ctrl_c_keeps_what_was_recorded(program: Path, tmp_path: Path) -> None:
    arguments = capture(tmp_path, "--", sys.executable, program, "100000", "0")
    process = subprocess.Popen(
        [sys.executable, "-m", "traceanalyzer", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "serving\n"
    time.sleep(2)
    os.killpg(process.pid, signal.SIGINT)
    printed = process.stdout.read()
    assert process.wait(timeout=120) == 130
    assert "verify cycles" in printed


@needs_nsys
def test_only_the_command_line_is_printed_when_asked(tmp_path: Path) -> None:
    done = run_cli("capture", "--print", "-o", tmp_path / "x", "--", "python", "serve.py")
    assert done.exit_code == 0
    assert done.stdout.startswith("NVTX_HOOKS=1 ")
    assert done.stdout.rstrip().endswith("python serve.py")
    assert not list(tmp_path.iterdir())


@needs_nsys
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-o", "x", "--", "no-such-program"], "no such program"),
        (["-o", "/no/such/folder/x", "--", "true"], "nothing can be written here"),
        (["--window", "soon", "--", "true"], "no capture window"),
        (["--nsys", "/no/nsys", "--", "true"], "is not a program that can be run"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    arguments: list[str], told: str, tmp_path: Path
) -> None:
    done = run_cli("capture", *arguments, cwd=tmp_path)
    assert done.exit_code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
