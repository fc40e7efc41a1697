"""Arguments and options that commands share, and where their results go."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from traceanalyzer.commands.arrays import load_numpy
from traceanalyzer.commands.kept import cache_choice

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., Any]")


class Share(click.FloatRange):
    """A number from 0 to 1; not-a-number is none."""

    name = "share"

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is not a number from 0 to 1.", param, ctx)
        return number


class Positive(click.FloatRange):
    """A finite number above 0."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class _TracePath(click.Path):
    """A path that was really given: an empty text would mean the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value in ("", b""):
            self.fail("no such file or folder: the name is empty.", param, ctx)
        return super().convert(value, param, ctx)


def trace_inputs(command: _Command) -> _Command:
    """The traces to read, and how: TRACE..., --phases, --nsys."""
    return _trace_inputs(command, required=True)


def optional_trace_inputs(command: _Command) -> _Command:
    """The same where other options may name what to read."""
    return _trace_inputs(command, required=False)


def _trace_inputs(command: _Command, *, required: bool) -> _Command:
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
        "traces", metavar="TRACE...", nargs=-1, required=required, type=_TracePath()
    )
    return traces(phases(nsys(cache_choice(_with_numpy(command)))))


def _with_numpy(command: _Command) -> _Command:
    """The command, which loads numpy as commands need it before it reads."""

    @wraps(command)
    def run(*given: Any, **options: Any) -> Any:
        load_numpy()
        return command(*given, **options)

    return cast("_Command", run)


def inference_choice(command: _Command) -> _Command:
    """Whether to infer phases: --no-infer."""
    return click.option(
        "--infer/--no-infer",
        "infer",
        default=True,
        help="Where no range means a phase, infer phases from what GPU work repeats (default), "
        "or leave it without.",
    )(command)


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


def format_for(output: Path | None, suffixes: dict[str, str]) -> str:
    """The form that an output file's suffix asks for, "terminal" for any other."""
    return suffixes.get(output.suffix, "terminal") if output else "terminal"


def check_output(output: Path | None, traces: tuple[Path, ...]) -> None:
    """Refuse an output that would destroy a trace, before minutes of work.

    Raises:
        InputError: The output is one of the traces, or lies inside of one, or is a folder.
    """
    if output is None:
        return
    from traceanalyzer.errors import InputError

    try:
        real = output.resolve()
        taken = any(real == trace.resolve() or trace.resolve() in real.parents for trace in traces)
        is_folder = output.is_dir()
    except OSError as error:
        raise InputError(f"it cannot be written: {error.strerror}", where=output) from None
    except RuntimeError:  # what Python before 3.13 says of it
        raise InputError("it cannot be written: the links lead in a circle", where=output) from None
    if taken and not is_folder:
        raise InputError(
            "this is a trace that is read, not a file to write to",
            where=output,
            next_step="Name another file with -o.",
        )
    if is_folder or not output.name:
        raise InputError("this is a folder", where=output, next_step="Name a file with -o.")


def deliver(data: bytes, output: Path | None) -> None:
    """Write to a file, whole or not at all, or else to standard output.

    Raises:
        InputError: It cannot be written.
    """
    from traceanalyzer.errors import InputError

    try:
        if output is None:
            _write_out(data)
        elif output.exists() and not output.is_file():
            output.write_bytes(data)  # a pipe or device is written to, not replaced
        else:
            _replace(output.resolve(), data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            f"it cannot be written: {error.strerror}",
            where=output or "standard output",
            next_step="Name a file in a folder that exists, may be written to, and has room.",
        ) from None


def _write_out(data: bytes) -> None:
    if sys.stdout is None:  # closed by whoever started us: nobody reads
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _replace(target: Path, data: bytes) -> None:
    """Write beside the target and rename, so that a reader never sees a part."""
    number, name = tempfile.mkstemp(prefix=".traceanalyzer-", dir=target.parent)
    part = Path(name)
    try:
        os.close(number)
        part.write_bytes(data)
        part.chmod(0o666 & ~umask())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def umask() -> int:
    """The mode bits that a new file of this process does not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
