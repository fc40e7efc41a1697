"""The cache folder, and workspaces in it whose results get their final name by a rename."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTIAL_PREFIX: Final = ".traceanalyzer-partial-"
KEPT_SUFFIX: Final = ".traceanalyzer"
_OURS: Final = re.compile(  # what a `Store` keeps, and exports of nsys reports by their `Slot`
    rf"{re.escape(KEPT_SUFFIX)}\Z|(?:\.[0-9a-f]{{12}}){{2}}\.[\w.+-]+(?:\.sqlite|_pqtdir)\Z"
)
LIMIT_BYTES: Final = 8 << 30
"""What a cache folder may hold; the newest thing stays, however large."""
_ABANDONED_AFTER_S: Final = 24 * 3600


def cache_folder() -> Path:
    """Where things are kept: the first of three places that the environment names."""
    if named := os.environ.get("TRACEANALYZER_CACHE"):
        return Path(named)
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches, "traceanalyzer")
    try:
        return Path.home() / ".cache" / "traceanalyzer"
    except RuntimeError:  # neither HOME nor the password database knows this user
        return _temporary_folder()


@contextmanager
def workspace() -> Iterator[Path]:
    """A fresh folder in the cache folder, gone afterwards.

    Where the cache cannot be written to, it is in a folder that lives as long as this process.
    """
    try:
        folder = partial_in(cache_folder())
    except OSError:
        folder = partial_in(_temporary_folder())
    try:
        yield folder
    finally:
        remove(folder)


def partial_in(folder: Path) -> Path:
    """A fresh folder for what is not complete yet; what died runs left long ago goes.

    Raises:
        OSError: The cache folder cannot be made or written to.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    abandoned_before = time.time() - _ABANDONED_AFTER_S
    for left in folder.glob(f"{PARTIAL_PREFIX}*"):
        with suppress(OSError):
            if left.stat().st_mtime < abandoned_before:
                remove(left)
    return Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=folder))


def make_room(folder: Path, newest: Path, limit_bytes: int = LIMIT_BYTES) -> None:
    """Remove the longest unused of a cache folder until the rest and the newest keep the limit.

    Whatever else lies there stays: somebody may have named a folder of their own.
    """
    kept = [each for each in folder.iterdir() if _OURS.search(each.name)]
    used = bytes_in(newest)
    for each in sorted(kept, key=_last_used_ns, reverse=True):
        if each == newest:
            continue
        used += bytes_in(each)
        if used > limit_bytes:
            with suppress(OSError):
                remove_at_once(each)


def remove_at_once(kept: Path) -> None:
    """For all who look it is gone with a rename, however long removing takes.

    Raises:
        OSError: It is not there, or cannot be removed.
    """
    gone = partial_in(kept.parent)
    try:
        kept.rename(gone / kept.name)
    finally:
        remove(gone)


def touch(kept: Path) -> None:
    """Note that it was used."""
    with suppress(OSError):
        os.utime(kept)


def bytes_in(kept: Path) -> int:
    """What a file, or a folder of files, takes; 0 of what is gone."""
    total = 0
    with suppress(OSError):
        for file in kept.iterdir() if kept.is_dir() else [kept]:
            total += file.stat().st_size
    return total


def _last_used_ns(kept: Path) -> int:
    try:
        return kept.stat().st_mtime_ns
    except OSError:
        return 0


@cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="traceanalyzer-"))
    atexit.register(remove, folder)
    return folder


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as that can be done."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
