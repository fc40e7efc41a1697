from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nvtx_hooks.autoload import startup_files
from tests.harness import run_cli

if TYPE_CHECKING:
    from pathlib import Path


def test_status_names_every_engine_and_what_resolves(tmp_path: Path) -> None:
    package = tmp_path / "sglang" / "srt" / "speculative"
    package.mkdir(parents=True)
    for folder in (tmp_path / "sglang", tmp_path / "sglang" / "srt", package):
        (folder / "__init__.py").touch()
    (package / "eagle_worker.py").write_text(
        "class EAGLEWorker:\n    def draft(self, batch): ...\n    def verify(self, batch): ...\n"
    )
    done = run_cli("hooks", "status", env={"PYTHONPATH": str(tmp_path)})
    assert done.exit_code == 0, done.stderr
    assert "vllm: not installed" in done.stdout
    assert "sglang.srt.speculative.eagle_worker:EAGLEWorker.draft  line 2" in done.stdout
    assert "EagleDraftWorker" not in done.stdout
    everything = run_cli("hooks", "status", "--all", env={"PYTHONPATH": str(tmp_path)})
    assert "EagleDraftWorker" in everything.stdout


def test_the_start_up_file_comes_and_goes(tmp_path: Path) -> None:
    assert run_cli("hooks", "install", "--folder", tmp_path).exit_code == 0
    for name, text in startup_files.CONTENT.items():
        assert (tmp_path / name).read_text() == text
    removed = run_cli("hooks", "remove", "--folder", tmp_path)
    assert removed.stdout.count("removed") == len(startup_files.CONTENT)
    assert not list(tmp_path.iterdir())
    assert "there is none" in run_cli("hooks", "remove", "--folder", tmp_path).stdout


@pytest.mark.parametrize("verb", ["install"])
def test_a_folder_that_is_not_there_is_an_error(verb: str, tmp_path: Path) -> None:
    done = run_cli("hooks", verb, "--folder", tmp_path / "missing")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
