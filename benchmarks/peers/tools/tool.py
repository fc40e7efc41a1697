"""What a tool of the comparison is: a command on a trace, and how to read what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Totals = dict[str, float]

Command = Callable[[Path, Path], list[str]]
"""From the trace and an empty folder to work in."""

Answer = Callable[[Path], Totals]
"""From the folder to nanoseconds by name."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool that can run here.

    Attributes:
        name: How tables call it.
        version: Its own.
        forms: Forms of traces that it reads.
        command: What is timed.
        question: What its answer means, a key of the truth; None where it computes none.
        answer: How to read it.
        cheap: Whether it is run as often as our own commands, and once more before to warm caches.
        writes: Whether it writes beside the trace or into it, and so is given a copy.
        env: Variables of its process; `{folder}` stands for the folder it works in.
        note: What a reader must know.
    """

    name: str
    version: str
    forms: tuple[str, ...]
    command: Command
    question: str | None = None
    answer: Answer | None = None
    cheap: bool = False
    writes: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """A tool that cannot run here, and why."""

    name: str
    forms: tuple[str, ...]
    reason: str
