"""One bad input through the real command line: what came, at what cost, and was it right?"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bad_input_totals import totals_in, totals_told
from tests.bad_inputs import EITHER, MAY_DIFFER
from tests.harness import REPOSITORY, SAMPLE_TRACES

if TYPE_CHECKING:
    from tests.bad_inputs import BadInput

LIMIT_S: Final = 10.0
"""Of processor time: the clock on the wall tells how busy the machine is."""

MOST_ADDRESS_BYTES: Final = 6 << 30
_PATIENCE_S: Final = 300.0
"""After so long even what waits, and uses no processor, hangs."""

_MOST_CPU_S: Final = 60

# The modules of a virtual environment may be for root alone: a first run loads them.
_AS_NOBODY: Final = """
import contextlib, os, sys, tempfile
from traceanalyzer.__main__ import main
with contextlib.suppress(SystemExit):
    main(["report", sys.argv[1], "--format", "json", "-o", os.devnull])
os.setresuid(65534, 65534, 65534)
main(sys.argv[2:])
"""


@dataclass(frozen=True)
class Run:
    """What a command did: its exit code, output, processor time and peak memory."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    cpu_s: float
    peak_mib: float


def run(bad: BadInput) -> Run:
    """Run the command line in a process of its own, of bounded address space."""
    command: list[str | Path] = [sys.executable, "-m", "traceanalyzer"]
    if bad.unprivileged and not os.geteuid():
        command = [sys.executable, "-c", _AS_NOBODY, SAMPLE_TRACES / "broken" / "healthy.sqlite"]
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [*command, *bad.arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "100"},
            preexec_fn=_limited,
        )
        killer = threading.Timer(_PATIENCE_S, process.kill)
        killer.start()
        _, status, used = os.wait4(process.pid, 0)
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        stdout.seek(0)
        stderr.seek(0)
        cpu_s = used.ru_utime + used.ru_stime
        written = stdout.read(), stderr.read()
    return Run(process.returncode, *written, cpu_s, used.ru_maxrss / 1024)


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS_BYTES, MOST_ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_S, _MOST_CPU_S))


def problem(bad: BadInput, done: Run) -> str | None:
    """What is wrong with a run: "traceback", "hang", "wrong total", "not told"; None if nothing."""
    if b"Traceback" in done.stderr or b"panicked" in done.stderr:
        return "traceback"
    killed = done.exit_code in (-signal.SIGKILL, -signal.SIGXCPU)
    if killed or done.cpu_s > LIMIT_S:
        return "hang"
    if done.exit_code not in (0, 2) or (done.exit_code == 2 and not done.stderr.strip()):
        return "traceback"
    if bad.told.encode() not in done.stdout + done.stderr:
        return "not told"
    if done.exit_code == 2:
        return None if bad.ops in (EITHER, None) else "wrong total"
    if bad.ops is None:
        return "not told"
    report = _report(bad, done)
    if report is None:
        return None if bad.ops in (EITHER, MAY_DIFFER) else "wrong total"
    if bad.ops not in (EITHER, MAY_DIFFER, report["capture"]["ops"]):
        return "wrong total"
    expected = totals_in(Path(bad.arguments[1]))
    return None if expected in (None, totals_told(report)) else "wrong total"


def _report(bad: BadInput, done: Run) -> dict[str, Any] | None:
    """The report that was printed, or written to -o; None for other forms and commands."""
    if bad.arguments[0] != "report" or bad.arguments[bad.arguments.index("--format") + 1] != "json":
        return None
    written = done.stdout or Path(bad.arguments[bad.arguments.index("-o") + 1]).read_bytes()
    report: dict[str, Any] = json.loads(written)
    return report
