"""The engines' own Python sources, from a package registry, kept between runs.

The folder that TRACEANALYZER_WHEELS names holds one folder a package and version; without it they
go to a temporary one. Nothing of them is imported or built into anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

_UNREACHABLE = (
    "Could not find a version",
    "No matching distribution",
    "ConnectionError",
    "NewConnectionError",
    "Max retries exceeded",
    "Temporary failure in name resolution",
    "ReadTimeout",
)


def cache_folder() -> Path:
    """Where sources are kept."""
    named = os.environ.get("TRACEANALYZER_WHEELS")
    folder = Path(named) if named else Path(tempfile.gettempdir()) / "traceanalyzer-wheels"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sources(package: str, version: str) -> Path:
    """Folder that holds a package's top-level folder in one version, downloaded once.

    A wheel is unpacked without being installed. vLLM has wheels of hundreds of megabytes, so its
    source archive is taken: pip unpacks it, then fails to build it, and the unpacked tree stays.

    Skips the test when the registry cannot be reached.
    """
    folder = cache_folder() / f"{package}-{version}"
    if (folder / package).is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        unpacked = Path(scratch, "unpacked")
        found = (
            _source_archive(package, version, Path(scratch))
            if package == "vllm"
            else _wheel(package, version, Path(scratch), unpacked)
        )
        shutil.copytree(found / package, unpacked / "kept" / package, ignore=_not_python)
        (unpacked / "kept").rename(folder)
    return folder


def _not_python(folder: str, entries: list[str]) -> list[str]:
    return [
        entry for entry in entries if not entry.endswith(".py") and not Path(folder, entry).is_dir()
    ]


def _pip_download(
    *arguments: str, temporary: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"TMPDIR": str(temporary)} if temporary else {})}
    return subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )


def _skip_when_unreachable(done: subprocess.CompletedProcess[str], wanted: str) -> None:
    if any(sign in done.stderr for sign in _UNREACHABLE):
        pytest.skip(f"the package registry has no {wanted}, or cannot be reached")


def _wheel(package: str, version: str, scratch: Path, unpacked: Path) -> Path:
    wanted = f"{package}=={version}"
    done = _pip_download("--only-binary", ":all:", "-d", str(scratch), wanted)
    _skip_when_unreachable(done, wanted)
    assert done.returncode == 0, done.stderr
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    return unpacked


def _source_archive(package: str, version: str, scratch: Path) -> Path:
    wanted = f"{package}=={version}"
    done = _pip_download(
        "--no-binary", package, "--no-build-isolation", "--no-clean", "-d", str(scratch), wanted,
        temporary=scratch,
    )  # fmt: skip
    trees = [path.parent for path in scratch.glob(f"pip-*/*/{package}") if path.is_dir()]
    if not trees:
        _skip_when_unreachable(done, wanted)
    assert trees, done.stderr
    return trees[0]
