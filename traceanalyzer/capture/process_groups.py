"""The process groups that a recorded program runs in, as Linux tells them in /proc.

nsys starts its program in a session of its own, so that a signal to nsys's group misses it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from signal import Signals

_PROC = Path("/proc")


class _Process(NamedTuple):
    """A line of /proc/PID/stat."""

    pid: int
    parent: int
    group: int
    ended: bool


def groups_below(pid: int) -> set[int]:
    """The groups of a process and of all it started, its own included."""
    processes = list(_processes())
    family = {pid}
    while True:
        children = {process.pid for process in processes if process.parent in family}
        if children <= family:
            return {process.group for process in processes if process.pid in family}
        family |= children


def living(groups: Collection[int]) -> set[int]:
    """Those groups that still have a process which has not ended."""
    return {process.group for process in _processes() if not process.ended} & set(groups)


def signal_groups(groups: Collection[int], number: Signals) -> None:
    """Send a signal to every process of the groups."""
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _processes() -> Iterator[_Process]:
    for path in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            # A name may hold spaces and brackets; what follows its last bracket may not.
            state, parent, group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
            yield _Process(int(path.parent.name), int(parent), int(group), state in "ZX")
