"""File permissions as a user meets them, also where tests run as root."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65534


@contextmanager
def without_rights_of_root(folder: Path) -> Iterator[None]:
    """Give up root's rights for a while; `folder` is one that pytest made for the test.

    Modules that are imported meanwhile may be unreadable: import them before.
    """
    if os.geteuid():
        yield
        return
    temporary = Path(tempfile.gettempdir())
    for parent in (folder, *folder.parents):
        if temporary in parent.parents:
            parent.chmod(parent.stat().st_mode | 0o711)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
