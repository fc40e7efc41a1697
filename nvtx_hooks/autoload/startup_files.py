"""The files in site-packages that start the hooks in every Python process of an environment.

The wheel brings them; these functions put them there and take them away by hand.
"""

from __future__ import annotations

import os
import site
import sysconfig
from pathlib import Path
from typing import Final

CONTENT: Final = {
    "nvtx_hooks.pth": (
        'import os; (os.environ.get("NVTX_HOOKS") or os.environ.get("EAGLE3_PROFILE")) '
        'and __import__("nvtx_hooks.autoload").autoload.start()\n'
    ),
    "nvtx_hooks.start": "nvtx_hooks.autoload:start\n",
}
"""Text of each file. The `.pth` line runs up to Python 3.14; from 3.15 on the `.start` file does.

The wheel moves the files beside this module to the top of site-packages, so that an installed
package no longer has them here: tests hold the two to the same text.
"""


def site_folder() -> Path:
    """This environment's site-packages folder."""
    return Path(sysconfig.get_paths()["purelib"])


def site_folders() -> list[Path]:
    """Every folder whose start-up files this interpreter reads."""
    folders = [site_folder(), *map(Path, site.getsitepackages())]
    if site.ENABLE_USER_SITE:
        folders.append(Path(site.getusersitepackages()))
    return list(dict.fromkeys(folders))


def found() -> list[Path]:
    """The start-up files that this environment has."""
    paths = [folder / name for folder in site_folders() for name in CONTENT]
    return [path for path in paths if path.is_file()]


def write(folder: Path) -> list[Path]:
    """Put the start-up files into a folder.

    Raises:
        OSError: It cannot be written to; nothing half-written is left under the final names.
    """
    written = []
    for name, text in CONTENT.items():
        path = folder / name
        part = path.with_name(f".{name}.{os.getpid()}.part")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        written.append(path)
    return written


def remove(folder: Path) -> list[Path]:
    """Take the start-up files out of a folder.

    Returns:
        Those that were there.

    Raises:
        OSError: One cannot be removed.
    """
    there = [folder / name for name in CONTENT if (folder / name).is_file()]
    for path in there:
        path.unlink()
    return there
