"""Reports of Nsight Systems (.nsys-rep, .qdrep, .qdstrm), turned into an export others read.

Only nsys itself reads a report, and only one no older than the report; nothing recorded is
changed on the way, but the environments in it are left behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Self

from traceanalyzer.cache.folder import cache_folder, workspace
from traceanalyzer.errors import ExportError
from traceanalyzer.importers import nsys_export_cache, nsys_trimming
from traceanalyzer.importers.nsys_command import (
    Nsys,
    candidates,
    child_environment,
    qdstrm_importer,
    release_number,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from traceanalyzer.progress import Progress

_REPORT = re.compile(rb"NVIDIA Tegra Profiler Report (?P<version>[\w@.-]*\w)")
_STREAM = re.compile(rb".{0,16}NVIDIA Nsight Systems Stream (?P<version>[\w.-]*\w)", re.DOTALL)
_HEAD_BYTES = 256
_LAST_UNVERSIONED = "2023.3.1"
_REFUSALS = (
    "newer than your current version",
    "Version number is invalid",
    "Version not supported",
)
_DISK_FULL = ("disk is full", "No space left", "Error writing bytes", "WriteFileException")
_GET_NSYS = "developer.nvidia.com/nsight-systems"


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file is a report, or the raw stream (.qdstrm) that a report is made from."""
    return path.is_file() and bool(_REPORT.match(head) or _STREAM.match(head))


def export(path: Path, nsys: str | None, progress: Progress) -> Path:
    """Find or make an export of a report.

    Args:
        path: A file that `recognises` accepts.
        nsys: The nsys to use, as the user named it; found when None.
        progress: Told about each stage.

    Returns:
        A whole export beside the report that is no older than it; else one in the cache folder
        ($TRACEANALYZER_CACHE, $XDG_CACHE_HOME/traceanalyzer or ~/.cache/traceanalyzer).

    Raises:
        ExportError: There is no nsys that reads this report, or it failed.
        InputError: The nsys that the user named does not run.
    """
    existing = nsys_export_cache.sibling(path)
    if existing:
        return existing
    report = _Report.at(path)
    tool = _tool_for(report, nsys)
    slot = nsys_export_cache.Slot.of(path, tool.version)
    stored = slot.stored()
    if stored:
        return stored
    try:
        with workspace() as folder:
            return slot.keep(_Job(report, tool, folder, progress).exported())
    except OSError as error:
        raise ExportError(
            f"its export could not be made: {error}", where=path, next_step=_room_in_cache()
        ) from None


def _room_in_cache() -> str:
    return (
        f"An export needs space in {cache_folder()}, or in the folder that "
        "the environment variable TRACEANALYZER_CACHE names instead."
    )


@dataclass(frozen=True, slots=True)
class _Report:
    """A report's path, what it is, and the release that recorded it (None: not stated)."""

    path: Path
    is_stream: bool
    release: str | None

    @classmethod
    def at(cls, path: Path) -> Self:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        stream = _STREAM.match(head)
        header = stream or _REPORT.match(head)
        stated = header["version"].decode().replace("@", ".").partition("-")[0] if header else ""
        return cls(path, bool(stream), stated if "." in stated else None)

    @property
    def recorder(self) -> str:
        return f"Nsight Systems {self.release or f'{_LAST_UNVERSIONED} or older'}"

    @property
    def readers(self) -> str:
        if self.release is None:
            return "Nsight Systems"
        return f"Nsight Systems {self.release}{'' if self.is_stream else ' or newer'}"

    def readable_by(self, nsys: Nsys) -> bool:
        """Whether it can be, as far as versions tell.

        A report needs an nsys no older than itself. A stream needs the importer of its own
        version: others refuse it or crash (2022.4 and 2023.4 on one another's).
        """
        if self.is_stream and qdstrm_importer(nsys) is None:
            return False
        if self.release is None:
            return True
        number = release_number(self.release)
        return nsys.number == number if self.is_stream else nsys.number >= number

    def by_hand(self) -> str:
        """The way without an nsys here, with the commands to copy."""
        report, database = self.path.name, quote(f"{self.path.stem}.sqlite")
        commands = []
        if self.is_stream:
            report = f"{self.path.stem}.nsys-rep"
            commands.append(f"QdstrmImporter -i {quote(self.path.name)} -o {quote(report)}")
        commands.append(f"nsys export --type sqlite --output {database} {quote(report)}")
        listing = "".join(f"\n    {command}" for command in commands)
        return (
            f"Where it was recorded, run{listing}\n"
            f"and put {database} beside the report, or give it instead of the report."
        )


def _tool_for(report: _Report, option: str | None) -> Nsys:
    """The first nsys that reads the report."""
    found = []
    for nsys in candidates(option):
        if report.readable_by(nsys):
            return nsys
        found.append(nsys)
    raise ExportError(
        f"recorded by {report.recorder}, and {_shortcoming(report, found)}",
        where=report.path,
        next_step=f"{report.by_hand()}\nOr install {report.readers} here ({_GET_NSYS}); name it "
        "with --nsys or the environment variable NSYS if it is not found by itself.",
    )


def _shortcoming(report: _Report, found: Sequence[Nsys]) -> str:
    if not found:
        return "no nsys was found here to export it"
    if report.is_stream:
        here = ", ".join(
            f"{nsys.path} ({nsys.release}{'' if qdstrm_importer(nsys) else ', no QdstrmImporter'})"
            for nsys in found
        )
        return f"only the QdstrmImporter of that version reads a .qdstrm; here is {here}"
    newest = max(found, key=lambda nsys: nsys.number)
    return f"the newest nsys here cannot read it: {newest.path} is {newest.release}"


@dataclass(frozen=True, slots=True)
class _Job:
    """One report on its way through nsys, inside a folder that is removed afterwards."""

    report: _Report
    nsys: Nsys
    workspace: Path
    progress: Progress

    def exported(self) -> Path:
        """An export of the tables we read.

        Raises:
            ExportError: nsys failed.
            OSError: What it wrote is damaged, or the disk is full.
        """
        source = self._imported() if self.report.is_stream else self.report.path
        as_folder = self.nsys.can_export("parquetdir", "--tables")
        whole = self.workspace / ("whole_pqtdir" if as_folder else "whole.sqlite")
        options = [
            f"--type={'parquetdir' if as_folder else 'sqlite'}",
            f"--output={whole.absolute()}",
        ]
        if self.nsys.can_export("--lazy"):
            options.append("--lazy=true")
        if self.nsys.can_export("--tables"):
            options.append(f"--tables={nsys_trimming.table_patterns()}")
        said = self._run("exporting", [self.nsys.path, "export", *options, source.absolute()])
        if not nsys_export_cache.is_whole(whole):
            raise self._failure("it left no complete export", said)
        self.progress("leaving out recorded environments", None)
        if as_folder:
            nsys_trimming.trim_folder(whole)
            return whole
        kept = self.workspace / "kept.sqlite"
        nsys_trimming.copy_database(whole, kept)
        return kept

    def _imported(self) -> Path:
        """The report made from a stream."""
        importer = qdstrm_importer(self.nsys)
        assert importer is not None
        target = self.workspace.absolute() / "imported.nsys-rep"
        # Its libraries lie beside it, and no other program may pick them up.
        env = {"LD_LIBRARY_PATH": str(importer.parent)}
        files = ("-i", self.report.path.absolute(), "-o", target)
        said = self._run("importing", [importer, *files], env)
        if not target.is_file():
            raise self._failure("its QdstrmImporter left no report", said)
        return target

    def _run(
        self, doing: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> str:
        """The last lines that a program printed on its way to success."""
        stage = f"{doing} {self.report.path.name} with nsys {self.nsys.release}"
        all_env = child_environment() | dict(env or {})
        finished = run(command, all_env, partial(self.progress, stage))
        if finished.exit_code < 0:
            reason = f"ended by signal {-finished.exit_code}"
            raise self._failure(reason, finished.last_lines)
        if finished.exit_code:
            raise self._failure(f"exit code {finished.exit_code}", finished.last_lines)
        return finished.last_lines

    def _failure(self, reason: str, said: str) -> ExportError:
        quoted = f"; its last lines:\n{said}" if said else ""
        if any(text in said for text in _DISK_FULL):
            return ExportError(
                f"nsys {self.nsys.release} could not write its export ({reason}){quoted}",
                where=self.report.path,
                next_step=_room_in_cache(),
            )
        next_step = self.report.by_hand()
        if any(text in said for text in _REFUSALS):
            did = "does not read it"
        else:
            did = "failed to export it"
            next_step = f"Is the file complete? It has {self._size()} bytes here.\n{next_step}"
        return ExportError(
            f"recorded by {self.report.recorder}; nsys {self.nsys.release} ({self.nsys.path}) "
            f"{did} ({reason}){quoted}",
            where=self.report.path,
            next_step=next_step,
        )

    def _size(self) -> str:
        return f"{self.report.path.stat().st_size:,}"
