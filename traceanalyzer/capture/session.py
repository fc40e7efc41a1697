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

from traceanalyzer.capture.process_groups import groups_below, living, program_groups, signal_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traceanalyzer.importers.nsys_command import Nsys

_POLL_S = 0.2
_SECONDS_TO_END = 30
_STOP_SECONDS = 120
_BY_SIGNAL = 128
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Ended:
    """How a recording ended.

    Attributes:
        exit_code: The program's as nsys passes it on; 0 when its window had ended, 130 after
            Ctrl-C.
        interrupted: Whether it was Ctrl-C.
        cut: Whether nsys itself was ended by a signal: what it wrote may be half of it.
    """

    exit_code: int
    interrupted: bool
    cut: bool


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
                    return self._ended(0, interrupted=False)
                # Short sleeps: polars 2.1 installs a SIGINT handler under which a blocking wait
                # goes on through Ctrl-C.
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            self._end()
            return self._ended(_INTERRUPTED, interrupted=True)
        code = self.process.returncode
        return self._ended(code if code >= 0 else _BY_SIGNAL - code, interrupted=False)

    def _ended(self, code: int, *, interrupted: bool) -> Ended:
        return Ended(code, interrupted, cut=self.process.returncode < 0)

    def _end(self) -> None:
        """Stop collection, then the program and what it started; nsys ends by itself after.

        A program that nsys is only about to start is met as well: it is looked for until nsys
        has ended.
        """
        own = self.process.pid  # it leads its group
        asked: set[int] = set()
        try:
            self.stop_collection()
            deadline = time.monotonic() + _SECONDS_TO_END
            while living({own}) and time.monotonic() < deadline:
                new = program_groups(own) - asked
                signal_groups(new, signal.SIGTERM)
                asked |= new
                time.sleep(_POLL_S)
            signal_groups(living(asked), signal.SIGKILL)
            # An nsys that is killed leaves its agent's semaphores in the way of the next one.
            self._wait({own}, _SECONDS_TO_END)
        finally:
            signal_groups(living({own, *asked, *groups_below(own)}), signal.SIGKILL)
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
