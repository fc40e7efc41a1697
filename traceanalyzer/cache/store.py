"""Folders kept by key: written whole or not at all, and bounded by size."""

from __future__ import annotations

import errno
import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import traceanalyzer
from traceanalyzer.cache.folder import (
    KEPT_SUFFIX,
    LIMIT_BYTES,
    bytes_in,
    cache_folder,
    make_room,
    partial_in,
    remove,
    remove_at_once,
    touch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Store:
    """The kept folders of one cache folder.

    Attributes:
        folder: The cache folder; it is made when something is kept.
        limit_bytes: What all that is in it may take; a folder of more is not kept.
    """

    folder: Path
    limit_bytes: int = LIMIT_BYTES

    @classmethod
    def default(cls) -> Store:
        """That of this user."""
        return cls(cache_folder())

    def find(self, key: str) -> Path | None:
        """The folder kept under a key.

        Another run may remove it at any time: what cannot be read was not kept.
        """
        kept = self._place(key)
        try:
            found = kept.is_dir()
        except OSError:  # a folder of somebody else
            return None
        if not found:
            return None
        touch(kept)
        return kept

    def keep(self, key: str, write: Callable[[Path], None]) -> str | None:
        """Keep what `write` puts into the empty folder that it is given.

        Returns:
            Why it could not be kept, None when it was, or when a concurrent run was faster.
        """
        try:
            partial = partial_in(self.folder)
        except OSError as error:
            return f"the cache folder {self.folder} cannot be written to: {error.strerror}"
        try:
            write(partial)
            if bytes_in(partial) > self.limit_bytes:
                return f"it takes more than the cache's {self.limit_bytes >> 20:,} MiB"
            partial.replace(self._place(key))
        except OSError as error:
            another_was_faster = error.errno in (errno.ENOTEMPTY, errno.EEXIST)
            return None if another_was_faster else f"{self.folder}: {error.strerror}"
        finally:
            if partial.exists():
                remove(partial)
        with suppress(OSError):
            make_room(self.folder, self._place(key), self.limit_bytes)
        return None

    def discard(self, key: str) -> None:
        """Remove what turned out to be damaged, so that it can be kept anew."""
        with suppress(OSError):
            remove_at_once(self._place(key))

    def _place(self, key: str) -> Path:
        return self.folder / f"{key}{KEPT_SUFFIX}"


def key_of(sources: Iterable[Path], *choices: str) -> str:
    """A key of files or folders as they are now, of choices, and of this version of the code.

    Raises:
        OSError: A source cannot be looked at.
    """
    found = hashlib.sha256(_code().encode())
    for source in sources:
        for file in _files(source.resolve()):
            status = file.stat()
            times = f"{status.st_mtime_ns} {status.st_ctime_ns}"  # the second cannot be set
            state = f"{file}\0{status.st_size}\0{times}\0{status.st_ino}\n"
            found.update(state.encode(errors="surrogateescape"))
    for choice in choices:
        found.update(b"\0" + choice.encode(errors="surrogateescape"))
    return found.hexdigest()[:32]


def _files(source: Path) -> list[Path]:
    """Also what SQLite has not yet written into its file."""
    if source.is_dir():
        return sorted(source.iterdir())
    log = source.with_name(f"{source.name}-wal")
    return [source, log] if log.exists() else [source]


@cache
def _code() -> str:
    """The version, and the state of the package's files: an editable installation changes."""
    package = Path(traceanalyzer.__file__).parent
    files = [each for pattern in ("*.py", "*.toml") for each in package.rglob(pattern)]
    newest = max(file.stat().st_mtime_ns for file in files)
    return f"{traceanalyzer.__version__} {len(files)} {newest}"
