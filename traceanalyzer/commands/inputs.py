"""Arguments and options that commands share, and loading with a progress bar."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.trace import Trace

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def trace_inputs(command: _Command) -> _Command:
    """The traces to read, and how: TRACE..., --phases, --nsys."""
    nsys = click.option(
        "--nsys",
        metavar="PATH",
        help="Nsight Systems command line to export reports with (default: found).",
    )
    phases = click.option(
        "--phases",
        "phases_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="TOML file of phase rules, tried before the shipped ones.",
    )
    traces = click.argument(
        "traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path)
    )
    return traces(phases(nsys(command)))


def output_file(command: _Command) -> _Command:
    """Where the result goes: -o FILE."""
    return click.option(
        "-o",
        "--output",
        "output",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write to a file instead of the terminal.",
    )(command)


def read_traces(traces: tuple[Path, ...], nsys: str | None) -> Trace:
    """Load the traces of one capture, with a progress bar on anything over a second."""
    from traceanalyzer.commands.allocator import keep_freed_memory
    from traceanalyzer.commands.progress_bar import progress_bar
    from traceanalyzer.importers import load

    keep_freed_memory()
    with progress_bar() as progress:
        return load(traces, nsys=nsys, progress=progress)


def deliver(data: bytes, output: Path | None) -> None:
    """Write to a file, whole or not at all, or else to standard output.

    Raises:
        InputError: The file cannot be written.
    """
    if output is None:
        sys.stdout.buffer.write(data)
        return
    from traceanalyzer.errors import InputError

    part = output.with_name(f".{output.name}.part")
    try:
        part.write_bytes(data)
        part.replace(output)
    except OSError as error:
        raise InputError(
            f"the file cannot be written: {error.strerror}",
            where=output,
            next_step="Name a file in a folder that exists and may be written to.",
        ) from None
    finally:
        part.unlink(missing_ok=True)
