from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from traceanalyzer.capture.process_groups import groups_below, living, program_groups, signal_groups

if TYPE_CHECKING:
    from pathlib import Path

CHILD_IN_A_SESSION_OF_ITS_OWN = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def test_a_program_is_reached_in_every_session_it_opened() -> None:
    program = [sys.executable, "-c", CHILD_IN_A_SESSION_OF_ITS_OWN]
    with subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        groups = groups_below(parent.pid)
        assert groups == {parent.pid, child}
        assert living(groups) == groups
        signal_groups(groups, signal.SIGKILL)
        parent.wait()
    assert parent.pid not in living(groups)
    assert os.getpgrp() not in groups


def test_nsyss_own_processes_are_not_its_program(tmp_path: Path) -> None:
    launcher = tmp_path / "nsys-launcher"
    launcher.symlink_to("/bin/sleep")
    program = CHILD_IN_A_SESSION_OF_ITS_OWN.replace("[sys.executable", f"[{str(launcher)!r}")
    program = program.replace('"-c", "import time; time.sleep(600)"', '"600"')
    started = [sys.executable, "-c", program]
    with subprocess.Popen(started, stdout=subprocess.PIPE, start_new_session=True) as nsys:
        assert nsys.stdout is not None
        child = int(nsys.stdout.readline())
        groups = groups_below(nsys.pid)
        assert child in groups
        assert program_groups(nsys.pid) == set()
        signal_groups(groups, signal.SIGKILL)
        nsys.wait()


def test_a_program_in_a_session_of_its_own_is_found() -> None:
    started = [sys.executable, "-c", CHILD_IN_A_SESSION_OF_ITS_OWN]
    with subprocess.Popen(started, stdout=subprocess.PIPE, start_new_session=True) as nsys:
        assert nsys.stdout is not None
        child = int(nsys.stdout.readline())
        assert program_groups(nsys.pid) == {child}
        signal_groups({nsys.pid, child}, signal.SIGKILL)
        nsys.wait()
