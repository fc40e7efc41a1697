"""Virtual environments of the peers, one each, made when first needed and kept.

Nothing of ours needs them: a peer that cannot be installed is a row that says why.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_INSTALL_LIMIT_S: Final = 900


class Unavailable(Exception):
    """A peer that cannot be installed, with the reason."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A peer's environment.

    Attributes:
        folder: Where it is.
        version: Of the peer in it.
    """

    folder: Path
    version: str


def installed(environments: Path, name: str, requirement: str, package: str) -> Environment:
    """The environment with a package in it, made when it is not there.

    Args:
        environments: Folder of all of them.
        name: The folder's name in it.
        requirement: What pip is asked for.
        package: The distribution whose version counts.

    Raises:
        Unavailable: pip could not install it.
    """
    folder = environments / name
    version = _version(folder, package)
    if version is None:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement])
        version = _version(folder, package)
    if version is None:
        raise Unavailable(f"not installed: {requirement} holds no {package}")
    return Environment(folder, version)


def _version(folder: Path, package: str) -> str | None:
    python = folder / "bin" / "python"
    if not python.exists():
        return None
    program = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    command = [str(python), "-c", program, package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_INSTALL_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"not installed: not done in {_INSTALL_LIMIT_S} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        said = errors[-1] if errors else (done.stderr.strip().splitlines() or ["no reason"])[-1]
        raise Unavailable(f"not installed: {said[:160]}")
