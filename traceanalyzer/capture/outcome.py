"""What a recording left behind: the report, or the stream that Debian's nsys leaves instead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traceanalyzer.capture.plan import Window


def recorded_file(report: Path) -> Path:
    """The report, or the .qdstrm beside it that this nsys could not import itself.

    Raises:
        InputError: There is neither.
    """
    for path in (report, report.with_suffix(".qdstrm")):
        if path.is_file() and path.stat().st_size:
            return path
    raise InputError(
        "nsys left no report",
        where=report,
        next_step="See what it said above; with a window by range or profiler, the range may "
        "never have been opened.",
    )


def remove_old(report: Path) -> None:
    """Take away what an earlier recording of this name left, exports included.

    Raises:
        InputError: The folder cannot be written to.
    """
    stale = (".nsys-rep", ".qdstrm", ".sqlite")
    try:
        for suffix in stale:
            report.with_suffix(suffix).unlink(missing_ok=True)
        probe = report.with_suffix(".part")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(
            f"nothing can be written here: {error.strerror}",
            where=report.parent,
            next_step="Name a report in another folder with -o.",
        ) from None


def collection_ended(report: Path, window: Window) -> Callable[[], bool]:
    """A question to ask again and again: is everything recorded that the window asks for?

    By the clock that is after its time; for a file it is when the program has written it; for a
    range or the profiler's calls it is when nsys has written the report and its size no longer
    changes. To be made before the program starts: a file that is there already does not count.
    """
    begun = time.monotonic()
    if window.kind == "time" and window.duration_s is not None:
        until = begun + window.delay_s + window.duration_s
        return lambda: time.monotonic() >= until
    if window.file is not None:
        file = window.file
        before = _written(file)
        return lambda: _written(file) not in (None, before)
    if window.kind in ("nvtx", "profiler"):
        return _Settled(report)
    return lambda: False


def _written(file: Path) -> int | None:
    """When a file was last written, ns; None while there is none."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None


class _Settled:
    """Whether a file has appeared and kept its size for two seconds."""

    _SECONDS = 2.0

    def __init__(self, report: Path) -> None:
        self._paths = (report, report.with_suffix(".qdstrm"))
        self._size = -1
        self._since = time.monotonic()

    def __call__(self) -> bool:
        size = sum(path.stat().st_size for path in self._paths if path.exists())
        if not size or size != self._size:
            self._size, self._since = size, time.monotonic()
            return False
        return time.monotonic() - self._since >= self._SECONDS
