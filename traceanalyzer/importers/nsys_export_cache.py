"""Exports that are already there: beside the report, or in our cache from an earlier run.

An export is used only when it is whole and no older than its report.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

_SQLITE_SUFFIX: Final = ".sqlite"
_FOLDER_SUFFIXES: Final = ("_pqtdir", ".pqtdir", ".parquetdir")
_SQLITE_MAGIC = b"SQLite format 3\0"
_PARQUET_MAGIC = b"PAR1"
_PARTIAL_PREFIX = ".partial-"
_ABANDONED_AFTER_SECONDS = 24 * 3600
_STEM_LETTERS = 40


def sibling(report: Path) -> Path | None:
    """A usable export beside the report, named as nsys names it."""
    exported_ns = report.stat().st_mtime_ns
    for suffix in (*_FOLDER_SUFFIXES, _SQLITE_SUFFIX):
        export = report.with_name(report.stem + suffix)
        if is_whole(export) and _modified_ns(export) >= exported_ns:
            return export
    return None


def is_whole(export: Path) -> bool:
    """Whether an export was written to its end.

    An nsys that is killed leaves an SQLite file without its first page, or a folder without its
    files; one that fills the disk leaves parquet files without their footer, and says it went
    well (2022.4, 2023.4).
    """
    with suppress(OSError, sqlite3.Error):
        return _is_whole_folder(export) if export.is_dir() else _is_whole_database(export)
    return False


def _is_whole_folder(export: Path) -> bool:
    needed = ("StringIds.parquet", "META_DATA_EXPORT.parquet")
    return all((export / name).is_file() for name in needed) and all(
        _ends_with(file, _PARQUET_MAGIC) for file in export.iterdir()
    )


def _ends_with(file: Path, magic: bytes) -> bool:
    with file.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(stream.tell() - len(magic), 0))
        return stream.read() == magic


def _is_whole_database(export: Path) -> bool:
    with export.open("rb") as stream:
        if stream.read(len(_SQLITE_MAGIC)) != _SQLITE_MAGIC:
            return False
    if export.with_name(export.name + "-journal").exists():
        return False
    with closing(sqlite3.connect(f"{export.resolve().as_uri()}?mode=ro", uri=True)) as database:
        # Fails, too, when the file is shorter than its header says.
        database.execute("SELECT id FROM StringIds LIMIT 1").fetchall()
    return True


def _modified_ns(export: Path) -> int:
    """When the oldest part of an export was written."""
    files = export.iterdir() if export.is_dir() else [export]
    return min(file.stat().st_mtime_ns for file in files)


@dataclass(frozen=True, slots=True)
class Slot:
    """The place in the cache of one report's export by one version of nsys.

    Attributes:
        report: The report's stem and a key of its path.
        state: A key of its size and its time of change.
        nsys_version: Who exports it.
    """

    report: str
    state: str
    nsys_version: str

    @classmethod
    def of(cls, report: Path, nsys_version: str) -> Self:
        """The slot of a report as it is now."""
        path, status = report.resolve(), report.stat()
        return cls(
            f"{path.stem[:_STEM_LETTERS]}.{_key(str(path))}",
            _key(f"{status.st_size} {status.st_mtime_ns}"),
            nsys_version,
        )

    def stored(self) -> Path | None:
        """The export in this slot, if there is one."""
        for suffix in (_FOLDER_SUFFIXES[0], _SQLITE_SUFFIX):
            export = self._final(cache_folder(), suffix)
            if is_whole(export):
                return export
        return None

    def keep(self, export: Path) -> Path:
        """Give an export, complete in a `workspace`, its final name.

        A concurrent run may have been faster; then its export, which holds the same, is used.

        Raises:
            OSError: The export cannot be renamed.
        """
        suffix = _FOLDER_SUFFIXES[0] if export.is_dir() else _SQLITE_SUFFIX
        final = self._final(export.parent.parent, suffix)
        try:
            export.replace(final)
        except OSError:
            if not is_whole(final):
                raise
        self._remove_outdated(final.parent)
        return final

    def _final(self, folder: Path, suffix: str) -> Path:
        return folder / f"{self.report}.{self.state}.{self.nsys_version}{suffix}"

    def _remove_outdated(self, folder: Path) -> None:
        """Remove exports of what the report's path held before."""
        for export in folder.iterdir():
            of_path = export.name.startswith(f"{self.report}.")
            if of_path and not export.name.startswith(f"{self.report}.{self.state}."):
                with suppress(OSError):
                    _remove(export)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]


@contextmanager
def workspace() -> Iterator[Path]:
    """A fresh folder in the cache, gone afterwards; `Slot.keep` moves an export out of it.

    Where the cache cannot be written to, it is in a folder that lives as long as this process.
    """
    try:
        folder = _partial_in(cache_folder())
    except OSError:
        folder = _partial_in(_temporary_folder())
    try:
        yield folder
    finally:
        _remove(folder)


def _partial_in(cache_folder: Path) -> Path:
    cache_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    abandoned_before = time.time() - _ABANDONED_AFTER_SECONDS
    for left in cache_folder.glob(f"{_PARTIAL_PREFIX}*"):
        with suppress(OSError):
            if left.stat().st_mtime < abandoned_before:
                _remove(left)
    return Path(tempfile.mkdtemp(prefix=_PARTIAL_PREFIX, dir=cache_folder))


def cache_folder() -> Path:
    """Where exports are kept: the first of three places that the environment names."""
    if named := os.environ.get("TRACEANALYZER_CACHE"):
        return Path(named)
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches, "traceanalyzer")
    try:
        return Path.home() / ".cache" / "traceanalyzer"
    except RuntimeError:  # neither HOME nor the password database knows this user
        return _temporary_folder()


@cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="traceanalyzer-"))
    atexit.register(_remove, folder)
    return folder


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
