"""Commands load numpy without threads, and leave no trace of it for the programs they start."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.harness import REPOSITORY

_PROGRAM = """
import os
from pathlib import Path
from traceanalyzer.commands.arrays import load_numpy
load_numpy()
import numpy
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(os.environ.get("OPENBLAS_NUM_THREADS"), status["Threads"].strip())
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
