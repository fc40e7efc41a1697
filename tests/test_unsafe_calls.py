"""No shell runs anywhere, and nothing that is read can run code."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

import pytest

from tests.harness import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOMS: Final = ("traceanalyzer", "nvtx_hooks")
FILES: Final = [path for room in ROOMS for path in sorted((REPOSITORY / room).rglob("*.py"))]

_READ_AND_RUN: Final = frozenset(
    {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
)
_SHELLS: Final = {
    "os": frozenset({"system", "popen"}),
    "subprocess": frozenset({"getoutput", "getstatusoutput"}),
    "asyncio": frozenset({"create_subprocess_shell"}),
}
_BY_KEYWORD: Final = frozenset({"shell", "allow_pickle"})


def unsafe(source: str) -> list[str]:
    """What a module must not do, with its line."""
    return [f"{line}: {what}" for line, what in _unsafe(ast.parse(source))]


def _unsafe(tree: ast.Module) -> Iterator[tuple[int, str]]:
    names = {"os": "os", "subprocess": "subprocess", "asyncio": "asyncio"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname: each.name for each in node.names if each.asname}
    for node in ast.walk(tree):
        yield from ((node.lineno, what) for what in _troubles(node, names))  # type: ignore[attr-defined]


def _troubles(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    match node:
        case ast.Import(names=imported):
            yield from (each.name for each in imported if _root(each.name) in _READ_AND_RUN)
        case ast.ImportFrom(module=str(module), names=imported):
            if _root(module) in _READ_AND_RUN:
                yield module
            taken = {each.name for each in imported}
            yield from (f"{module}.{name}" for name in taken & _SHELLS.get(module, frozenset()))
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            module = names.get(name, "")
            if attribute in _SHELLS.get(module, ()):
                yield f"{module}.{attribute}"
        case ast.Call(func=called, keywords=keywords, args=given):
            yield from (
                f"{each.arg}="
                for each in keywords
                if each.arg in _BY_KEYWORD
                and not (isinstance(each.value, ast.Constant) and each.value.value is False)
            )
            loads = isinstance(called, ast.Attribute) and called.attr == "import_module"
            loads |= isinstance(called, ast.Name) and called.id in ("import_module", "__import__")
            if loads and given and isinstance(given[0], ast.Constant):
                yield from (
                    str(each.value) for each in given[:1] if _root(each.value) in _READ_AND_RUN
                )


def _root(module: object) -> str:
    return str(module).partition(".")[0]


@pytest.mark.parametrize("room", ROOMS)
def test_no_shell_runs_and_nothing_read_is_run(room: str) -> None:
    files = [path for path in FILES if path.is_relative_to(REPOSITORY / room)]
    assert len(files) > 20
    found = {
        str(path.relative_to(REPOSITORY)): unsafe(path.read_text(encoding="utf-8"))
        for path in files
    }
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run(command, shell=True)",
        "subprocess.Popen(command, shell=wanted)",
        "run(c, **{'a': 1}, shell=1)",
        "import os\nos.system('x')",
        "import os as system\nsystem.popen('x')",
        "from os import system",
        "from subprocess import getoutput as ask",
        "import subprocess as s\ns.getstatusoutput('x')",
        "import pickle",
        "import pickle as p",
        "from pickle import loads",
        "def f():\n    import marshal",
        "import cloudpickle.compat",
        "from shelve import open",
        "numpy.load(path, allow_pickle=True)",
        "__import__('pickle')",
        "importlib.import_module('marshal')",
    ],
)
def test_what_is_unsafe_is_found(source: str) -> None:
    assert len(unsafe(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run([*command], shell=False)",
        "shell = True",
        "import os\nos.environ['SHELL']",
        "platform.system()",
        "import json\njson.loads(text)",
        "numpy.load(path, allow_pickle=False)",
        "from os import path",
    ],
)
def test_what_is_safe_is_not(source: str) -> None:
    assert unsafe(source) == []
