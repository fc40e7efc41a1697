"""`traceanalyzer report`: the answer of one capture, for a person or a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.commands.analysing import Resources, analyzed, resource_options
from traceanalyzer.commands.inputs import (
    Share,
    deliver,
    format_for,
    inference_choice,
    optional_trace_inputs,
    output_file,
)
from traceanalyzer.commands.known import KnownOptions, known_options
from traceanalyzer.commands.layers import layers_option, with_layers
from traceanalyzer.commands.pages import check_outputs, page_file
from traceanalyzer.commands.passing_on import outside
from traceanalyzer.commands.two_pass import combined, passes, two_pass_options

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Report

_SUFFIXES = {".json": "json", ".md": "markdown", ".csv": "csv", ".html": "html"}


@click.command()
@optional_trace_inputs
@two_pass_options
@inference_choice
@layers_option
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["terminal", "json", "markdown", "csv", "html"]),
    help="Form of the report (default: by the output file's suffix, else terminal).",
)
@click.option(
    "--kernels",
    is_flag=True,
    help="On the terminal, also the kernels that take most time; with csv, all of them instead of "
    "the phases. JSON and HTML hold them anyway.",
)
@resource_options
@output_file
@page_file
@known_options
@click.option(
    "--min-coverage",
    metavar="SHARE",
    type=Share(),
    help="Exit with 3 when less of the busy GPU time was launched in phase ranges (0..1).",
)
def command(
    traces: tuple[Path, ...],
    phases_file: Path | None,
    nsys: str | None,
    totals: Path | None,
    shares: Path | None,
    infer: bool,
    layers_from: Path | None,
    format_name: str | None,
    kernels: bool,
    jobs: int | None,
    memory: int | None,
    scheduler: str | None,
    output: Path | None,
    page: Path | None,
    min_coverage: float | None,
    **known: Any,
) -> None:
    """Print whether speculation wins, where the GPU time of a decode cycle goes, and what to do.

    TRACE is an nsys report (.nsys-rep), its SQLite or parquet export, or a torch.profiler trace
    (.json, .json.gz); several files, or a folder of them, are the ranks of one run.
    """
    from traceanalyzer.pipeline import AnalysisOptions

    both = passes(traces, totals, shares)
    check_outputs(output, page, both or traces)
    chosen = format_name or format_for(output, _SUFFIXES)
    if kernels and chosen == "markdown":
        raise click.UsageError("--kernels goes with the terminal and csv; json and html have them.")
    options = AnalysisOptions(phases_file, infer=infer)
    options.rules()  # a wrong rule file is told before minutes of reading
    options = replace(options, known=KnownOptions(**known).read(nsys, options))
    options = with_layers(options, layers_from, nsys)
    report = (
        combined(*both, nsys, options)
        if both
        else analyzed(traces, nsys, options, Resources(jobs, memory, scheduler))
    )
    to_file = output is not None
    told = outside(report, shown=chosen == "terminal" and not to_file)
    deliver(_rendered(told, chosen, to_file=to_file, kernels=kernels), output)
    if page is not None:
        deliver(_rendered(outside(report), "html", to_file=True), page)
    _check_gate(report, min_coverage)


def _rendered(report: Report, format_name: str, *, to_file: bool, kernels: bool = False) -> bytes:
    if format_name == "json":
        return report.to_json() + b"\n"
    if format_name == "html":
        from traceanalyzer.renderers.html.report_page import render_report_page

        return render_report_page(report)
    if format_name == "markdown":
        from traceanalyzer.renderers.markdown import render_markdown

        return render_markdown(report).encode()
    if format_name == "csv":
        from traceanalyzer.renderers.csv_tables import render_csv, render_kernel_csv

        return (render_kernel_csv if kernels else render_csv)(report).encode(errors="replace")
    from traceanalyzer.renderers.terminal import render_terminal

    return render_terminal(report, plain=to_file, kernels=kernels).encode(errors="replace")


def _check_gate(report: Report, min_coverage: float | None) -> None:
    if min_coverage is None:
        return
    from traceanalyzer.errors import GateError

    share = report.coverage.covered_share if report.coverage else 0.0
    if share < min_coverage:
        raise GateError(
            f"coverage is {share:.2%}, below the {min_coverage:.2%} asked for",
            next_step="See what was launched outside phase ranges with: traceanalyzer ranges TRACE",
        )
