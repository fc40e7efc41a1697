"""What an earlier command found in the same files, kept in the user's cache folder.

A report is kept as it is before its verdict, so that other baselines and acceptance cost nothing;
a trace as its tables. Both are found by the files' states, by what was chosen, and by this version
of the code. `--no-cache` neither looks there nor keeps anything.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from traceanalyzer.cache.store import Store
    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.report import Report
    from traceanalyzer.trace import Trace

_Kept = TypeVar("_Kept")
_Command = TypeVar("_Command", bound="Callable[..., Any]")

_CHOICE: Final = "traceanalyzer.cache"
_WORTH_S: Final = 1.0
"""A result that took less is made again: the cache is for what one waits for."""
_PASSING: Final = frozenset({"missing rank", "memory"})
"""Checks of this run rather than of its files: such a report is not kept."""
_REPORT_FILE: Final = "report.json"


def cache_choice(command: _Command) -> _Command:
    """Whether to use the cache: --no-cache."""
    return click.option(
        "--cache/--no-cache",
        "cache",
        default=True,
        expose_value=False,
        callback=_choose,
        help="Use what an earlier command found in the same files (default), or read them anew and "
        "keep nothing.",
    )(command)


def _choose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    ctx.meta[_CHOICE] = value


def kept_report(
    files: Sequence[Path],
    nsys: str | None,
    options: AnalysisOptions,
    analysed: Callable[[AnalysisOptions], Report],
) -> Report:
    """A report from the cache with its verdict, else made and kept.

    Args:
        files: The traces of one capture.
        nsys: Nsight Systems command line to export reports with.
        options: How to analyse them; what is known is not part of what is kept.
        analysed: Makes the report.
    """
    from traceanalyzer.verdict.judgement import judged
    from traceanalyzer.verdict.known import Known
    from traceanalyzer.verdict.two_pass import unjudged

    place = None
    if options.layers_from is None:
        place = _Place.of(files, nsys, "report", _rules(options), str(options.infer))
    found = None if place is None else place.found(_read_report)
    if found is None:
        started = time.perf_counter()
        found = made = analysed(replace(options, known=Known()))
        if place is not None and _PASSING.isdisjoint(check.check for check in found.trust):
            place.keep(started, lambda folder: _write_report(made, folder))
    return judged(unjudged(found), options.known)


def _rules(options: AnalysisOptions) -> str:
    if options.phases_file is None:
        return "shipped"
    try:
        return options.phases_file.read_bytes().hex()
    except OSError:
        return "unreadable"  # analysing tells why


def kept_trace(files: Sequence[Path], nsys: str | None, loaded: Callable[[], Trace]) -> Trace:
    """A trace from the cache, else read and kept."""
    place = _Place.of(files, nsys, "trace")
    found = None if place is None else place.found(_read_trace)
    if found is None:
        started = time.perf_counter()
        found = trace = loaded()
        if place is not None:
            place.keep(started, lambda folder: _write_trace(trace, folder))
    return found


class _Place:
    """Where one result is kept."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key

    @classmethod
    def of(cls, files: Sequence[Path], nsys: str | None, *choices: str) -> _Place | None:
        """None where nothing is to be kept, or the files cannot be looked at."""
        context = click.get_current_context(silent=True)
        if context is None or not context.meta.get(_CHOICE, False):
            return None
        from traceanalyzer.cache.store import Store, key_of
        from traceanalyzer.importers.nsys_export_cache import sibling

        shown = "\n".join(map(str, files))  # as it stands in what was found
        try:
            exports = [found for file in files if file.is_file() and (found := sibling(file))]
            return cls(Store.default(), key_of([*files, *exports], shown, nsys or "", *choices))
        except OSError:
            return None

    def found(self, read: Callable[[Path], _Kept]) -> _Kept | None:
        """What is kept there; what cannot be read goes."""
        folder = self._store.find(self._key)
        if folder is None:
            return None
        try:
            return read(folder)
        except _unreadable():
            self._store.discard(self._key)
            return None

    def keep(self, started_s: float, write: Callable[[Path], None]) -> None:
        """Keep a result that took long enough; where that fails, say so and go on."""
        if time.perf_counter() - started_s < _WORTH_S:
            return
        if reason := self._store.keep(self._key, write):
            click.echo(f"note: nothing was kept in the cache: {reason}", err=True)


def _unreadable() -> tuple[type[Exception], ...]:
    import polars as pl

    from traceanalyzer.errors import InputError

    return (OSError, InputError, pl.exceptions.PolarsError)


def _read_report(folder: Path) -> Report:
    from traceanalyzer.report import Report

    return Report.from_json((folder / _REPORT_FILE).read_bytes())


def _write_report(report: Report, folder: Path) -> None:
    (folder / _REPORT_FILE).write_bytes(report.to_json())


def _read_trace(folder: Path) -> Trace:
    import polars as pl

    from traceanalyzer import schema
    from traceanalyzer.trace import Trace

    tables = {}
    for table in schema.TABLES:
        with (folder / f"{table.name}.arrow").open("rb") as file:
            tables[table.name] = pl.read_ipc(file)
    return Trace.checked(tables)


def _write_trace(trace: Trace, folder: Path) -> None:
    from traceanalyzer import schema

    for table in schema.TABLES:
        frame = getattr(trace, table.name)
        frame.write_ipc(folder / f"{table.name}.arrow", compression="lz4")
