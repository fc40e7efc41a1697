"""`traceanalyzer export`: the trace for other tools, with what the analysis found in it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.analysing import read_traces
from traceanalyzer.commands.inputs import (
    check_output,
    deliver,
    inference_choice,
    trace_inputs,
    umask,
)
from traceanalyzer.commands.passing_on import PassedOn

if TYPE_CHECKING:
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.renderers.saved_tables import Form
    from traceanalyzer.trace import Trace


@click.command()
@trace_inputs
@inference_choice
@click.option(
    "--to",
    "form",
    required=True,
    type=click.Choice(["perfetto", "parquet", "csv"]),
    help="One gzipped file for Perfetto, or a folder of tables.",
)
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    required=True,
    type=click.Path(path_type=Path),
    help="File (OUT.pftrace.gz) or folder to write.",
)
@click.option("--force", is_flag=True, help="Replace OUT when it is there.")
def command(
    traces: tuple[Path, ...],
    phases_file: Path | None,
    nsys: str | None,
    infer: bool,
    form: str,
    output: Path,
    force: bool,
) -> None:
    """Write the trace for other tools: Perfetto, or anything that reads parquet or CSV.

    Perfetto (ui.perfetto.dev opens the file, nothing is uploaded) shows cycles, phases, streams,
    CPU ranges and API calls of every rank, with a flow from each launch to its ops. A folder holds
    the trace's tables, the phase, rank and cycle of every op, every cycle with its windows, and
    tables.md, which explains the columns. A parquet folder can be given wherever a trace can.
    """
    from traceanalyzer.pipeline import AnalysisOptions

    if form == "perfetto":
        _check_file(output, traces, force=force)
    else:
        _check_folder(output, traces, force=force)
    rules = AnalysisOptions(phases_file).rules()
    trace = read_traces(traces, nsys)
    if form == "perfetto":
        _write_perfetto(trace, rules, output, infer=infer)
    else:
        trace = PassedOn.of_command().trace(trace)
        _write_folder(trace, rules, output, "csv" if form == "csv" else "parquet", infer=infer)


def _check_file(output: Path, traces: tuple[Path, ...], *, force: bool) -> None:
    """Refuse, before minutes of work, to write over anything that was not meant.

    Raises:
        InputError: The output is a folder or a trace, or is there already.
    """
    from traceanalyzer.errors import InputError

    check_output(output, traces)
    if output.is_file() and not force:
        raise InputError("is there already", where=output, next_step="Use --force to replace it.")


def _check_folder(output: Path, traces: tuple[Path, ...], *, force: bool) -> None:
    """Refuse anything but a new folder, or with `--force` one that an export wrote.

    Raises:
        InputError: The output is a file or a trace, lies inside of one or holds one, is there
            already, or holds files of somebody else.
    """
    from traceanalyzer.errors import InputError
    from traceanalyzer.renderers.saved_tables import file_names

    try:
        real = output.resolve()
        read = [trace.resolve() for trace in traces]
        if any(real == path or path in real.parents or real in path.parents for path in read):
            raise InputError(
                "a trace that is read is here", where=output, next_step="Name another folder."
            )
        if output.exists() and not output.is_dir():
            raise InputError("this is no folder", where=output, next_step="Name a folder with -o.")
        if not output.is_dir():
            return
        if not force:
            raise InputError(
                "is there already", where=output, next_step="Use --force to replace it."
            )
        own = file_names("parquet") | file_names("csv")
        other = sorted(path.name for path in output.iterdir() if path.name not in own)
    except OSError as error:
        raise _not_written(output, error) from None
    if other:
        raise InputError(
            f"the folder holds what no export wrote ({other[0]}), and is not replaced",
            where=output,
            next_step="Name another folder.",
        )


def _write_perfetto(trace: Trace, rules: Rules, output: Path, *, infer: bool) -> None:
    from traceanalyzer.assembly.timeline import whole_timeline
    from traceanalyzer.renderers.perfetto import perfetto_file

    lanes = whole_timeline(trace, rules, infer=infer)
    deliver(perfetto_file(lanes), output)
    for note in lanes.notes:
        click.echo(note, err=True)


def _write_folder(trace: Trace, rules: Rules, output: Path, form: Form, *, infer: bool) -> None:
    """Write beside the target and rename, so that it is never there in part.

    Raises:
        InputError: It cannot be written.
    """
    from polars.exceptions import PolarsError

    from traceanalyzer.assembly.derived_tables import derived_tables
    from traceanalyzer.renderers.saved_tables import write_tables

    derived = derived_tables(trace, rules, infer=infer)
    try:
        final = output.resolve()
        part = Path(tempfile.mkdtemp(prefix=".traceanalyzer-", dir=final.parent))
        try:
            write_tables(part, trace, derived, form)
            part.chmod(0o777 & ~umask())
            _put_in_place(part, final)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except (OSError, PolarsError) as error:
        raise _not_written(output, error) from None


def _put_in_place(part: Path, final: Path) -> None:
    """Rename, with what stands there moved aside first and back again if that fails."""
    if not final.exists():
        part.rename(final)
        return
    aside = part.with_name(f"{part.name}-replaced")
    final.rename(aside)
    try:
        part.rename(final)
    except OSError:
        aside.rename(final)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _not_written(output: Path, error: Exception) -> Exception:
    from traceanalyzer.errors import InputError

    what = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return InputError(
        f"it cannot be written: {what}",
        where=output,
        next_step="Name a place that exists, may be written to, and has room.",
    )
