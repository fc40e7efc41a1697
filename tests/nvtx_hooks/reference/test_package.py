"""What holds of the package without running it; none of these needs torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import nvtx_hooks.reference
from nvtx_hooks.reference import __main__ as command
from tests.harness import REPOSITORY

SOURCES = sorted(Path(nvtx_hooks.reference.__file__).parent.glob("*.py"))
FORBIDDEN = ("nvtx", "synchronize", "profiler", "record_function", "cudart")


def test_torch_is_here() -> None:
    if find_spec("torch") is None:
        pytest.skip("no torch here: the other tests of the reference pipeline are left out")


def names(tree: ast.AST) -> set[str]:
    """Every name, attribute and imported module in a piece of code."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Import):
            found.update(part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            found.update((node.module or "").split("."))
            found.update(alias.name for alias in node.names)
    return found


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_pipeline_neither_marks_nor_profiles_nor_synchronises(source: Path) -> None:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    assert not names(tree) & set(FORBIDDEN)
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [module for module in imported if module and module.startswith("nvtx_hooks")]
    assert all(module.startswith("nvtx_hooks.reference") for module in ours)


def test_forbidden_names_would_be_found() -> None:
    code = "import torch.cuda.nvtx as n\ntorch.cuda.synchronize()\nfrom torch.profiler import x"
    assert {"nvtx", "synchronize", "profiler"} <= names(ast.parse(code))


def test_only_collect_reads_the_device() -> None:
    reads = {"tolist", "item", "cpu", "numpy", "nonzero", "masked_select"}
    found = {
        (source.stem, function.name)
        for source in SOURCES
        for function in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and names(function) & reads
    }
    # Training is over before the first request.
    assert found == {("engine", "collect"), ("training", "_descend")}


def test_the_hooks_and_the_package_import_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import nvtx_hooks, nvtx_hooks.reference, nvtx_hooks.reference.__main__\n"
        "nvtx_hooks.install(); nvtx_hooks.status(); nvtx_hooks.uninstall()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, timeout=60, check=True)


def test_without_torch_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert command.main([]) == 2
    assert "traceanalyzer[torch]" in capsys.readouterr().err
