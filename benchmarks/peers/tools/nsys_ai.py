"""nsys-ai: kernels by the innermost range around their launch (its skill nvtx_layer_breakdown)."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

from peers.environments import Unavailable, installed
from peers.range_truth import INNERMOST
from peers.tools.tool import Missing, Tool
from peers.traces import SQLITE

if TYPE_CHECKING:
    from pathlib import Path

    from peers.tools.tool import Totals

NAME: Final = "nsys-ai"
_ALL_RANGES: Final = ("-p", "auto_depth=False", "-p", "limit=100000", "-p", "report=compact")


def tools(environments: Path, requirement: str) -> list[Tool | Missing]:
    """The skill, from a cold start: its own cache is left out."""
    try:
        there = installed(environments, NAME, requirement, "nsys-ai")
    except Unavailable as error:
        return [Missing(NAME, (SQLITE,), str(error))]
    return [
        Tool(
            "nsys-ai nvtx_layer_breakdown",
            there.version,
            (SQLITE,),
            partial(_command, there.folder),
            INNERMOST,
            _answer,
            writes=True,
            note="its DuckDB reader is downloaded; without a network it reads with sqlite3",
        )
    ]


def _command(environment: Path, trace: Path, _folder: Path) -> list[str]:
    program = str(environment / "bin" / "nsys-ai")
    skill = ("skill", "run", "nvtx_layer_breakdown", str(trace), "--format", "json")
    return [program, *skill, *_ALL_RANGES]


def _answer(folder: Path) -> Totals:
    totals: Totals = defaultdict(float)
    for row in json.loads((folder / "stdout").read_text()):
        if "nvtx_region" in row:
            totals[row["nvtx_region"]] += row["total_gpu_ms"] * 1e6
    return dict(totals)
