"""Commands load numpy without threads, and leave no trace of it for the programs they start."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.harness import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """
import os
from pathlib import Path
from traceanalyzer.commands.arrays import load_numpy
load_numpy()
import numpy
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(os.environ.get("OPENBLAS_NUM_THREADS"), status["Threads"].strip())
"""

_COMMAND = """
import os
import sys

class TellsOfNumpy:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print("numpy with threads:", os.environ.get("OPENBLAS_NUM_THREADS"), file=sys.stderr)

sys.meta_path.insert(0, TellsOfNumpy())
from traceanalyzer.__main__ import main
main(sys.argv[1:])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
@pytest.mark.parametrize("asked", [None, "1", "2"])
def test_numpy_has_one_thread_unless_more_are_asked_for(asked: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    if asked is not None:
        environment["OPENBLAS_NUM_THREADS"] = asked
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found, threads = done.stdout.split()
    assert found == str(asked)
    if asked != "2":
        assert threads == "1"


@pytest.mark.parametrize(
    "command",
    [
        "compare",
        "doctor",
        "export --to csv --output none/out",
        "ranges",
        "report",
        "sweep",
        "timeline --output none/out.html",
    ],
)
def test_commands_that_read_traces_load_numpy_so(command: str, tmp_path: Path) -> None:
    """Whether they then find what they need or not."""
    environment = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *command.split(), str(tmp_path)],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("numpy with")]
    assert told[:1] == ["numpy with threads: 1"], done.stderr
