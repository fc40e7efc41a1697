"""`nsys stats`: kernels by range (nvtx_kern_sum) and ranges projected (nvtx_gpu_proj_sum)."""

from __future__ import annotations

import csv
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from shutil import which
from typing import TYPE_CHECKING, Final

from peers.range_truth import INCLUSIVE, PROJECTED
from peers.tools.tool import Missing, Tool
from peers.traces import SQLITE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from peers.tools.tool import Totals

NAME: Final = "nsys-stats"


@dataclass(frozen=True, slots=True)
class _Report:
    """One report: its question, its names in newer and older versions, its columns."""

    question: str
    names: tuple[str, ...]
    range_column: str
    ns_column: str


_REPORTS: Final = (
    _Report(INCLUSIVE, ("nvtx_kern_sum", "nvtxkernsum"), "NVTX Range", "Total Time (ns)"),
    _Report(PROJECTED, ("nvtx_gpu_proj_sum",), "Range", "Total Proj Time (ns)"),
)
"""The projection of versions before 2023 takes time quadratic in the ranges: no fair bar."""


def tools(commands: Sequence[str]) -> list[Tool | Missing]:
    """Reports of each nsys that runs; by default the one on the path."""
    found: list[Tool | Missing] = []
    for command in commands or ["nsys"]:
        path = which(command)
        if path is None:
            found.append(Missing("nsys stats", (SQLITE,), f"not installed: no {command}"))
        else:
            found += _of(path)
    return found


def _of(nsys: str) -> list[Tool | Missing]:
    done = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\d+(\.\d+)+", done.stdout)
    version = number[0] if number else "unknown"
    offered = subprocess.run(
        [nsys, "stats", "--help-reports"], capture_output=True, text=True, check=False
    ).stdout
    found: list[Tool | Missing] = []
    for report in _REPORTS:
        name = next((name for name in report.names if re.search(rf"\b{name}\b", offered)), None)
        title = f"nsys stats {name or report.names[0]}"
        if name is None:
            found.append(
                Missing(f"{title} {version}", (SQLITE,), "this version has no such report")
            )
            continue
        command = partial(_command, nsys, name)
        answer = partial(_answer, report)
        found.append(Tool(title, version, (SQLITE,), command, report.question, answer, writes=True))
    return found


def _command(nsys: str, report: str, trace: Path, folder: Path) -> list[str]:
    options = ("--format", "csv", "--force-export=false", "-o", str(folder / "table"))
    return [nsys, "stats", "-q", "-r", report, *options, str(trace)]


def _answer(report: _Report, folder: Path) -> Totals:
    totals: Totals = defaultdict(float)
    for file in folder.glob("table*.csv"):
        with file.open(newline="") as rows:
            for row in csv.DictReader(rows):
                name = row[report.range_column].rpartition(":")[2]
                totals[name] += float(row[report.ns_column])
    return dict(totals)
