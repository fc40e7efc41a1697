"""Refuses what has no end, or never begins: devices, and pipes that nobody may be writing to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from traceanalyzer.errors import InputError

_ALREADY_OPEN = ("/dev/fd/", "/proc/")  # what a shell's <(command) and /dev/stdin stand for


def refuse_endless(path: str | os.PathLike[str]) -> None:
    """Let regular files, folders, paths that lead nowhere, and pipes that are open already pass.

    Raises:
        InputError: Reading it might never end.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return  # whoever opens it tells why it cannot be read
    is_pipe = stat.S_ISFIFO(mode) and not os.fspath(path).startswith((*_ALREADY_OPEN, "/dev/stdin"))
    if is_pipe or stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        what = "pipe" if is_pipe else "device"
        raise InputError(f"it is a {what}, not a file", where=path, next_step="Name a file.")
