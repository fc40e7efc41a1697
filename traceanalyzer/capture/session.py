"""Running a program under `nsys profile`, and ending it so that nothing recorded is lost.

Collection is stopped before the program: worker processes that are killed while they are
collected lose their buffers, and their rank is then missing in the report.
"""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.capture.process_groups import groups_below, living, signal_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traceanalyzer.importers.nsys_command import Nsys

_POLL_S = 0.2
_SECONDS_TO_END = 30
_STOP_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Ended:
    """How a recording ended: the program's exit code as nsys passes it on, and who ended it."""

    exit_code: int
    interrupted: bool


@dataclass(slots=True)
class Session:
    """One `nsys profile` in a process group of its own, so that Ctrl-C reaches it through us."""

    nsys: Nsys
    name: str
    process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls, nsys: Nsys, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> Session:
        """Start recording; the program's output goes where ours goes.

        Raises:
            OSError: nsys cannot be started.
        """
        process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
            command, env=dict(environment), stdin=subprocess.DEVNULL, start_new_session=True
        )
        return cls(nsys, name, process)

    def wait(self, collected: Callable[[], bool]) -> Ended:
        """Wait until the program ends, or end it once `collected` says all is recorded.

        A first Ctrl-C stops collection, keeps what was recorded, and ends the program; a second
        one kills it.
        """
        try:
            while self.process.poll() is None:
                if collected():
                    self._end()
                    return Ended(0, interrupted=False)
                # Short sleeps: polars 2.1 installs a SIGINT handler under which a blocking wait
                # goes on through Ctrl-C.
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            self._end()
            return Ended(130, interrupted=True)
        return Ended(self.process.returncode, interrupted=False)

    def _end(self) -> None:
        """Stop collection, then the program and what it started; nsys ends by itself after."""
        own = self.process.pid  # it leads its group
        program = groups_below(own) - {own}
        try:
            self.stop_collection()
            signal_groups(program, signal.SIGTERM)
            self._wait(program, _SECONDS_TO_END)
            signal_groups(living(program), signal.SIGKILL)
            # An nsys that is killed leaves its agent's semaphores in the way of the next one.
            self._wait({own}, _SECONDS_TO_END)
        finally:
            signal_groups(living({own, *program}), signal.SIGKILL)
            self.process.wait()

    def stop_collection(self) -> None:
        """Write the report while the program goes on; nothing happens when it was stopped."""
        command = [str(self.nsys.path), "stop", f"--session={self.name}"]
        with suppress(subprocess.TimeoutExpired, OSError):
            subprocess.run(  # noqa: S603 - an argument list, no shell
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_STOP_SECONDS,
                check=False,
                start_new_session=True,
            )

    def _wait(self, groups: set[int], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while living(groups) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
