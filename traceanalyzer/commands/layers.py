"""The option that names another capture to tell draft steps and layers: --layers-from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traceanalyzer.commands.analysing import read_traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.pipeline import AnalysisOptions

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def layers_option(command: _Command) -> _Command:
    """--layers-from TRACE."""
    return click.option(
        "--layers-from",
        type=click.Path(path_type=Path),
        metavar="TRACE",
        help="Another capture of the same server whose ranges tell draft steps and layers: an "
        "eager one, or one in which its graphs are constructed. They are carried over, by the "
        "order of kernels, to the graph replays of TRACE that lack them, or refused.",
    )(command)


def with_layers(options: AnalysisOptions, path: Path | None, nsys: str | None) -> AnalysisOptions:
    """The options with that capture, read.

    Args:
        options: How to analyse.
        path: The capture: a file, or a folder of ranks; None for none.
        nsys: Nsight Systems command line to export reports with.

    Raises:
        InputError: It cannot be read.
    """
    if path is None:
        return options
    return replace(options, layers_from=read_traces((path,), nsys))
