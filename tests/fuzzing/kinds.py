"""The kinds of input that are fuzzed, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fuzzing.acceptance_lines import AcceptanceLines
from tests.fuzzing.kineto_texts import KinetoTexts
from tests.fuzzing.rule_files import RuleFiles
from tests.fuzzing.sqlite_exports import SqliteExports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fuzzing.running import Kind

KINDS: Final[dict[str, Callable[[Path], Kind]]] = {
    "sqlite": SqliteExports,
    "kineto": KinetoTexts,
    "rules": RuleFiles,
    "acceptance": AcceptanceLines,
}
"""A kind is made with a folder of its own to write in."""
