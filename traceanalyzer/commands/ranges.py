"""`traceanalyzer ranges`: every range name, its times, and the phase it is read as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.inputs import deliver, output_file, read_traces, trace_inputs

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@trace_inputs
@click.option("--kernels", is_flag=True, help="Split each range by thread and kernel.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["terminal", "json", "csv"]),
    default="terminal",
    help="Form of the table.",
)
@output_file
def command(
    traces: tuple[Path, ...],
    phases_file: Path | None,
    nsys: str | None,
    kernels: bool,
    format_name: str,
    output: Path | None,
) -> None:
    """List the ranges in a trace: count, GPU time, host time, and the phase each is read as.

    Use it to write phase rules (--phases) for names that the shipped rules do not know.
    """
    from traceanalyzer.analyses.range_tables import kernel_table, range_table
    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.renderers.tables import render_table

    rules = AnalysisOptions(phases_file).rules()
    trace = read_traces(traces, nsys)
    table = kernel_table(trace) if kernels else range_table(trace, rules)
    deliver(render_table(table, format_name, plain=output is not None), output)
