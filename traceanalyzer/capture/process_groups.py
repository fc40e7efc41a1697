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
_OF_NSYS = ("nsys", "Qdstrm")


class _Process(NamedTuple):
    """A line of /proc/PID/stat."""

    pid: int
    name: str
    parent: int
    group: int
    ended: bool


def groups_below(pid: int) -> set[int]:
    """The groups of a process and of all it started, its own included."""
    return {process.group for process in _family(pid)}


def program_groups(nsys: int) -> set[int]:
    """The groups of the program that an nsys started; none before it has.

    nsys's own processes are left out, whatever group they are in: its launcher and agents, and
    the importer that makes the report.
    """
    return {
        process.group
        for process in _family(nsys)
        if process.group != nsys and not process.ended and not process.name.startswith(_OF_NSYS)
    }


def _family(pid: int) -> list[_Process]:
    processes = list(_processes())
    family = {pid}
    while True:
        children = {process.pid for process in processes if process.parent in family}
        if children <= family:
            return [process for process in processes if process.pid in family]
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
            head, _, rest = path.read_text(errors="replace").rpartition(")")
            state, parent, group = rest.split()[:3]
            name = head.partition("(")[2]
            yield _Process(int(path.parent.name), name, int(parent), int(group), state in "ZX")
