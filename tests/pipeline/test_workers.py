"""What a worker process does before it works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.pipeline.workers import WorkerProcesses

if TYPE_CHECKING:
    from pathlib import Path

# Python runs a `sitecustomize` of its path first of all, in this process and in each worker.
_AT_START = """
import os, pathlib, signal
held = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
pathlib.Path(os.environ["SEEN"], str(os.getpid())).write_text(str(held))
"""
_WORK = """
import os
from traceanalyzer.pipeline.workers import WorkerProcesses
with WorkerProcesses(1) as workers:
    print(os.getpid(), workers.submit(os.getpid).result())
"""


def test_ctrl_c_waits_while_a_worker_starts(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    (tmp_path / "sitecustomize.py").write_text(_AT_START)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "SEEN": str(seen)}
    done = subprocess.run(
        [sys.executable, "-c", _WORK], env=environment, capture_output=True, text=True, check=True
    )
    parent, worker = done.stdout.split()
    assert (seen / parent).read_text() == "False"
    assert (seen / worker).read_text() == "True"


def test_ctrl_c_ends_a_worker_that_works() -> None:
    with WorkerProcesses(1) as workers:
        handler, held = workers.submit(_interrupts).result()
    assert handler == signal.SIG_DFL
    assert not held


def _interrupts() -> tuple[object, bool]:
    held = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return signal.getsignal(signal.SIGINT), held


def test_what_spawns_workers_keeps_its_own_interrupts() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with WorkerProcesses(1) as workers:
        assert workers.submit(os.getpid).result() != os.getpid()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_what_the_work_raises_is_raised_here() -> None:
    with WorkerProcesses(1) as workers, pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 1, 0).result()
