"""The report of one capture, whether it is analysed now or was written before."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.commands.analysing import analyzed

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.report import Report

_REPORT_HEAD: Final = re.compile(rb'\s*\{\s*"schema_version"\s*:')
_HEAD_BYTES: Final = 256


def report_of(path: Path, nsys: str | None, options: AnalysisOptions) -> Report:
    """Read a report that `report --format json` wrote, else load a capture and analyse it.

    Args:
        path: A trace, a folder of ranks, an nsys report, or a report; told apart by content.
        nsys: Nsight Systems command line to export reports with.
        options: How to analyse a trace; a written report stays what it is.

    Raises:
        InputError: It cannot be read, or is neither.
    """
    if _is_report(path):
        return _read(path)
    return analyzed((path,), nsys, options)


def _is_report(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return _REPORT_HEAD.match(file.read(_HEAD_BYTES)) is not None
    except OSError:
        return False  # loading it as a trace tells why


def _read(path: Path) -> Report:
    from traceanalyzer.errors import InputError
    from traceanalyzer.report import Report

    try:
        return Report.from_json(path.read_bytes())
    except InputError as error:
        raise InputError(
            error.what,
            where=path,
            next_step="Name a trace, or write the report anew: traceanalyzer report --format json.",
        ) from None
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", where=path) from None
