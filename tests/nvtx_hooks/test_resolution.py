from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nvtx_hooks import vocabulary
from nvtx_hooks.resolution import EngineNotInstalled, resolve, resolve_engine
from nvtx_hooks.targets import Target, engine_targets
from tests.nvtx_hooks.wheels import sources

if TYPE_CHECKING:
    from pathlib import Path

RELEASES = [
    ("sglang", "0.4.6.post5"),
    ("sglang", "0.4.9.post6"),
    ("sglang", "0.5.3.post3"),
    ("sglang", "0.5.6.post2"),
    ("sglang", "0.5.9"),
    ("sglang", "0.5.12.post1"),
    ("sglang", "0.5.15"),
    ("sglang", "0.5.23"),
    ("vllm", "0.8.5.post1"),
    ("vllm", "0.10.2"),
    ("vllm", "0.11.2"),
    ("vllm", "0.13.0"),
    ("vllm", "0.18.1"),
    ("vllm", "0.24.0"),
    ("vllm", "0.33.0"),
    ("transformers", "4.46.3"),
    ("transformers", "4.57.1"),
    ("transformers", "5.24.0"),
]

NEWEST = [("sglang", "0.5.23"), ("vllm", "0.33.0"), ("transformers", "5.24.0")]
"""Checked everywhere; all the others only where TRACEANALYZER_WHEELS keeps them between runs."""

CHECKED = RELEASES if os.environ.get("TRACEANALYZER_WHEELS") else NEWEST


def release_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition(".post")[0].split("."))


def expected(target: Target, version: str) -> bool:
    """Whether the target's evidence says that this version has it."""
    first, last = target.seen
    number = release_numbers(version)
    return release_numbers(first) <= number and (not last or number <= release_numbers(last))


@pytest.mark.needs_registry
@pytest.mark.parametrize(("engine", "version"), CHECKED)
def test_targets_of_a_release(engine: str, version: str) -> None:
    """Every target is found in just those versions that its evidence names, nothing imported."""
    resolutions = resolve_engine(engine, sources(engine, version))
    wrong = {
        found.target.name: found.problem or f"line {found.line}"
        for found in resolutions
        if found.resolved != expected(found.target, version)
    }
    assert wrong == {}
    assert any(found.resolved for found in resolutions)
    assert "torch" not in sys.modules
    assert engine not in sys.modules


def test_evidence_of_sglang_covers_every_role_in_every_version() -> None:
    """In each version something opens a cycle, drafts, verifies, extends, and counts."""
    for engine, version in RELEASES:
        if engine != "sglang":
            continue
        there = [t for t in engine_targets("sglang") if expected(t, version)]
        opened = {name for t in there if isinstance(t.opens, tuple) for name in t.opens}
        assert {"draft", "draft_extend", "draft_prefill", "sample", "capture"} <= opened, version
        assert any(t.step and "speculative" in t.module for t in there), version
        assert any(t.attribute.endswith(".verify") and callable(t.opens) for t in there), version
        assert any(t.observe is not None and t.before is not None for t in there), version


ENGINE = """
if True:
    try:
        from elsewhere import imported as bound
    except ImportError:
        def fallback(): ...

class Worker(Base):
    def draft(self, batch, *, with_topology=False): ...
    @staticmethod
    async def helper(x): ...

class Twice:
    def first(self): ...
class Twice(Base):
    def draft(self, other): ...
def free(self, batch): ...
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "engine"
    package.mkdir()
    (package / "__init__.py").write_text("def at_top(): ...\n")
    (package / "worker.py").write_text(ENGINE)
    return tmp_path


@pytest.mark.parametrize(
    ("module", "attribute", "parameters", "line", "problem"),
    [
        ("engine.worker", "free", ("self", "batch"), 17, ""),
        ("engine.worker", "free", ("self", "batch|model_worker_batch"), 17, ""),
        ("engine.worker", "free", ("self", "other"), 17, "parameter 1 is not other: self, batch"),
        ("engine.worker", "Worker.draft", ("self", "batch"), 9, ""),
        ("engine.worker", "Worker.helper", (), 11, ""),
        ("engine.worker", "Twice.draft", ("self", "other"), 16, ""),
        ("engine.worker", "Twice.first", (), None, "no first"),
        ("engine.worker", "bound", (), 4, ""),
        ("engine.worker", "fallback", (), 6, ""),
        ("engine.worker", "Worker.absent", (), None, "no absent"),
        ("engine.worker", "Absent.draft", (), None, "no class Absent"),
        ("engine.absent", "free", (), None, "no such module"),
        ("engine", "at_top", (), 1, ""),
    ],
)
def test_resolution_by_parsing(
    module: str,
    attribute: str,
    parameters: tuple[str, ...],
    line: int | None,
    problem: str,
    root: Path,
) -> None:
    target = Target(module, attribute, opens=(vocabulary.DRAFT,), parameters=parameters)
    (found,) = resolve([target], root)
    assert (found.line, found.problem) == (line, problem)
    assert found.resolved == (not problem)


def test_unknown_and_missing_engines_are_told() -> None:
    with pytest.raises(KeyError):
        resolve_engine("an engine nobody wrote")
    program = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
        "from nvtx_hooks.resolution import *\n"
        "try: resolve_engine('sglang')\n"
        "except EngineNotInstalled as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "sglang is not installed in this environment", done.stderr
    assert issubclass(EngineNotInstalled, LookupError)
