"""`traceanalyzer ranges`: every range name, its times, and the phase it is read as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.analysing import read_traces
from traceanalyzer.commands.inputs import (
    check_output,
    deliver,
    format_for,
    output_file,
    trace_inputs,
)

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown"}


@click.command()
@trace_inputs
@click.option("--kernels", is_flag=True, help="Split each range by thread and kernel.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["terminal", "json", "csv", "markdown"]),
    help="Form of the table (default: by the output file's suffix, else terminal).",
)
@output_file
def command(
    traces: tuple[Path, ...],
    phases_file: Path | None,
    nsys: str | None,
    kernels: bool,
    format_name: str | None,
    output: Path | None,
) -> None:
    """List the ranges in a trace: count, GPU time, host time, and the phase each is read as.

    Use it to write phase rules (--phases) for names that the shipped rules do not know.
    """
    from traceanalyzer.analyses.range_tables import kernel_table, range_table
    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.renderers.tables import render_table

    check_output(output, traces)
    rules = AnalysisOptions(phases_file).rules()
    trace = read_traces(traces, nsys)
    table = kernel_table(trace) if kernels else range_table(trace, rules)
    chosen = format_name or format_for(output, _SUFFIXES)
    deliver(render_table(table, chosen, plain=output is not None), output)
