"""Files of phase rules: drawn from rules' own words, then damaged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tests.fuzzing.hostile import chosen, damaged
from tests.fuzzing.running import LieError
from traceanalyzer.phases.rules import NUMBERS, PHASES, Rules

if TYPE_CHECKING:
    import random
    from pathlib import Path

_NAMES: Final = (
    "verify",
    "verify bs=4",
    "draft 0",
    "step 12",
    "target_forward",
    "",
    "a.b",
    "CYCLE",
)
_DOMAINS: Final = (None, "eagle", "NCCL")
_PIECES: Final = (
    "verify",
    "draft",
    "step",
    "cycle",
    " ",
    "bs=",
    "[0-9]",
    "[a-z_]",
    ".",
    "*",
    "+",
    "?",
    "|",
    "(?:target_forward)",
    "(?P<cycle>[0-9]+)",
    "(?P<batch>[0-9]+)",
    "{1,3}",
)
_ODD_PIECES: Final = (
    "(",
    ")",
    "[",
    "\\",
    "(?=a)",
    "(a+)+$",
    "{1000}{1000}",
    "(?P<cycle>.)",
    "(?i)",
    "\\b",
    "\\p{L}",
    "(?P<odd>a)",
    "(?x)#",
    "^",
    "$",
    "\u00e9",
    "(((((" * 60 + "a" + ")))))" * 60,
)
_VALUES: Final = (
    '"verify"',
    '"fused(verify, sample)"',
    '"fused(verify)"',
    '"nothing"',
    '"cycle"',
    '"none"',
    '"phase"',
    "['warm-up']",
    "['warm-up', 3]",
    "[[]]",
    "5",
    "1e999",
    "nan",
    "true",
    "1979-05-27",
    "{ a = 1 }",
    "''",
    "[" * 300 + "]" * 300,
    "[" * 3000,
    "9" * 5000,
)
_KEYS: Final = ("name", "domain", "phase", "role", "flags", "note", "odd", "name.a", '"na\\u0000"')


class RuleFiles:
    """Draws rule files; where Python's own engine runs the patterns, matches must be the same."""

    def __init__(self, folder: Path) -> None:
        self.label = ""
        self._path = folder / "rules.toml"
        pairs = [(domain, name) for domain in _DOMAINS for name in _NAMES]
        self._names = pl.DataFrame(
            pairs, schema={"domain_text": pl.String, "name_text": pl.String}, orient="row"
        )

    def try_one(self, dice: random.Random) -> None:
        """Draw rules, read them, and classify a few names by them."""
        patterns = None
        if dice.random() < 0.4:
            self.label = "well-formed"
            patterns = [_pattern(dice, odd=False) for _ in range(dice.randint(1, 4))]
            text = "\n".join(f"[[rule]]\nname = '{it}'\nphase = 'draft'" for it in patterns)
            data = text.encode()
        else:
            self.label = "odd"
            data = "\n".join(_odd_rule(dice) for _ in range(dice.randint(1, 4))).encode()
            if dice.random() < 0.5:
                self.label = "damaged"
                data = damaged(dice, data)
        self._path.write_bytes(data)
        found = Rules.from_file(self._path, extend=False).classify(self._names)
        if patterns is not None:
            self._compare(found, patterns)

    def _compare(self, found: pl.DataFrame, patterns: list[str]) -> None:
        expected = []
        for name in self._names["name_text"]:
            matched = [bool(re.fullmatch(f"(?i:{it})", name)) for it in patterns]
            expected.append(matched.index(True) if True in matched else None)
        if found["rule"].to_list() != expected:
            raise LieError(f"{patterns}: {found['rule'].to_list()}, not {expected}")


def _pattern(dice: random.Random, *, odd: bool) -> str:
    """A pattern; one that is not odd runs on Python's engine and means the same there."""
    while True:
        pieces = (*_PIECES, *_ODD_PIECES) if odd else _PIECES
        pattern = "".join(chosen(dice, pieces) for _ in range(dice.randint(1, 5)))
        if odd:
            return pattern
        try:
            re.compile(f"(?i:{pattern})")
        except re.error:
            continue
        if not re.search(r"[*+?}][*+?{]", pattern):  # possessive in one, lazy or nested elsewhere
            return pattern


def _odd_rule(dice: random.Random) -> str:
    lines = [dice.choice(("[[rule]]", "[[rule]]", "[[rule]]", "[rule]", "[[rule.x]]", "rule = []"))]
    if dice.random() < 0.8:
        lines.append(f"name = '{_pattern(dice, odd=True)}'")
    if dice.random() < 0.6:
        lines.append(f'phase = "{dice.choice(PHASES)}"')
    more = range(dice.randint(0, 2))
    lines += [f"{chosen(dice, _KEYS)} = {chosen(dice, _VALUES)}" for _ in more]
    if dice.random() < 0.2:
        groups = "".join(f"(?P<{dice.choice(NUMBERS)}>[0-9]*)" for _ in range(dice.randint(1, 3)))
        lines.append(f"domain = '{groups}'")
    return "\n".join(lines)
