"""What is written to be passed on tells no person: not by a path, nor by a text from the trace.

The terminal shows what was typed. Anything else shows a file by its place below the working
directory, or else as `scrub` would.
"""

from __future__ import annotations

import os
import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traceanalyzer.importers.people import People
    from traceanalyzer.trace import Trace

_Found = TypeVar("_Found")

_TABLES: Final = frozenset({"kernels", "cycle_rows"})
"""Thousands of rows whose only texts are names of kernels and phases."""

_PERSON_VARIABLES: Final = ("USER", "LOGNAME", "USERNAME", "SUDO_USER")


class PassedOn:
    """How texts are written to be passed on."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """With the files and folders that were named, as they were."""
        self._people = _users()
        self._shown = _apart({path: self._place(path) for path in paths})
        names = "|".join(map(re.escape, sorted(self._shown, key=len, reverse=True)))
        self._named = re.compile(rf"(?<![\w./\\~-])(?:{names or '(?!)'})(?![\w-]|\.\w)")

    @classmethod
    def of_command(cls) -> PassedOn:
        """For the paths among the arguments and options of the command that runs."""
        context = click.get_current_context(silent=True)
        given: list[Any] = list(context.params.values()) if context else []
        several = [each for value in given if isinstance(value, tuple) for each in value]
        return cls(path for path in (*given, *several) if isinstance(path, Path))

    def text(self, text: str) -> str:
        """A text without persons; the very same where it tells of none."""
        told = self._named.sub(lambda found: self._shown[found[0]], text)
        told = self._people.left_out_of(told)
        return text if told == text else told

    def report(self, found: _Found) -> _Found:
        """A report, or any other dataclass, without persons in its texts."""
        told: _Found = _mapped(found, self.text)
        return told

    def trace(self, trace: Trace) -> Trace:
        """A trace whose files are told by such paths."""
        import polars as pl

        paths = [self.text(path) for path in trace.files["path"].to_list()]
        return replace(
            trace, files=trace.files.with_columns(path=pl.Series(paths, dtype=pl.String))
        )

    def _place(self, path: Path) -> str:
        """A path below the working directory where that tells of nobody, else without persons."""
        from traceanalyzer.importers.people import HOME

        clean = self._people.left_out_of
        shown, whole, folder = _storable(path), _whole(path), _whole(Path())
        inner = os.path.relpath(whole, folder)
        is_inside = not inner.startswith("..")
        told = clean(whole)
        if told != whole:
            is_persons = clean(f"{folder}/_") not in (f"{folder}/_", HOME)
            if not (is_inside and is_persons and clean(f"/{inner}") == f"/{inner}"):
                return f"{HOME}/{Path(whole).name}" if told.startswith(f"{HOME}/") else told
        return inner if path.is_absolute() and is_inside else shown


def outside(found: _Found, *, shown: bool = False) -> _Found:
    """A report, or any other dataclass, as it leaves the command that runs.

    Args:
        found: What was found.
        shown: Whether it is only shown on the terminal, and so stays as it is.
    """
    return found if shown else PassedOn.of_command().report(found)


def _users() -> People:
    from traceanalyzer.importers.people import People

    persons = [os.environ.get(name, "") for name in _PERSON_VARIABLES]
    home = Path(os.environ.get("HOME", ""))
    if len(home.parts) > 2:  # a home right below the root (/tmp, /workspace) is nobody's name
        persons.append(home.name)
    return People.named(persons, ())


def _apart(shown: dict[Path, str]) -> dict[str, str]:
    """What stands for each path, as given or in full; numbered where two would look alike."""
    taken: dict[str, str] = {}
    texts: dict[str, str] = {}
    for path, name in shown.items():
        whole, told, number = _whole(path), name, 1
        while taken.setdefault(told, whole) != whole:
            number += 1
            told = f"{name} ({number})"
        texts |= dict.fromkeys({_storable(path), str(path), whole} - {told, os.sep}, told)
    return texts


def _whole(path: Path) -> str:
    try:
        return _storable(path.absolute())
    except OSError:  # the working directory is gone
        return _storable(path)


def _storable(path: Path) -> str:
    """A path as importers store it."""
    return str(path).encode(errors="replace").decode()


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A value with its texts changed; the very same where none is."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        changed = [_mapped(each, change) for each in value]
        return changed if any(a is not b for a, b in zip(changed, value, strict=True)) else value
    if not is_dataclass(value):
        return value
    members = {
        each.name: getattr(value, each.name) for each in fields(value) if each.name not in _TABLES
    }
    told = {name: _mapped(member, change) for name, member in members.items()}
    told = {name: member for name, member in told.items() if member is not members[name]}
    return replace(value, **told) if told else value  # type: ignore[type-var]
