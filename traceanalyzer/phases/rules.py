"""Which host range means which phase of speculative decoding: the first rule that matches holds.

The shipped rules are data (`rules.toml`); a user's file of the same form goes before them.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceanalyzer.errors import InputError
from traceanalyzer.importers.endless import refuse_endless

if TYPE_CHECKING:
    from os import PathLike

PHASES: Final = (
    "draft",
    "verify",
    "sample",
    "draft_extend",
    "decode",
    "prefill",
    "draft_prefill",
    "mixed",
)
LEFTOVERS: Final = ("other", "unattributed")
ROLLUPS: Final = {"target": ("verify", "sample"), "drafting": ("draft", "draft_extend")}
TARGET_FORWARD: Final = frozenset({"verify", "decode", "mixed"})
PROMPT_WORK: Final = frozenset({"prefill", "draft_prefill", "mixed"})
FLAGS: Final = ("warm-up", "capture", "dummy", "idle", "inferred")
ROLES: Final = ("phase", "cycle", "none")
NUMBERS: Final = ("cycle", "batch", "context_requests", "generation_requests", "drafted")

_PLACE: Final = {phase: place for place, phase in enumerate((*PHASES, *LEFTOVERS))}
_NAMED_GROUP: Final = re.compile(r"\(\?P?<(\w+)>")
_FEW_NAMES: Final = 1_000
"""As many are kept with what the rules say of them."""
_MANY_NAMES: Final = 10_000
_TEXTS: Final = dict.fromkeys(("domain_text", "name_text"), pl.String())
_MOST_DOTS: Final = 1_000
_MOST_RULES: Final = 5_000
_FUSED: Final = re.compile(r"fused\(([^()]*)\)")
_RULE_TYPES: Final = {
    "name": str,
    "domain": str,
    "phase": str,
    "role": str,
    "flags": list,
    "note": str,
}


def parse_phase(text: str) -> tuple[str, ...]:
    """The phases that a phase's text holds, in canonical order.

    Args:
        text: One of `PHASES`, or several as "fused(verify, draft_extend)".

    Raises:
        InputError: A name is unknown, or "fused" holds fewer than two phases.
    """
    fused = _FUSED.fullmatch(text.strip())
    names = {name.strip() for name in (fused[1] if fused else text).split(",")}
    unknown = sorted(names - set(PHASES))
    if unknown or (fused and len(names) < 2):
        raise InputError(
            f"there is no phase {unknown[0]!r}" if unknown else "fused() needs two phases or more",
            next_step=f"Write one of {', '.join(PHASES)}, or several as fused(verify, sample).",
        )
    if not fused and len(names) > 1:
        raise InputError(f"{text!r} is no phase", next_step=f"Write fused({text}).")
    return tuple(phase for phase in PHASES if phase in names)


def phase_text(members: tuple[str, ...]) -> str:
    """The text of one phase, or of several that cannot be told apart: inverse of `parse_phase`."""
    return members[0] if len(members) == 1 else f"fused({', '.join(members)})"


def phase_order(phase: str) -> tuple[int, ...]:
    """Sort key that puts phases in canonical order, fused ones after their first member."""
    members = (phase,) if phase in LEFTOVERS else parse_phase(phase)
    return tuple(_PLACE[member] for member in members)


def rolls_up(phase: str, rollup: str) -> bool:
    """Whether a phase, or all that a fused one holds, belongs to one of `ROLLUPS`."""
    return phase not in LEFTOVERS and set(parse_phase(phase)) <= set(ROLLUPS[rollup])


def has_target_forward(phase: str) -> bool:
    """Whether a phase holds a forward of the target over decoded or drafted tokens."""
    return not TARGET_FORWARD.isdisjoint(parse_phase(phase))


def has_prefill(phase: str) -> bool:
    """Whether a phase holds work over prompt tokens, of the target or of the draft."""
    return not PROMPT_WORK.isdisjoint(parse_phase(phase))


def is_prompt_work(phase: str) -> bool:
    """Whether a phase is work over prompt tokens alone; "other" and "unattributed" are not."""
    return phase not in LEFTOVERS and has_prefill(phase) and not has_target_forward(phase)


@dataclass(frozen=True, slots=True)
class Rule:
    """What ranges of some names mean.

    Attributes:
        name: Regular expression that must match the whole name of a range, in any case.
        role: "phase", "cycle" (an engine's own cycle or step), or "none" (known, but no phase).
        phase: The phase as text, when the role is "phase".
        domain: Regular expression for the whole name of the NVTX domain; None takes any domain,
            "" the default domain only.
        flags: Members of `FLAGS`.
        note: Where the name comes from, and what it leaves open.
    """

    name: str
    role: str
    phase: str | None = None
    domain: str | None = None
    flags: tuple[str, ...] = ()
    note: str = ""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The `NUMBERS` that the name carries, as named groups."""
        if _NAMED_GROUP.search(self.name) is None:
            return ()
        return tuple(group for group in _groups(self.name) if group in NUMBERS)

    def matches(self) -> pl.Expr:
        """Whether the rule takes a row of `domain_text` and `name_text`; null for a null name."""
        matched = pl.col("name_text").str.contains(_whole(self.name))
        if self.domain is None:
            return matched
        return matched & pl.col("domain_text").fill_null("").str.contains(_whole(self.domain))


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules in the order in which they are tried."""

    rules: tuple[Rule, ...]

    @classmethod
    @cache
    def shipped(cls) -> Rules:
        """The rules for the names that engines and people use."""
        text = resources.files(__package__).joinpath("rules.toml").read_text(encoding="utf-8")
        return cls(_rules(_document(text, "rules.toml"), "rules.toml", check_patterns=False))

    @classmethod
    def from_file(cls, path: str | PathLike[str], extend: bool = True) -> Rules:
        """Read a user's rules.

        Args:
            path: TOML file of `[[rule]]` tables.
            extend: Try the shipped rules after the file's, unless it says `replace = true`.

        Raises:
            InputError: The file cannot be read, or one of its rules cannot be used.
        """
        where = fspath(path)
        refuse_endless(where)
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"the rule file cannot be read: {error}",
                where=where,
                next_step="Name a TOML file in UTF-8.",
            ) from None
        document = _document(text, where)
        own = _rules(document, where)
        if not extend or document.get("replace", False):
            return cls(own)
        return cls(own + cls.shipped().rules)

    def classify(self, names: pl.DataFrame) -> pl.DataFrame:
        """Say what ranges mean.

        Args:
            names: `domain_text` (String, null for the default domain) and `name_text` (String);
                each pair once, for speed.

        Returns:
            The same rows in order, with `rule` (Int32 place in `rules`, null when none matches),
            `phase` (String or null), `role` (one of `ROLES` or null), `flags` (list of String,
            empty when none matches), and a nullable Int64 column for each of `NUMBERS`.
        """
        found = names.with_columns(rule=self._first_match(names))
        meant = found.join(_meanings(self), on="rule", how="left", maintain_order="left")
        return pl.concat(
            [meant.with_columns(pl.col("flags").fill_null([])), self._numbers(found)],
            how="horizontal",
        )

    def _first_match(self, names: pl.DataFrame) -> pl.Series:
        """Place of the first rule that takes each row, null where none does."""
        if names.height > _FEW_NAMES:
            return self._tried(names)
        # Ranks open ranges of the same names, and rules cost 10 ms to compile.
        known, pairs = _known(self), names.select("domain_text", "name_text").rows()
        if unknown := [pair for pair in dict.fromkeys(pairs) if pair not in known]:
            texts = pl.DataFrame(unknown, schema=_TEXTS, orient="row")
            known.update(zip(unknown, self._tried(texts), strict=True))
        return pl.Series("rule", [known[pair] for pair in pairs], pl.Int32)

    def _tried(self, names: pl.DataFrame) -> pl.Series:
        """The same by trying every rule."""
        first = pl.coalesce(
            pl.when(rule.matches()).then(place) for place, rule in enumerate(self.rules)
        ).cast(pl.Int32)
        if names.height <= _MANY_NAMES:
            return names.select(rule=first).to_series()
        possible = self._possible(names)
        found = pl.repeat(None, names.height, dtype=pl.Int32, eager=True)
        return found.scatter(possible.arg_true(), names.filter(possible).select(first).to_series())

    def _possible(self, names: pl.DataFrame) -> pl.Series:
        """Which rows any rule may take: by one pattern a domain, far faster than rule by rule."""
        together: dict[str | None, list[str]] = {}
        for rule in self.rules:
            pattern = _without_group_names(rule.name)
            if pattern is None:
                return pl.repeat(True, names.height, eager=True)
            together.setdefault(rule.domain, []).append(f"(?:{pattern})")
        merged = [Rule("|".join(patterns), "none", None, it) for it, patterns in together.items()]
        try:
            matched = pl.any_horizontal(rule.matches().fill_null(False) for rule in merged)
            return names.select(matched).to_series()
        except pl.exceptions.ComputeError:  # too large in one
            return pl.repeat(True, names.height, eager=True)

    def _numbers(self, found: pl.DataFrame) -> pl.DataFrame:
        """The integers that names carry in their groups; null where one does not fit."""
        rows = found.select("rule", "name_text").with_row_index("row")
        read = [
            pl.DataFrame(schema={"row": pl.get_index_type(), **dict.fromkeys(NUMBERS, pl.String())})
        ]
        for place in found["rule"].drop_nulls().unique(maintain_order=True).to_list():
            if (rule := self.rules[place]).numbers:
                groups = pl.col("name_text").str.extract_groups(_whole(rule.name))
                fields = [groups.struct.field(number) for number in rule.numbers]
                read.append(rows.filter(pl.col("rule") == place).select("row", *fields))
        return (
            rows.select("row")
            .join(pl.concat(read, how="diagonal"), on="row", how="left", maintain_order="left")
            .select(pl.col(number).cast(pl.Int64, strict=False) for number in NUMBERS)
        )


@cache
def _known(rules: Rules) -> dict[tuple[str | None, str | None], int | None]:
    """The first rule that takes each domain and name that was asked about in this process."""
    return {}


@cache
def _meanings(rules: Rules) -> pl.DataFrame:
    """What each rule says: rule, phase, role, flags."""
    columns = {
        "rule": range(len(rules.rules)),
        "phase": [rule.phase for rule in rules.rules],
        "role": [rule.role for rule in rules.rules],
        "flags": [list(rule.flags) for rule in rules.rules],
    }
    text = pl.String()
    types = {"rule": pl.Int32(), "phase": text, "role": text, "flags": pl.List(text)}
    return pl.DataFrame(columns, schema=types)


def _whole(pattern: str) -> str:
    return rf"\A(?i:{pattern})\z"


def _without_group_names(pattern: str) -> str | None:
    """The same pattern without names, which may stand only once in a larger one.

    None where what looks like a named group is none to the engine, as in `[(?<a>]`.
    """
    looks_named = _NAMED_GROUP.findall(pattern)
    if looks_named and looks_named != [name for name in _groups(pattern) if not name.isdigit()]:
        return None
    return _NAMED_GROUP.sub("(?:", pattern)


def _groups(pattern: str) -> list[str]:
    """The names of a pattern's groups; those without a name have their number.

    Raises:
        polars.exceptions.ComputeError: The pattern is no regular expression of polars.
    """
    return pl.Series([""]).str.extract_groups(pattern).struct.fields


def _document(text: str, where: str) -> dict[str, Any]:
    # What a dotted key costs the parser grows with the square of its parts.
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise InputError(
            f"the rule file has a line of over {_MOST_DOTS:,} dots",
            where=where,
            next_step="Write a rule for each part of so long a pattern.",
        )
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError, too
        raise InputError(
            f"the rule file is no TOML: {error}",
            where=where,
            next_step="Put regular expressions in single quotes: name = 'step [0-9]+'.",
        ) from None
    unknown = sorted(document.keys() - {"rule", "replace"})
    if unknown:
        raise InputError(
            f"unknown key {unknown[0]!r}",
            where=where,
            next_step="Write [[rule]] tables and, at the top, replace = true or false.",
        )
    if not isinstance(document.get("replace", False), bool):
        raise InputError("replace is no boolean", where=where, next_step="Write replace = true.")
    return document


def _rules(
    document: dict[str, Any], where: str, *, check_patterns: bool = True
) -> tuple[Rule, ...]:
    """The rules of a document; checking a pattern costs a millisecond, the shipped are tested."""
    tables = document.get("rule")
    if not isinstance(tables, list) or not tables:
        raise InputError(
            "the rule file holds no list of rules",
            where=where,
            next_step="Begin each rule with [[rule]], in two pairs of brackets.",
        )
    if len(tables) > _MOST_RULES:  # each one is tried on each name
        raise InputError(
            f"the rule file holds {len(tables):,} rules, more than {_MOST_RULES:,}",
            where=where,
            next_step="Join names that mean the same in one rule: name = 'one|another'.",
        )
    return tuple(
        _rule(table, f"{where}, rule {number}", check_patterns=check_patterns)
        for number, table in enumerate(tables, 1)
    )


def _rule(table: object, where: str, *, check_patterns: bool) -> Rule:
    checked = _checked_table(table, where)
    for key in ("name", "domain"):
        if check_patterns and key in checked:
            _check_pattern(key, checked[key], where)
    return Rule(
        name=checked["name"],
        role=checked.get("role", "phase"),
        phase=_phase(checked["phase"], where) if "phase" in checked else None,
        domain=checked.get("domain"),
        flags=_flags(checked.get("flags", []), where),
        note=checked.get("note", ""),
    )


def _checked_table(table: object, where: str) -> dict[str, Any]:
    """A rule's table once its keys are known, complete and of the right types."""
    keys = f"Write keys out of {', '.join(_RULE_TYPES)}."
    if not isinstance(table, dict):
        raise InputError("the rule is no table", where=where, next_step=keys)
    for key, value in table.items():
        if key not in _RULE_TYPES:
            raise InputError(f"unknown key {key!r}", where=where, next_step=keys)
        if not isinstance(value, _RULE_TYPES[key]):
            kind = "list of texts" if key == "flags" else "text"
            raise InputError(
                f"{key} is no {kind}", where=where, next_step=f"Write {key} as {kind}."
            )
    if "name" not in table:
        raise InputError(
            "the rule has no name",
            where=where,
            next_step="Write name = 'a regular expression for the whole range name'.",
        )
    if ("phase" in table) == ("role" in table):
        raise InputError(
            "the rule needs either a phase or a role",
            where=where,
            next_step='Write phase = "verify", role = "cycle" or role = "none".',
        )
    if table.get("role", "cycle") not in ROLES[1:]:
        raise InputError(
            f"there is no role {table['role']!r}",
            where=where,
            next_step='Write role = "cycle" or role = "none", or a phase instead.',
        )
    return table


def _check_pattern(key: str, pattern: str, where: str) -> None:
    try:
        groups = _groups(pattern)
        _groups(_whole(pattern))
    except pl.exceptions.ComputeError as error:
        reason = str(error).splitlines()[-1].removeprefix("error: ").removeprefix("regex error: ")
        raise InputError(
            f"{key} is no regular expression that polars can run: {reason}",
            where=where,
            next_step="Write it without look-around and back-references (syntax of Rust's regex).",
        ) from None
    unknown = [group for group in groups if not group.isdigit() and group not in NUMBERS]
    if unknown:
        raise InputError(
            f"{key} has an unknown group {unknown[0]!r}",
            where=where,
            next_step=f"Name groups out of {', '.join(NUMBERS)}, or write (?:...).",
        )


def _phase(text: str, where: str) -> str:
    try:
        return phase_text(parse_phase(text))
    except InputError as error:
        raise InputError(error.what, where=where, next_step=error.next_step) from None


def _flags(flags: list[object], where: str) -> tuple[str, ...]:
    unknown = [flag for flag in flags if flag not in FLAGS]
    if unknown:
        raise InputError(
            f"there is no flag {unknown[0]!r}",
            where=where,
            next_step=f"Write flags out of {', '.join(FLAGS)}.",
        )
    return tuple(flag for flag in FLAGS if flag in flags)
