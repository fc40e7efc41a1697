"""`traceanalyzer sweep`: captures at several draft lengths or batches, and the best of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.commands.analysing import analyzed
from traceanalyzer.commands.inputs import (
    deliver,
    format_for,
    output_file,
    trace_inputs,
)
from traceanalyzer.commands.known import KnownOptions, known_options
from traceanalyzer.commands.pages import check_outputs, page_file
from traceanalyzer.commands.passing_on import outside

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report.sweep import Sweep

_SUFFIXES = {".json": "json", ".md": "markdown", ".html": "html"}


@click.command()
@trace_inputs
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["terminal", "json", "markdown", "html"]),
    help="Form of the result (default: by the output file's suffix, else terminal).",
)
@output_file
@page_file
@known_options
def command(
    traces: tuple[Path, ...],
    phases_file: Path | None,
    nsys: str | None,
    format_name: str | None,
    output: Path | None,
    page: Path | None,
    **known: Any,
) -> None:
    """Compare captures at several draft lengths or batches, and predict the best.

    Each TRACE is one capture (a file, or a folder of the files of its ranks). A baseline tells the
    fixed step between a plain decode and verify from the cost of a token.
    """
    from traceanalyzer.errors import InputError
    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.verdict.sweep import sweep_of

    check_outputs(output, page, traces)
    options = AnalysisOptions(phases_file)
    options.rules()
    options = replace(options, known=KnownOptions(**known).read(nsys, options))
    sweep = sweep_of([analyzed((path,), nsys, options) for path in traces])
    if not sweep.batches:
        raise InputError(
            "none of these captures holds a cycle that speculates",
            where=", ".join(map(str, traces)),
            next_step="See what a capture holds with: traceanalyzer report TRACE",
        )
    chosen = format_name or format_for(output, _SUFFIXES)
    to_file = output is not None
    told = outside(sweep, shown=chosen == "terminal" and not to_file)
    deliver(_rendered(told, chosen, to_file=to_file), output)
    if page is not None:
        deliver(_rendered(outside(sweep), "html", to_file=True), page)


def _rendered(sweep: Sweep, format_name: str, *, to_file: bool) -> bytes:
    if format_name == "json":
        return sweep.to_json() + b"\n"
    if format_name == "html":
        from traceanalyzer.renderers.html.sweep_page import render_sweep_page

        return render_sweep_page(sweep)
    from traceanalyzer.renderers.sweep import render_sweep_markdown, render_sweep_terminal

    if format_name == "markdown":
        return render_sweep_markdown(sweep).encode()
    return render_sweep_terminal(sweep, plain=to_file).encode(errors="replace")
