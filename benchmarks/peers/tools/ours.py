"""Our own commands: the report, the report from a filled cache, and the step that reads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from peers.range_truth import EVERYTHING, PHASES, phase_name
from peers.tools.tool import Tool
from peers.traces import KINETO, PARQUETDIR, SQLITE

if TYPE_CHECKING:
    from pathlib import Path

    from peers.tools.tool import Totals

REPORT: Final = "traceanalyzer report"
CACHED: Final = "traceanalyzer report, from its cache"
READ: Final = "traceanalyzer, read step"
_FORMS: Final = (SQLITE, PARQUETDIR, KINETO)
_READ: Final = "import sys, traceanalyzer; traceanalyzer.load(sys.argv[1])"
_NO_CACHE: Final = "--no-cache"
_AS_INSTALLED: Final = {"PYTHONDONTWRITEBYTECODE": ""}
"""The run that warms up leaves bytecode, as an installation does: the peers have theirs."""


def tools() -> list[Tool]:
    """All of them; the cached report only where the command has a cache."""
    has_cache = _NO_CACHE in _help()
    own = version("traceanalyzer")
    plain = (_NO_CACHE,) if has_cache else ()
    found = [
        Tool(REPORT, own, _FORMS, _report(plain), PHASES, _phases, cheap=True, env=_AS_INSTALLED),
        Tool(READ, own, _FORMS, _read, cheap=True, env=_AS_INSTALLED, note="start-up included"),
    ]
    if has_cache:
        # The run that warms up fills the cache, which is kept between the runs of a trace.
        env = {**_AS_INSTALLED, "XDG_CACHE_HOME": "{folder}/../cache"}
        found.append(Tool(CACHED, own, _FORMS, _report(()), PHASES, _phases, cheap=True, env=env))
    return found


def _help() -> str:
    command = [sys.executable, "-m", "traceanalyzer", "report", "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _report(options: tuple[str, ...]) -> _Report:
    return _Report(options)


class _Report:
    """The command with its options."""

    def __init__(self, options: tuple[str, ...]) -> None:
        self._options = options

    def __call__(self, trace: Path, folder: Path) -> list[str]:
        out = ("--format", "json", "-o", str(folder / "report.json"))
        return [sys.executable, "-m", "traceanalyzer", "report", str(trace), *self._options, *out]


def _read(trace: Path, _folder: Path) -> list[str]:
    return [sys.executable, "-c", _READ, str(trace)]


def _phases(folder: Path) -> Totals:
    report = json.loads((folder / "report.json").read_text())
    totals: Totals = defaultdict(float)
    for rank in report["ranks"]:
        for row in rank["phases"]:
            ns = row["kernel_ns"] + row["graph_row_ns"]
            totals[phase_name(row["phase"])] += ns
            totals[EVERYTHING] += ns
    return dict(totals)
