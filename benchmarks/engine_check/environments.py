"""Virtual environments with one engine each, the project's hooks, and tiny models.

Everything comes from the package registry that pip is set up for; nothing else is downloaded.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cases import HERE, PROGRAMS, STANDINS, Setting

REPOSITORY = HERE.parents[1]


@dataclass(frozen=True)
class Place:
    """Where a setting lives: `venv`, `src/<version>` and `models` in one folder."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def models(self) -> Path:
        """The models."""
        return self.folder / "models"

    def source(self, version: str) -> Path:
        """The folder of an engine that is installed beside others."""
        return self.folder / "src" / version


def prepare(setting: Setting, root: Path, *, refresh_hooks: bool) -> Place:
    """Make what is not there yet; the project itself is installed again when asked.

    Raises:
        subprocess.CalledProcessError: pip or a program failed.
    """
    place = Place(root / setting.name)
    ready = place.folder / ".ready"
    if not ready.exists():
        _make(setting, place)
        ready.touch()
        refresh_hooks = True
    if refresh_hooks:
        _pip(place, "--no-deps", "--force-reinstall", str(REPOSITORY))
        subprocess.run(
            [place.python, PROGRAMS / f"{setting.name}_models.py", place.models], check=True
        )
    return place


def versions(place: Place) -> str:
    """The packages that matter for what is recorded, with their versions."""
    program = (
        "from importlib.metadata import version; "
        "print(', '.join(f'{name} {version(name)}' for name in ('nvtx', 'torch')))"
    )
    return _said_by(place, program)


def _make(setting: Setting, place: Place) -> None:
    print(f"setting up {setting.name} in {place.folder}", file=sys.stderr, flush=True)
    # The newest SGLang has compiled parts for Python 3.11 alone.
    python = shutil.which("python3.11") or sys.executable
    subprocess.run([python, "-m", "venv", place.folder / "venv"], check=True)
    requirements = str(HERE / "requirements" / f"{setting.name}.txt")
    _pip(place, *([] if setting.resolve else ["--no-deps"]), "-r", requirements)
    _pip(place, "nvtx>=0.2.11")
    if setting.packages:
        _pip(place, "--no-deps", *setting.packages)
    for version in setting.versions:
        _pip(place, "--no-deps", "--target", str(place.source(version)), f"sglang=={version}")
    if setting.drop:
        drop = ["-m", "pip", "uninstall", "--quiet", "--yes", *setting.drop]
        subprocess.run([place.python, *drop], check=True)
    if setting.startup:
        lines = f"{STANDINS / setting.name}\n{setting.startup}\n"
        (_site_packages(place) / "zz_engine_check.pth").write_text(lines)


def _pip(place: Place, *arguments: str) -> None:
    subprocess.run([place.python, "-m", "pip", "install", "--quiet", *arguments], check=True)


def _site_packages(place: Place) -> Path:
    return Path(_said_by(place, "import sysconfig; print(sysconfig.get_paths()['purelib'])"))


def _said_by(place: Place, program: str) -> str:
    told = subprocess.run([place.python, "-c", program], check=True, capture_output=True, text=True)
    return told.stdout.strip()
