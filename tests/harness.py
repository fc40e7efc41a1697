"""What the tests share: the command line as a user runs it, and what this machine may lack.

Mark a test `needs_nsys`, `needs_chromium` or `needs_shared` and it is skipped where that is
missing, unless the environment variable TRACEANALYZER_REQUIRE (names after a comma) asks for it:
then it fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REPOSITORY = Path(__file__).resolve().parents[1]
SAMPLE_TRACES = REPOSITORY / "sample_traces"

needs_nsys = pytest.mark.needs_nsys
_NSYS_DIES = ("Dynamic exception type: boost::", "Connection reset by peer")
needs_chromium = pytest.mark.needs_chromium
needs_shared = pytest.mark.needs_shared


def shared_folder() -> Path | None:
    """The folder of real traces: TRACEANALYZER_SHARED, or `shared` beside the checkout."""
    named = os.environ.get("TRACEANALYZER_SHARED")
    folder = Path(named) if named else REPOSITORY.parent / "shared"
    return folder if folder.is_dir() else None


def real_nsys() -> Path | None:
    """The Nsight Systems command line of this machine."""
    found = shutil.which("nsys")
    return Path(found) if found else None


def real_chromium() -> Path | None:
    """The Chromium of this machine; Playwright drives it, and downloads none of its own."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    return Path(found) if found else None


_REQUIREMENTS: Mapping[str, Callable[[], Path | None]] = {
    "nsys": real_nsys,
    "chromium": real_chromium,
    "shared": shared_folder,
}


def missing_for(markers: set[str]) -> str | None:
    """The first thing that a test with these marks needs and this machine lacks."""
    for name, find in _REQUIREMENTS.items():
        if f"needs_{name}" in markers and find() is None:
            return name
    return None


def required_markers() -> set[str]:
    """The marks whose tests must run, as TRACEANALYZER_REQUIRE says.

    Raises:
        pytest.UsageError: It names something that no mark is about.
    """
    names = {name for name in os.environ.get("TRACEANALYZER_REQUIRE", "").split(",") if name}
    unknown = names - set(_REQUIREMENTS)
    if unknown:
        raise pytest.UsageError(f"TRACEANALYZER_REQUIRE: unknown {', '.join(sorted(unknown))}")
    return {f"needs_{name}" for name in names}


class NsysDiedError(Exception):
    """Nsight Systems ended by an exception of its own, so a test can tell nothing of ours."""


@dataclass(frozen=True)
class CompletedResult:
    """What a finished command left.

    Raises:
        NsysDiedError: It says that Nsight Systems died.
    """

    exit_code: int
    stdout: str
    stderr: str

    def __post_init__(self) -> None:
        if any(sign in self.stderr for sign in _NSYS_DIES):
            raise NsysDiedError(self.stderr)


def run_cli(
    *arguments: str | Path, cwd: Path = REPOSITORY, env: Mapping[str, str] | None = None
) -> CompletedResult:
    """Run `traceanalyzer` with these arguments; `env` adds to the environment."""
    path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "traceanalyzer", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return CompletedResult(done.returncode, done.stdout, done.stderr)
