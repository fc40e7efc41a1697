"""What reading alone costs: SQLite's scan of the columns, and Python's own JSON module."""

from __future__ import annotations

import platform
import sqlite3
import sys
from typing import TYPE_CHECKING, Final

from peers.tools.tool import Tool
from peers.traces import KINETO, SQLITE

if TYPE_CHECKING:
    from pathlib import Path

SCAN: Final = "SQLite's own scan"
JSON: Final = "Python's json module"
_SCAN: Final = """
import sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro&immutable=1", uri=True)
for table, columns in (
    ("CUPTI_ACTIVITY_KIND_KERNEL",
     "start end globalPid deviceId streamId correlationId graphNodeId demangledName"),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId eventClass"),
    ("NVTX_EVENTS", "start end globalTid textId domainId"),
):
    totals = ", ".join(f'total("{column}")' for column in columns.split())
    database.execute(f"SELECT {totals} FROM {table}").fetchall()
"""
_JSON: Final = """
import json, re, sys
text = open(sys.argv[1], encoding="utf-8", errors="replace").read()
place = re.search(r'"traceEvents"\\s*:\\s*\\[\\s*', text).end()
between, decode = re.compile(r"[\\s,]*"), json.JSONDecoder(strict=False).raw_decode
while text[place] != "]":
    _event, place = decode(text, place)
    place = between.match(text, place).end()
"""


def tools() -> list[Tool]:
    """Both."""
    return [
        Tool(SCAN, sqlite3.sqlite_version, (SQLITE,), _running(_SCAN), cheap=True),
        Tool(
            JSON,
            platform.python_version(),
            (KINETO,),
            _running(_JSON),
            cheap=True,
            note="decodes event by event and keeps none",
        ),
    ]


def _running(program: str) -> _Program:
    return _Program(program)


class _Program:
    """A Python program on the trace."""

    def __init__(self, program: str) -> None:
        self._program = program

    def __call__(self, trace: Path, _folder: Path) -> list[str]:
        return [sys.executable, "-c", self._program, str(trace)]
