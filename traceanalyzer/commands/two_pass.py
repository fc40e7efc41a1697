"""Options that make one report of two passes: totals of one, shares of the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.report import Report

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def two_pass_options(command: _Command) -> _Command:
    """--totals and --shares."""
    path = click.Path(path_type=Path)
    totals = click.option(
        "--totals",
        type=path,
        metavar="TRACE|REPORT",
        help="Instead of TRACE...: the pass that recorded graph replays as wholes; it gives times, "
        "launches and acceptance. A report of --format json will do.",
    )
    shares = click.option(
        "--shares",
        type=path,
        metavar="TRACE|REPORT",
        help="With --totals: the pass that recorded graph nodes, of the same server and load; it "
        "gives kernel classes, idle time, draft steps and layers, with the cost of recording nodes "
        "taken out.",
    )
    return totals(shares(command))


def passes(
    traces: tuple[Path, ...], totals: Path | None, shares: Path | None
) -> tuple[Path, Path] | None:
    """Both passes, None where traces are named instead.

    Raises:
        click.UsageError: Neither or both are named, or one pass only.
    """
    if totals is None and shares is None:
        if not traces:
            raise click.UsageError("Missing argument 'TRACE...' (or --totals and --shares).")
        return None
    if traces:
        raise click.UsageError("Name TRACE..., or --totals and --shares, not both.")
    if totals is None or shares is None:
        raise click.UsageError("--totals and --shares go together.")
    return totals, shares


def combined(totals: Path, shares: Path, nsys: str | None, options: AnalysisOptions) -> Report:
    """The report of two passes, with its verdict.

    Args:
        totals: Pass with whole-graph rows: a trace, a folder of ranks, or a report as JSON.
        shares: Pass with nodes, in the same forms.
        nsys: Nsight Systems command line to export reports with.
        options: How to analyse traces; what is known holds for the verdict.

    Raises:
        InputError: One cannot be read, or they are not two passes of one server.
    """
    from traceanalyzer.commands.reports import report_of
    from traceanalyzer.verdict.judgement import judged
    from traceanalyzer.verdict.two_pass import with_shares

    first, second = (report_of(path, nsys, options) for path in (totals, shares))
    return judged(with_shares(first, second), options.known)
