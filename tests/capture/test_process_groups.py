from __future__ import annotations

import os
import signal
import subprocess
import sys

from traceanalyzer.capture.process_groups import groups_below, living, signal_groups

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
