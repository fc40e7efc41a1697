"""What a wheel would hold: the data beside the code, and the licences of what is not ours."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.harness import REPOSITORY

PACKAGES = ("traceanalyzer", "nvtx_hooks")
VENDOR = "traceanalyzer/renderers/html/vendor"


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


def data_files() -> list[str]:
    """Files of the packages that are no code."""
    return [
        str(path.relative_to(REPOSITORY))
        for package in PACKAGES
        for path in sorted((REPOSITORY / package).rglob("*"))
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    ]


def test_what_is_read_at_run_time_lies_in_the_packages() -> None:
    found = data_files()
    for folder, suffix in (
        ("traceanalyzer/renderers/html/static", ".js"),
        ("traceanalyzer/renderers/html/static", ".css"),
        (VENDOR, ".js.gz"),
        ("traceanalyzer/phases", "rules.toml"),
        ("traceanalyzer/kernels", "classes.toml"),
        ("traceanalyzer/kernels", "collectives.toml"),
        ("nvtx_hooks/reference", "hooks.toml"),
    ):
        assert [path for path in found if path.startswith(folder) and path.endswith(suffix)]


def test_the_wheel_takes_the_packages_whole(project: dict[str, Any]) -> None:
    """hatchling takes all of a package but what is excluded or ignored by git."""
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert sorted(wheel["packages"]) == sorted(PACKAGES)
    for part in (wheel, project["tool"]["hatch"]["build"]):
        assert part.keys().isdisjoint({"exclude", "include", "only-include", "artifacts"})


@pytest.mark.skipif(shutil.which("git") is None, reason="asks git")
def test_git_ignores_no_file_of_the_packages() -> None:
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", *data_files()],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.stdout == ""


def test_licences_of_what_is_not_ours_come_along(project: dict[str, Any]) -> None:
    patterns = project["project"]["license-files"]
    licences = [path for path in data_files() if ".LICENSE" in path]
    for path in ["LICENSE", *licences]:
        assert any(fnmatchcase(path, pattern) for pattern in patterns), path
    vendored = [path for path in data_files() if path.startswith(VENDOR) and path not in licences]
    for path in vendored:
        name = path.removeprefix(f"{VENDOR}/").split("-")[0]
        assert any(licence.startswith(f"{VENDOR}/{name}") for licence in licences), path
    assert vendored
