"""CPU time, wall time and peak memory of a command that runs in a process of its own.

CPU time is user and system time of the process and of its children; peak memory is that of the
largest one among them. Both come from the system when the process ends.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import statistics
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may take before it is stopped."""

    wall_s: float = 1800
    memory_gb: float = 16


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process.

    Attributes:
        failure: Why it has no result; None when it ended well.
    """

    cpu_s: float
    wall_s: float
    peak_mb: float
    failure: str | None = None


def timed(
    command: Sequence[str], folder: Path, limits: Limits, env: Mapping[str, str] | None = None
) -> Run:
    """Run a command in a folder; its output goes to `stdout` and `stderr` there."""
    before = os.times().elapsed
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=lambda: _limit_memory(limits),
        )
    late = threading.Timer(limits.wall_s, _stop, (process.pid,))
    late.start()
    _, status, usage = os.wait4(process.pid, 0)
    stopped = not late.is_alive()
    late.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    failure = _failure(process.returncode, folder / "stderr")
    if stopped:
        failure = f"stopped after {limits.wall_s:,.0f} s"
    cpu_s, wall_s = usage.ru_utime + usage.ru_stime, os.times().elapsed - before
    return Run(cpu_s, wall_s, usage.ru_maxrss * 1024 / 1e6, failure)


def _limit_memory(limits: Limits) -> None:
    most = int(limits.memory_gb * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _stop(process_id: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)


def _failure(exit_code: int, stderr: Path) -> str | None:
    if exit_code == 0:
        return None
    lines = stderr.read_text(errors="replace").strip().splitlines()
    said = lines[-1].strip()[:120] if lines else "nothing said"
    return f"exit code {exit_code}: {said}"


def median(runs: Sequence[Run]) -> Run:
    """Each figure's median over the runs, and the first failure."""
    return Run(
        statistics.median(run.cpu_s for run in runs),
        statistics.median(run.wall_s for run in runs),
        statistics.median(run.peak_mb for run in runs),
        next((run.failure for run in runs if run.failure), None),
    )
