"""TraceLens of AMD: its PyTorch performance report.

It is on no package registry: the TraceLens of PyPI is another program. It is installed from its
repository, or from a checkout of it.
"""

from __future__ import annotations

import csv
from functools import partial
from typing import TYPE_CHECKING, Final

from peers.environments import Unavailable, installed
from peers.range_truth import BUSY, EVERYTHING
from peers.tools.tool import Missing, Tool
from peers.traces import KINETO

if TYPE_CHECKING:
    from pathlib import Path

    from peers.tools.tool import Totals

NAME: Final = "tracelens"
_TITLE: Final = "TraceLens perf report"


def tools(environments: Path, requirement: str) -> list[Tool | Missing]:
    """The report as CSV files."""
    try:
        there = installed(environments, NAME, requirement, "TraceLens")
    except Unavailable as error:
        return [Missing(_TITLE, (KINETO,), str(error))]
    command = partial(_command, there.folder)
    return [Tool(_TITLE, there.version, (KINETO,), command, BUSY, _answer)]


def _command(environment: Path, trace: Path, folder: Path) -> list[str]:
    program = str(environment / "bin" / "TraceLens_generate_perf_report_pytorch")
    where = ("--profile_json_path", str(trace), "--output_csvs_dir", str(folder / "tables"))
    return [program, *where]


def _answer(folder: Path) -> Totals:
    with (folder / "tables" / "gpu_timeline.csv").open(newline="") as rows:
        by_type = {row["type"]: float(row["time ms"]) for row in csv.DictReader(rows)}
    return {EVERYTHING: by_type["busy_time"] * 1e6}
