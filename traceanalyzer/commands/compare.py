"""`traceanalyzer compare`: what changed between two captures, for a person or for CI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.inputs import (
    deliver,
    format_for,
    output_file,
    trace_inputs,
)
from traceanalyzer.commands.pages import check_outputs, page_file
from traceanalyzer.commands.passing_on import outside

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Report
    from traceanalyzer.report.comparison import Comparison

_SUFFIXES = {".json": "json", ".md": "markdown", ".html": "html"}

_LOSS = re.compile(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)\s*")


def _loss(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """A share below 1, from "5%", "5 %" or "0.05"."""
    if text is None:
        return None
    found = _LOSS.fullmatch(text)
    share = float(found[1]) / (100 if found[2] else 1) if found else 1.0
    if share >= 1:
        raise click.BadParameter(f"{text!r} is no share below 1: write 5% or 0.05.")
    return share


_length = click.FloatRange(min=0, min_open=True)


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
@click.option(
    "--accept-len-a",
    type=_length,
    metavar="NUMBER",
    help="Accept length of A, bonus token included, where A holds no accept marks.",
)
@click.option(
    "--accept-len-b",
    type=_length,
    metavar="NUMBER",
    help="Accept length of B, bonus token included, where B holds no accept marks.",
)
@click.option(
    "--fail-on-regression",
    callback=_loss,
    metavar="SHARE",
    help="Exit with 3 when B's tokens per second are lower than A's by more than this (5% or "
    "0.05). A loss counts only when its 95 % interval lies beyond SHARE; captures that are not "
    "comparable fail too.",
)
def command(
    traces: tuple[Path, ...],
    phases_file: Path | None,
    nsys: str | None,
    format_name: str | None,
    output: Path | None,
    page: Path | None,
    accept_len_a: float | None,
    accept_len_b: float | None,
    fail_on_regression: float | None,
) -> None:
    """Print what changed from one capture to another, per cycle and per committed token.

    Name two, A and then B; each is a trace, a folder of the files of its ranks, an nsys report, or
    a report that `report --format json` wrote. Cycles are compared with cycles of the same shape:
    phase by phase, and kernel class by kernel class where both recorded kernels. Where one capture
    speculates and the other does not, plain decode is also compared with verify.
    """
    import traceanalyzer
    from traceanalyzer.report import Tool
    from traceanalyzer.verdict.comparison import compare_reports

    if len(traces) != 2:
        raise click.UsageError(f"Name two captures, A and B, not {len(traces)}.")
    check_outputs(output, page, traces)
    a, b = _reports(traces, phases_file, nsys)
    found = compare_reports(
        a,
        b,
        tool=Tool("traceanalyzer", traceanalyzer.__version__),
        accept_len_a=accept_len_a,
        accept_len_b=accept_len_b,
    )
    chosen = format_name or format_for(output, _SUFFIXES)
    to_file = output is not None
    told = outside(found, shown=chosen == "terminal" and not to_file)
    deliver(_rendered(told, chosen, to_file=to_file), output)
    if page is not None:
        deliver(_rendered(outside(found), "html", to_file=True), page)
    if fail_on_regression is not None:
        _check_gate(found, fail_on_regression)


def _reports(traces: tuple[Path, ...], phases_file: Path | None, nsys: str | None) -> list[Report]:
    from traceanalyzer.commands.reports import report_of
    from traceanalyzer.pipeline import AnalysisOptions

    options = AnalysisOptions(phases_file)
    options.rules()  # a wrong rule file is told before minutes of reading
    return [report_of(path, nsys, options) for path in traces]


def _rendered(found: Comparison, format_name: str, *, to_file: bool) -> bytes:
    if format_name == "json":
        return found.to_json() + b"\n"
    if format_name == "html":
        from traceanalyzer.renderers.html.comparison_page import render_comparison_page

        return render_comparison_page(found)
    from traceanalyzer.renderers.comparison import render_markdown, render_terminal

    if format_name == "markdown":
        return render_markdown(found).encode()
    return render_terminal(found, plain=to_file).encode(errors="replace")


def _check_gate(found: Comparison, allowed_share: float) -> None:
    from traceanalyzer.errors import GateError
    from traceanalyzer.verdict.regression import regressions

    judged = regressions(found, allowed_share)
    allowed = f"{allowed_share:.1%} allowed"
    if judged.sure:
        raise GateError(f"slower than the {allowed}: {'; '.join(judged.sure)}")
    if judged.not_judged:
        raise GateError(
            f"a regression cannot be ruled out: {'; '.join(judged.not_judged)}",
            next_step="Record both captures in the same way, at the same load, for longer.",
        )
    if judged.doubtful:
        click.echo(
            f"not sure, and so no failure: {'; '.join(judged.doubtful)}, whose interval holds the "
            f"{allowed}; record more cycles to tell",
            err=True,
        )
