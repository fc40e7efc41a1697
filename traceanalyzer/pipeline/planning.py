"""Which parts of a capture are measured at once, so that the memory given is enough."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from traceanalyzer.analyses.trust import WARNING
from traceanalyzer.importers import FilePart, divided_file
from traceanalyzer.importers.nsys_processes import Processes
from traceanalyzer.report import Check

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from traceanalyzer.progress import Progress

MB: Final = 1_000_000
_PROCESS_MB: Final = 200
"""What Python, polars and the joined tables of a few million kernels take."""
_BYTES_A_KERNEL: Final = 600
"""Of the part that is measured: its tables, and what analyses need beside them."""
_BYTES_A_KERNEL_OF_ALL: Final = 70
"""Of all parts: what was measured of them, and what telling of all ranks together needs."""
_WORTH_A_WORKER: Final = 64 * MB
"""Of files; a worker takes a second to start, in which so much can be analysed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to analyse a capture.

    Attributes:
        parts: What is measured by itself.
        jobs: How many at once.
        notes: What the trust table has to say of it.
    """

    parts: list[FilePart]
    jobs: int
    notes: tuple[Check, ...] = ()


def plan(
    files: Sequence[Path],
    *,
    jobs: int | None,
    memory: int | None,
    nsys: str | None,
    progress: Progress,
) -> Plan:
    """Divide a capture.

    Args:
        files: Its files.
        jobs: How many parts to measure at once, those of one file among them; None for as many
            files as is worth it on this machine.
        memory: Bytes that all of them together may take, about; None for no limit.
        nsys: The Nsight Systems command line to export reports with.
        progress: Told about exports.
    """
    size = sum(map(_bytes_in, files))
    worth_it = min(os.cpu_count() or 1, len(files), size // _WORTH_A_WORKER)
    at_once = jobs or max(1, worth_it)
    if memory is not None:
        at_once = max(1, min(at_once, memory // (2 * _PROCESS_MB * MB)))
    if memory is None and at_once <= len(files):
        return Plan([FilePart(file) for file in files], min(at_once, len(files)))
    room = None if memory is None else (memory // at_once - _PROCESS_MB * MB) // _BYTES_A_KERNEL
    parts: list[FilePart] = []
    notes: list[Check] = []
    for file in files:
        processes = divided_file(file, nsys, progress)
        share = -(-sum(part.kernels for part in processes) // max(1, at_once // len(files)))
        most = share if room is None else max(1, min(share, room))
        parts += grouped(processes, most)
        notes += [] if room is None else _too_large(processes, room)
    notes += [] if memory is None else _too_many(parts, memory)
    return Plan(parts, min(at_once, len(parts)), tuple(notes))


def grouped(processes: Sequence[FilePart], most_kernels: int) -> list[FilePart]:
    """Neighbouring parts of one file put together, up to so many kernels."""
    begins, kernels = [0], 0
    for place, part in enumerate(processes):
        kernels += part.kernels
        if place > begins[-1] and kernels > most_kernels:
            begins.append(place)
            kernels = part.kernels
    return [_together(processes[first:end]) for first, end in pairwise([*begins, len(processes)])]


def _together(parts: Sequence[FilePart]) -> FilePart:
    bounds = Processes(parts[0].processes.first, parts[-1].processes.end)
    return replace(parts[0], processes=bounds, kernels=sum(part.kernels for part in parts))


def _too_large(processes: Iterable[FilePart], room: int) -> list[Check]:
    return [
        Check(
            "memory",
            WARNING,
            f"one process of {part.path.name} has {part.kernels:,} kernels, for which about "
            f"{_PROCESS_MB + part.kernels * _BYTES_A_KERNEL // MB:,} MB are needed",
            "Give more with --memory, or record a shorter window.",
        )
        for part in processes
        if part.kernels > max(room, 0)
    ]


def _too_many(parts: Sequence[FilePart], memory: int) -> list[Check]:
    """What all ranks need together once each has been measured, however they are divided."""
    kernels = sum(part.kernels for part in parts)
    needed = _PROCESS_MB + kernels * _BYTES_A_KERNEL_OF_ALL // MB
    if needed * MB <= memory or len(parts) == 1:
        return []
    return [
        Check(
            "memory",
            WARNING,
            f"all ranks together have {kernels:,} kernels, for which about {needed:,} MB are "
            "needed",
            "Give more with --memory, or record a shorter window.",
        )
    ]


def _bytes_in(path: Path) -> int:
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        return path.stat().st_size
    except OSError:
        return 0  # what is wrong with it is told when it is read
