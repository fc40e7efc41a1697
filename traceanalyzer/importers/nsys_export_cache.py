"""Exports that are already there: beside the report, or in our cache from an earlier run.

An export is used only when it is whole and no older than its report.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from traceanalyzer.cache.folder import cache_folder, make_room, remove, touch

if TYPE_CHECKING:
    from pathlib import Path

_SQLITE_SUFFIX: Final = ".sqlite"
_FOLDER_SUFFIXES: Final = ("_pqtdir", ".pqtdir", ".parquetdir")
_SQLITE_MAGIC = b"SQLite format 3\0"
_PARQUET_MAGIC = b"PAR1"
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
    # A damaged schema may be quoted in an error in bytes that are no UTF-8.
    with suppress(OSError, sqlite3.Error, UnicodeDecodeError):
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
                touch(export)
                return export
        return None

    def keep(self, export: Path) -> Path:
        """Give an export, complete in a workspace, its final name.

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
        make_room(final.parent, final)
        return final

    def _final(self, folder: Path, suffix: str) -> Path:
        return folder / f"{self.report}.{self.state}.{self.nsys_version}{suffix}"

    def _remove_outdated(self, folder: Path) -> None:
        """Remove exports of what the report's path held before."""
        for export in folder.iterdir():
            of_path = export.name.startswith(f"{self.report}.")
            if of_path and not export.name.startswith(f"{self.report}.{self.state}."):
                with suppress(OSError):
                    remove(export)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]
