"""Running a fake engine in processes of its own, and reading what its hooks recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.nvtx_hooks.recorded import Event, Recording, read

if TYPE_CHECKING:
    from collections.abc import Mapping

FAKES = Path(__file__).resolve().parents[1] / "fake_engines"
REPOSITORY = FAKES.parents[1]


@dataclass(frozen=True)
class Process:
    """One process of a fake engine that hooked something.

    Attributes:
        recording: What its hooks emitted.
        truth: The engine's own account, in order.
        report: What its hooks said of themselves at exit.
    """

    recording: Recording
    truth: list[dict[str, Any]]
    report: dict[str, Any]

    def account(self, kind: str) -> list[dict[str, Any]]:
        """Lines of one kind in the engine's own account."""
        return [line for line in self.truth if line["kind"] == kind]


def run_fake(
    version: str,
    script: str,
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
) -> list[Process]:
    """Run a fake engine with recording hooks.

    Args:
        version: Its folder in `tests/fake_engines`.
        script: Script in `tests/fake_engines/common` that starts it.
        folder: Where its processes leave their records.
        arguments: The script's arguments.
        environment: Variables to add.

    Returns:
        The processes that kept an account, in no particular order.
    """
    path = [FAKES / version, FAKES / "common", FAKES / "fake_torch", FAKES / "startup", REPOSITORY]
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "FAKE_ENGINE_RECORD": str(folder),
        **(environment or {}),
    }
    completed = subprocess.run(
        [sys.executable, str(FAKES / "common" / script), *arguments],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stderr
    return [_process(truth, folder) for truth in folder.glob("truth.*.jsonl")]


def _process(truth: Path, folder: Path) -> Process:
    pid = truth.name.split(".")[1]
    events = folder / f"events.{pid}.jsonl"
    return Process(
        read(Event(*line) for line in _lines(events)),
        _lines(truth),
        json.loads((folder / f"report.{pid}.json").read_text()),
    )


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]
