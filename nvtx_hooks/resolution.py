"""Which targets an engine's code holds, found by parsing it: nothing of the engine is imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nvtx_hooks.targets import ENGINES, engine_targets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvtx_hooks.targets import Target


class EngineNotInstalled(LookupError):
    """The engine's package is not found in this environment."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """One target in one installed engine.

    Attributes:
        target: The target.
        line: Line of its definition or import, None when it is not there.
        problem: Why it cannot be hooked although it is there, or why it is not there.
    """

    target: Target
    line: int | None
    problem: str = ""

    @property
    def resolved(self) -> bool:
        """Whether a hook would attach."""
        return self.line is not None and not self.problem


def resolve_engine(engine: str, root: Path | None = None) -> tuple[Resolution, ...]:
    """Every target of an engine, in its installed code.

    Args:
        engine: One of `targets.ENGINES`.
        root: Folder that holds the engine's top-level package; None: the installed one.

    Raises:
        KeyError: No such engine.
        EngineNotInstalled: Its package is not found.
    """
    if engine not in ENGINES:
        raise KeyError(engine)
    if root is None:
        spec = find_spec(engine)
        if spec is None or not spec.submodule_search_locations:
            raise EngineNotInstalled(f"{engine} is not installed in this environment")
        root = Path(next(iter(spec.submodule_search_locations))).parent
    return resolve(engine_targets(engine), root)


def resolve(targets: Iterable[Target], root: Path) -> tuple[Resolution, ...]:
    """Targets in the code under `root`, each module parsed once."""
    trees: dict[str, ast.Module | None] = {}
    return tuple(
        _resolve(target, trees.setdefault(target.module, _parsed(root, target.module)))
        if target.module not in trees
        else _resolve(target, trees[target.module])
        for target in targets
    )


def _parsed(root: Path, module: str) -> ast.Module | None:
    """The syntax tree of a module, None when there is no such file."""
    base = root.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return ast.parse(path.read_bytes(), filename=str(path))
    return None


def _resolve(target: Target, tree: ast.Module | None) -> Resolution:
    if tree is None:
        return Resolution(target, None, "no such module")
    *owners, name = target.attribute.split(".")
    body: list[ast.stmt] = tree.body
    for owner in owners:
        classes = [n for n in _flat(body) if isinstance(n, ast.ClassDef) and n.name == owner]
        if not classes:
            return Resolution(target, None, f"no class {owner}")
        body = classes[-1].body
    for node in reversed(_flat(body)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return Resolution(target, node.lineno, _parameter_problem(target, node))
        if isinstance(node, ast.ImportFrom) and any(
            (alias.asname or alias.name) == name for alias in node.names
        ):
            return Resolution(target, node.lineno)
    return Resolution(target, None, f"no {name}")


def _flat(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements of a body, those under `if` and `try` included."""
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        for part in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(node, (ast.If, ast.Try)):
                for inner in getattr(node, part, []):
                    found += _flat(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])
    return found


def _parameter_problem(target: Target, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Why the function's parameters are not those the readers rely on, "" when they are."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    for position, wanted in enumerate(target.parameters):
        if position >= len(names) or names[position] not in wanted.split("|"):
            return f"parameter {position} is not {wanted}: {', '.join(names)}"
    return ""
