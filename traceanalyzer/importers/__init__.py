"""From files to one Trace: each format is recognised by its content, never by its name.

A format is a module with `recognises(path, head)` and `read(path, progress)`, and one line in
`_formats`; `nsys_report` is the exception, which turns a report into an export that another
format reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import polars as pl

from traceanalyzer.errors import InputError
from traceanalyzer.importers import (
    nsys_parquet,
    nsys_report,
    nsys_sqlite,
    saved_trace,
)
from traceanalyzer.importers.nsys_processes import ALL, Processes, census
from traceanalyzer.importers.ranks import rank_in
from traceanalyzer.progress import Progress, silent
from traceanalyzer.trace import Trace, concatenate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["FilePart", "divided_file", "files_of", "load", "ranked_by_file_name", "read_part"]

_HEAD_BYTES = 4096
_RANK_DIGITS = 4  # a longer number in a file name is a date or a time


class _Format(Protocol):
    def recognises(self, path: Path, head: bytes) -> bool: ...

    def read(self, path: Path, progress: Progress) -> Trace: ...


def _formats() -> Iterator[_Format]:
    """The formats in the order in which they are tried."""
    yield from (nsys_sqlite, nsys_parquet)
    from traceanalyzer.importers import torch_profiler  # 10 ms that exports of nsys do not need

    yield from (torch_profiler, saved_trace)


def load(
    path: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    nsys: str | None = None,
    progress: Progress = silent,
) -> Trace:
    """Read one capture: a file, an export folder, or the files of a run's ranks.

    Args:
        path: A file or folder, or several; a folder that is no export itself stands for the
            traces in it.
        nsys: The Nsight Systems command line to export reports with; found when None.
        progress: Told about each stage.

    Returns:
        One Trace; ranks come from the files' own metadata, else from the file names.

    Raises:
        InputError: A path does not exist, is of no known format, or is damaged.
    """
    files = files_of(path)
    traces = [read_part(FilePart(file), nsys, progress) for file in files]
    if len(traces) > 1:
        traces = ranked_by_file_name(files, traces)
    return concatenate(traces)


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, or some processes of one.

    Attributes:
        path: The file.
        processes: Of an SQLite export: which.
        last_ns: Of those: the end of the whole recording, where ranges were never closed.
        kernels: Of those: how many kernels they have.
    """

    path: Path
    processes: Processes = ALL
    last_ns: int | None = None
    kernels: int = 0


def files_of(path: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Path]:
    """The files that stand for one capture, each once; the arguments are those of `load`.

    Raises:
        InputError: A path does not exist, or is no trace and no folder of any.
    """
    paths = [path] if isinstance(path, str | PathLike) else list(path)
    files = _once([file for each in paths for file in _files_of(Path(each))])
    if not files:
        raise InputError("no trace was given", next_step="Name a trace, or a folder of traces.")
    return files


def read_part(part: FilePart, nsys: str | None, progress: Progress = silent) -> Trace:
    """Read a file, or some of its processes; ranks only as the file itself tells them.

    Raises:
        InputError: It is of no known format, or is damaged.
    """
    trace = _read(part, nsys, progress)
    if part.last_ns is not None:
        end = pl.when("closed").then("end_ns").otherwise(part.last_ns).alias("end_ns")
        trace = replace(trace, ranges=trace.ranges.with_columns(end))
    return trace


def divided_file(path: Path, nsys: str | None, progress: Progress = silent) -> list[FilePart]:
    """A file as parts of one process with kernels each, or as one part where it cannot be divided.

    Raises:
        InputError: A report cannot be exported.
    """
    is_report = nsys_report.recognises(path, _head(path))
    export = nsys_report.export(path, nsys, progress) if is_report else path
    counted = census(export) if _format_of(export) is nsys_sqlite else None
    if counted is None:
        return [FilePart(path)]
    ids, kernels = list(counted.kernels), list(counted.kernels.values())
    bounds = [None, *ids[1:], None]
    return [
        FilePart(path, Processes(first, end), counted.last_ns, size)
        for first, end, size in zip(bounds, bounds[1:], kernels, strict=False)
    ]


def _files_of(path: Path) -> list[Path]:
    """The traces a path stands for."""
    try:
        if not path.exists():
            raise InputError("no such file or folder", where=path)
        if not path.is_dir() or _format_of(path) is not None:
            return [path]
        children = sorted(path.iterdir(), key=lambda child: _natural(child.name))
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", where=path) from None
    found = _one_of_each_stem([child for child in children if _is_trace(child)])
    if not found:
        raise InputError(
            "the folder holds no trace",
            where=path,
            next_step="Expected nsys reports (.nsys-rep), their SQLite or parquet exports, "
            "torch.profiler traces (.json, .json.gz), or what `traceanalyzer export --to parquet` "
            "wrote.",
        )
    return found


def _once(files: Sequence[Path]) -> list[Path]:
    """Each file once, however often and by whatever name it was given."""
    return list({file.resolve(): file for file in reversed(files)}.values())[::-1]


def _one_of_each_stem(paths: Sequence[Path]) -> list[Path]:
    """A report and its exports are one rank: the report stands for them, else the first export.

    `nsys_report` uses an export beside the report itself, when it is no older.
    """
    chosen: dict[str, Path] = {}
    for path in paths:
        stem = _stem(path)
        if stem not in chosen or nsys_report.recognises(path, _head(path)):
            chosen[stem] = path
    return list(chosen.values())


def _stem(path: Path) -> str:
    return re.sub(r"(\.nsys-rep|\.qdrep|\.qdstrm|\.sqlite|_pqtdir)$", "", path.name)


def _is_trace(path: Path) -> bool:
    """Whether a file found in a folder is a trace; other tools' databases are not."""
    format_ = _format_of(path)
    if format_ is nsys_sqlite:
        return nsys_sqlite.is_export(path)
    return format_ is not None or nsys_report.recognises(path, _head(path))


def _format_of(path: Path) -> _Format | None:
    head = _head(path)
    return next((format_ for format_ in _formats() if format_.recognises(path, head)), None)


def _head(path: Path) -> bytes:
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", where=path) from None


def _read(part: FilePart, nsys: str | None, progress: Progress) -> Trace:
    """Read one file; the trace names the file that was given, not the export made from it."""
    path = part.path
    is_report = nsys_report.recognises(path, _head(path))
    export = nsys_report.export(path, nsys, progress) if is_report else path
    format_ = _format_of(export)
    if format_ is None:
        is_empty = path.is_file() and not _head(path)
        raise InputError(
            "the file is empty" if is_empty else "the format is not known",
            where=path,
            next_step="Expected an nsys report (.nsys-rep), its SQLite or parquet export, "
            "a torch.profiler trace (.json, .json.gz), or what `traceanalyzer export --to parquet` "
            "wrote.",
        )
    if format_ is nsys_sqlite:
        trace = nsys_sqlite.read(export, progress, part.processes)
    else:
        trace = format_.read(export, progress)
    if format_ is saved_trace:  # which names the files that it was once read from
        return trace
    return replace(trace, files=trace.files.with_columns(path=pl.lit(_printable(path))))


def ranked_by_file_name(files: Sequence[Path], traces: Sequence[Trace]) -> list[Trace]:
    """Give each file's processes the rank its name tells, where the file itself tells none."""
    ranks = [rank_in(file.name) for file in files]
    if None in ranks or len(set(ranks)) < len(ranks):
        ranks = _differing_number([file.name for file in files])
    return [
        trace if rank is None or trace.processes.height != 1 else _with_rank(trace, rank)
        for trace, rank in zip(traces, ranks, strict=True)
    ]


def _with_rank(trace: Trace, rank: int) -> Trace:
    return replace(trace, processes=trace.processes.with_columns(pl.col("rank").fill_null(rank)))


def _differing_number(names: Sequence[str]) -> list[int | None]:
    """The one number in which the names differ ("out_0.json", "out_1.json"), if there is one."""
    numbers = [re.findall(r"\d+", name) for name in names]
    shapes = {re.sub(r"\d+", "#", name) for name in names}
    if len(shapes) == 1:
        for column in zip(*numbers, strict=True):
            if len(set(column)) == len(names) and max(map(len, column)) <= _RANK_DIGITS:
                return [int(text) for text in column]
    return [None] * len(names)


def _printable(path: Path) -> str:
    """A path as text; bytes that are no UTF-8 read as question marks."""
    return str(path).encode(errors="replace").decode()


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key under which rank_10 comes after rank_9."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]
