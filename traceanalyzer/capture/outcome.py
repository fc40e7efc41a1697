"""What a recording left behind, and where it goes: nothing unfinished gets the report's name.

nsys writes into a folder beside the report; what it finished is moved out of it under the final
name, and the folder goes with whatever else is in it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traceanalyzer.capture.plan import Window

SUFFIXES: Final = (".nsys-rep", ".qdstrm")
"""The report, and the stream that an nsys without its importer (Debian's) leaves instead."""

_EXPORT: Final = ".sqlite"
_INCOMPLETE: Final = ".incomplete"
_FULL_BYTES: Final = 1 << 20


@contextmanager
def recording_folder(report: Path) -> Iterator[Path]:
    """A folder beside the report for nsys to write into; removed with all that is left in it.

    Raises:
        InputError: The report's folder cannot be written to.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{report.stem}.recording-", dir=report.parent))
    except OSError as error:
        raise InputError(
            f"nothing can be written here: {error.strerror}",
            where=report.parent,
            next_step="Name a report in another folder with -o.",
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def left_by(report: Path) -> Path | None:
    """The report, or the stream beside it that this nsys could not import itself."""
    for suffix in SUFFIXES:
        path = report.with_suffix(suffix)
        if path.is_file() and path.stat().st_size:
            return path
    return None


def nothing_left(report: Path) -> InputError:
    """What to say when nsys wrote no report."""
    return InputError(
        "nsys left no report",
        where=report,
        next_step="See what it said above; with a window by range or profiler, the range may "
        "never have been opened.",
    )


def kept(recorded: Path, report: Path, *, whole: bool) -> Path:
    """Move what was recorded out of its folder, in place of an earlier recording.

    Args:
        recorded: What nsys wrote.
        report: The report's final path.
        whole: Whether nsys ended by itself, with room left on the disk; what may be cut short
            gets a name that says so.

    Raises:
        InputError: It cannot be moved.
    """
    suffix = recorded.suffix if whole else f"{_INCOMPLETE}{recorded.suffix}"
    target = report.with_suffix(suffix)
    try:
        if whole:
            for stale in (*SUFFIXES, _EXPORT):
                report.with_suffix(stale).unlink(missing_ok=True)
        return recorded.replace(target)
    except OSError as error:
        raise InputError(f"it cannot be written: {error.strerror}", where=target) from None


def disk_full(*folders: Path) -> InputError | None:
    """Which of the disks that nsys writes to has no room left, if one has none."""
    for folder in folders:
        with suppress(OSError):
            free = shutil.disk_usage(folder).free
            if free < _FULL_BYTES:
                return InputError(
                    f"the disk is full ({free:,} bytes are free), so the recording is cut short",
                    where=folder,
                    next_step="Make room, name a report on another disk with -o (nsys's own "
                    "files: with TMPDIR), or record a shorter window.",
                )
    return None


def nsys_folders(report: Path) -> tuple[Path, Path]:
    """Where nsys writes: beside the report, and its own files while it collects."""
    return report.parent, Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - as nsys has it


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
    if window.kind in ("nvtx", "profiler", "endpoint"):
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
        self._paths = [report.with_suffix(suffix) for suffix in SUFFIXES]
        self._size = -1
        self._since = time.monotonic()

    def __call__(self) -> bool:
        size = sum(path.stat().st_size for path in self._paths if path.exists())
        if not size or size != self._size:
            self._size, self._since = size, time.monotonic()
            return False
        return time.monotonic() - self._since >= self._SECONDS
