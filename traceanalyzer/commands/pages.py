"""The option `--html FILE`: the result as a page, beside what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def page_file(command: _Command) -> _Command:
    """Where the page goes: --html FILE."""
    return click.option(
        "--html",
        "page",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write it as one HTML page too, which opens offline.",
    )(command)


def check_outputs(output: Path | None, page: Path | None, traces: tuple[Path, ...]) -> None:
    """Refuse outputs that would destroy a trace or each other, before minutes of work.

    Raises:
        InputError: One is a trace, lies inside of one, or is a folder; or both are one file.
    """
    from traceanalyzer.commands.inputs import check_output
    from traceanalyzer.errors import InputError

    check_output(output, traces)
    check_output(page, traces)
    if output is not None and page is not None and output.resolve() == page.resolve():
        raise InputError("-o and --html name the same file", where=page)
