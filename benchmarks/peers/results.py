"""Measured rows, kept as JSON so that a later run may renew some and leave the others.

Rows of different runs are compared through what reading alone took in each: its CPU time stands
beside every row, and says how fast the machine was at that moment.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from peers.judging import Error

if TYPE_CHECKING:
    from collections.abc import Iterable

REPOSITORY: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the command: when, of what, on what."""

    date: str
    commit: str
    machine: str


@dataclass(frozen=True, slots=True)
class Row:
    """One tool on one trace.

    Attributes:
        trace: The trace's name.
        form: Its form.
        kernels: In it.
        megabytes: Its size.
        tool: The tool's name.
        version: Its version.
        runs: How many, figures are medians; 0 for a tool that is missing.
        cpu_s: User and system time of the process and its children.
        wall_s: From start to end.
        peak_mb: Of the largest process.
        floor_cpu_s: CPU seconds of reading alone in the same run; None where nothing does that.
        session: The run.
        question: What the tool's answer means.
        errors: Its answer against the truth.
        failure: Why there is no result.
        note: What a reader must know.
    """

    trace: str
    form: str
    kernels: int
    megabytes: float
    tool: str
    version: str
    runs: int
    cpu_s: float
    wall_s: float
    peak_mb: float
    floor_cpu_s: float | None
    session: Session
    question: str | None = None
    errors: list[Error] = field(default_factory=list)
    failure: str | None = None
    note: str = ""

    @property
    def is_own(self) -> bool:
        """Whether it is one of our commands."""
        return self.tool.startswith("traceanalyzer")


def times_ours(row: Row, ours: Row) -> float:
    """How many times the CPU of our own row a row took, at one speed of the machine."""
    if row.session != ours.session and row.floor_cpu_s and ours.floor_cpu_s:
        return (row.cpu_s / row.floor_cpu_s) / (ours.cpu_s / ours.floor_cpu_s)
    return row.cpu_s / ours.cpu_s


def read_rows(path: Path) -> list[Row]:
    """Rows kept before; none where there is no file."""
    if not path.exists():
        return []
    rows = []
    for kept in json.loads(path.read_text()):
        kept["errors"] = [Error(**error) for error in kept["errors"]]
        kept["session"] = Session(**kept["session"])
        rows.append(Row(**kept))
    return rows


def merged(kept: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """New rows in the place of kept ones of the same trace, tool and version.

    Of our own commands one version stays; and a tool that was missing gives way to one that ran.
    """
    renewed = list(new)
    names = {(row.trace, row.tool) for row in renewed}
    exact = {(row.trace, row.tool, row.version) for row in renewed}
    stay = [
        row
        for row in kept
        if (row.trace, row.tool, row.version) not in exact
        and not ((row.trace, row.tool) in names and (row.is_own or not row.runs))
    ]
    return [*stay, *renewed]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Keep rows."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def machine() -> str:
    """What it ran on, without its name."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0].partition(":")[2].strip() if names else model
    used = len(os.sched_getaffinity(0))
    libraries = ", ".join(f"{name} {version(name)}" for name in ("polars", "numpy", "msgspec"))
    return f"{model}, {used} CPUs used, Python {platform.python_version()}, {libraries}"


def commit() -> str:
    """The checkout's commit, and whether the code differs from it."""
    head = _git("rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    return f"{head}, changed" if _git("status", "--porcelain", "traceanalyzer") else head


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
