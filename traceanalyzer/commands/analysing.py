"""A capture's report or trace, by as much of this machine, or of a cluster, as was asked for."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.pipeline.workers import Submits
    from traceanalyzer.report import Report
    from traceanalyzer.trace import Trace

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_UNITS: Final = ("", "K", "M", "G", "T")


@dataclass(frozen=True, slots=True)
class Resources:
    """What an analysis may use.

    Attributes:
        jobs: How many ranks at once; None for what is worth it.
        memory: Bytes to stay within, about; None for no limit.
        scheduler: Of a Dask cluster whose workers are to do it; None for this machine.
    """

    jobs: int | None = None
    memory: int | None = None
    scheduler: str | None = None


def resource_options(command: _Command) -> _Command:
    """What the analysis may use: --jobs, --memory, --scheduler; for `Resources`."""
    jobs = click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(min=1),
        help="Ranks to analyse at once, each in a process of its own (default: as many as there "
        "are processors, fewer where files are small).",
    )
    memory = click.option(
        "--memory",
        metavar="SIZE",
        callback=_bytes,
        help="Memory to stay within, about (1GB): ranks are read and measured a few at a time.",
    )
    scheduler = click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Dask cluster to analyse the ranks on, by its scheduler's address or file; workers "
        "read the files where they lie (needs traceanalyzer[dask]).",
    )
    return jobs(memory(scheduler(command)))


def _bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A number with kB, MB, GB or TB (KiB, MiB, ...) in bytes; without a unit it is bytes."""
    del ctx
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([KMGT])(i?))?B?", value.strip(), re.IGNORECASE)
    size = 0.0
    if found is not None:
        number, unit, binary = found.groups()
        size = float(number) * (1024 if binary else 1000) ** _UNITS.index((unit or "").upper())
    if size < 1 or not isfinite(size):
        raise click.BadParameter(f"{value} is no size such as 500MB or 2GB.", param=param)
    return int(size)


def analyzed(
    traces: tuple[Path, ...],
    nsys: str | None,
    options: AnalysisOptions,
    resources: Resources | None = None,
) -> Report:
    """The report of the traces of one capture, from the cache where it is known.

    Args:
        traces: Files and folders of one capture.
        nsys: Nsight Systems command line to export reports with.
        options: How to analyse it.
        resources: What to use for it; this machine as far as is worth it when None.
    """
    from traceanalyzer.commands.kept import kept_report
    from traceanalyzer.importers import files_of

    files = files_of(traces)
    asked = resources or Resources()
    if options.layers_from is not None and asked != Resources():
        raise click.UsageError(
            "--layers-from reads a capture as a whole: leave out --jobs, --memory and --scheduler."
        )
    if asked.scheduler is not None:  # what lies there under this name need not be what lies here
        return _on_cluster(files, nsys, options, asked)
    return kept_report(files, nsys, options, lambda chosen: _anew(files, nsys, chosen, asked))


def _on_cluster(
    files: Sequence[Path], nsys: str | None, options: AnalysisOptions, resources: Resources
) -> Report:
    """Analysed by the workers of a cluster, which stand in folders of their own."""
    rules = options.phases_file
    whole = replace(options, phases_file=None if rules is None else rules.absolute())
    return _anew([file.absolute() for file in files], nsys, whole, resources)


def _anew(
    files: Sequence[Path], nsys: str | None, options: AnalysisOptions, resources: Resources
) -> Report:
    """Analysed rank by rank.

    Draft steps and layers of another capture are told by rank, so with that it is read as a whole.
    """
    from traceanalyzer.commands.progress_bar import progress_bar
    from traceanalyzer.pipeline import analyze
    from traceanalyzer.pipeline.planning import plan

    with progress_bar() as progress:
        limits = {"jobs": resources.jobs, "memory": resources.memory}
        planned = plan(files, **limits, nsys=nsys, progress=progress)
    alone = len(planned.parts) == 1 and not planned.notes and resources.scheduler is None
    if alone or options.layers_from is not None:
        traces = [_read(files, nsys)]
        with progress_bar() as progress:
            return analyze(traces.pop(), options, progress=progress)  # which then lets go of it
    from traceanalyzer.pipeline.files import Run, analyze_files

    run = Run(options.phases_file, options.infer, nsys, planned.notes)
    with progress_bar() as progress, _workers(resources, planned.jobs) as workers:
        return analyze_files(planned.parts, run, options.known, workers, progress)


def _workers(resources: Resources, jobs: int) -> AbstractContextManager[Submits | None]:
    if resources.scheduler is not None:
        from traceanalyzer.pipeline.cluster import Cluster

        return Cluster(resources.scheduler)
    if jobs == 1:
        return nullcontext()
    from traceanalyzer.pipeline.workers import WorkerProcesses

    return WorkerProcesses(jobs)


def read_traces(traces: tuple[Path, ...], nsys: str | None) -> Trace:
    """The traces of one capture, from the cache where they are known."""
    from traceanalyzer.commands.kept import kept_trace
    from traceanalyzer.importers import files_of

    files = files_of(traces)
    return kept_trace(files, nsys, lambda: _read(files, nsys))


def _read(files: Sequence[Path], nsys: str | None) -> Trace:
    """Read with a progress bar on anything over a second."""
    from traceanalyzer.allocator import keep_freed_memory
    from traceanalyzer.commands.progress_bar import progress_bar
    from traceanalyzer.importers import load

    keep_freed_memory()
    with progress_bar() as progress:
        return load(files, nsys=nsys, progress=progress)
