"""HolisticTraceAnalysis, on PyPI now `traceinsight`: kernels, and kernels by user annotation."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

from peers.environments import Unavailable, installed
from peers.range_truth import ANNOTATED, EVERYTHING
from peers.tools.tool import Missing, Tool
from peers.traces import KINETO

if TYPE_CHECKING:
    from pathlib import Path

    from peers.tools.tool import Totals

NAME: Final = "hta"
_TITLE: Final = "HolisticTraceAnalysis"
_NOTE: Final = (
    "load, kernel breakdown, kernels by user annotation; where the last raises (ValueError: left "
    "side of interval must be <= right side), ranges have no row"
)
_PROGRAM: Final = """
import json, os, sys
from hta.trace_analysis import TraceAnalysis
trace, out = sys.argv[1:]
analysis = TraceAnalysis(trace_files={0: trace}, trace_dir=os.path.dirname(trace))
kernels = analysis.get_gpu_kernel_breakdown(visualize=False)[1]
found = {"kernel_us": float(kernels["sum (us)"].sum())}
try:
    rows = analysis.get_gpu_kernels_with_user_annotations(0)
    if rows is not None:
        by_name = rows.groupby("s_user_annotation")["dur"].sum()
        found["annotated_us"] = {str(name): float(us) for name, us in by_name.items()}
except Exception as error:
    print(type(error).__name__, error, file=sys.stderr)
json.dump(found, open(out, "w"))
"""


def tools(environments: Path, requirement: str) -> list[Tool | Missing]:
    """Loading, kernel breakdown, and kernels with their annotations, in one process."""
    try:
        there = installed(environments, NAME, requirement, requirement.partition("==")[0])
    except Unavailable as error:
        return [Missing(_TITLE, (KINETO,), str(error))]
    command = partial(_command, there.folder)
    return [Tool(_TITLE, there.version, (KINETO,), command, ANNOTATED, _answer, note=_NOTE)]


def _command(environment: Path, trace: Path, folder: Path) -> list[str]:
    out = str(folder / "found.json")
    return [str(environment / "bin" / "python"), "-c", _PROGRAM, str(trace), out]


def _answer(folder: Path) -> Totals:
    found = json.loads((folder / "found.json").read_text())
    totals: Totals = defaultdict(float, {EVERYTHING: found["kernel_us"] * 1000})
    for name, us in found.get("annotated_us", {}).items():
        totals[name.split(":")[1] if ":" in name else name] += us * 1000
    return dict(totals)
