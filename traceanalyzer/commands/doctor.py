"""`traceanalyzer doctor`: what is wrong with a capture, and the flag that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.analysing import analyzed
from traceanalyzer.commands.inputs import (
    check_output,
    deliver,
    format_for,
    output_file,
    trace_inputs,
)
from traceanalyzer.commands.passing_on import outside

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Finding
    from traceanalyzer.report.diagnosis import Diagnosis

_SUFFIXES = {".json": "json", ".md": "markdown"}


@click.command()
@trace_inputs
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["terminal", "json", "markdown"]),
    help="Form of the findings (default: by the output file's suffix, else terminal).",
)
@output_file
@click.option(
    "--strict", is_flag=True, help="Exit with 3 when there is a finding that is not just a note."
)
def command(
    traces: tuple[Path, ...],
    phases_file: Path | None,
    nsys: str | None,
    format_name: str | None,
    output: Path | None,
    strict: bool,
) -> None:
    """Print what is wrong with a capture: the evidence, what follows, and how to record it better.

    TRACE is what `report` reads. Names of environment variables that a file stores and that may be
    secret are listed, never their values.
    """
    from traceanalyzer.pipeline import AnalysisOptions

    check_output(output, traces)
    options = AnalysisOptions(phases_file)
    options.rules()  # a wrong rule file is told before minutes of reading
    report = analyzed(traces, nsys, options)
    findings = _with_secrets(report.findings, traces)

    from traceanalyzer.report.diagnosis import Diagnosis

    found = Diagnosis(tool=report.tool, files=report.capture.files, findings=findings)
    chosen = format_name or format_for(output, _SUFFIXES)
    to_file = output is not None
    told = outside(found, shown=chosen == "terminal" and not to_file)
    deliver(_rendered(told, chosen, to_file=to_file), output)
    if strict:
        _check_gate(findings)


def _with_secrets(findings: list[Finding], traces: tuple[Path, ...]) -> list[Finding]:
    """The findings, with the one on variables that the files themselves store."""
    from traceanalyzer.diagnosis.recording import secrets_stored
    from traceanalyzer.diagnosis.registry import gravest_first
    from traceanalyzer.importers.nsys_environment import stored_environment
    from traceanalyzer.importers.nsys_report_environment import recorded_variables

    files = [
        file
        for trace in traces
        for file in (trace, *(sorted(trace.iterdir()) if trace.is_dir() else ()))
    ]
    names = {name for file in files for name in stored_environment(file).variables}
    names |= {name for file in files for name in recorded_variables(file)}
    secret = secrets_stored(sorted(names))
    return findings if secret is None else gravest_first([*findings, secret])


def _rendered(found: Diagnosis, format_name: str, *, to_file: bool) -> bytes:
    if format_name == "json":
        return found.to_json() + b"\n"
    from traceanalyzer.renderers.findings import render_markdown, render_terminal

    if format_name == "markdown":
        return render_markdown(found).encode()
    return render_terminal(found, plain=to_file).encode(errors="replace")


def _check_gate(findings: list[Finding]) -> None:
    from traceanalyzer.diagnosis.case import INFO
    from traceanalyzer.errors import GateError

    grave = [finding.finding for finding in findings if finding.severity != INFO]
    if grave:
        raise GateError(
            f"the capture has {len(grave)} troubles: {', '.join(grave)}"
            if len(grave) > 1
            else f"the capture has a trouble: {grave[0]}"
        )
