"""Rules over very many names: one pattern for all rules first, and the same answers as without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.phases import rules as module
from traceanalyzer.phases.rules import Rule, Rules

if TYPE_CHECKING:
    from pathlib import Path

PATTERNS = (
    "a",
    "ab|b",
    "|",
    "^a$",
    "^",
    r"\Aab\z",
    "(?i)B",
    "(?-i)A",
    "(?-i:B)b",
    "(?s).+",
    "(?m)^a$",
    r"(?x) a \  b",
    r"(?x)\#",
    "(?U)a+",
    "(?P<batch>[0-9]+)",
    "(?<batch>[0-9])b|a",
    "a(?P<cycle>[0-9]+)(b)",
    "(?P<batch>[0-9])(?P<cycle>[0-9])",
    "[(?<batch>]+",
    r"\(?P<batch>",
    r"\(?P<batch>(?P<batch>a)",
    "[^a]",
    r"\w{2,3}",
    r"\bab\b",
    "é|ß",
    r"\|",
    "[|)]+",
)
DOMAINS = (None, "", "a", "^a|b$", "(?-i)A", ".*")
NAME_PARTS = ("a", "b", "A", "B", "1", "2", "|", ")", "(", "?", "<batch>", " ", "\n", "é", "#", "P")

rules_drawn = st.lists(
    st.builds(
        Rule,
        name=st.one_of(
            st.sampled_from(PATTERNS),
            st.lists(st.sampled_from(PATTERNS[:4]), min_size=2, max_size=3).map("".join),
        ),
        role=st.just("none"),
        domain=st.sampled_from(DOMAINS),
    ),
    min_size=1,
    max_size=6,
)
names_drawn = st.lists(
    st.tuples(
        st.sampled_from((None, "", "a", "A", "b", "ab")),
        st.one_of(st.none(), st.lists(st.sampled_from(NAME_PARTS), max_size=4).map("".join)),
    ),
    min_size=1,
    max_size=12,
)


def _classified(rules: Rules, names: pl.DataFrame, many: int) -> pl.DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MANY_NAMES", many)
        return rules.classify(names)


def _names(pairs: list[tuple[str | None, str | None]]) -> pl.DataFrame:
    return pl.DataFrame(
        pairs, schema={"domain_text": pl.String, "name_text": pl.String}, orient="row"
    )


@given(rules_drawn, names_drawn)
@examples()
def test_trying_all_rules_in_one_changes_nothing(
    drawn: list[Rule], pairs: list[tuple[str | None, str | None]]
) -> None:
    rules, names = Rules(tuple(drawn)), _names(pairs)
    one_by_one = _classified(rules, names, names.height)
    assert _classified(rules, names, 0).equals(one_by_one)


def test_every_pattern_of_the_law_is_one_that_a_rule_file_may_hold(tmp_path: Path) -> None:
    tables = [f"[[rule]]\nrole = 'none'\nname = '''{it}'''" for it in PATTERNS]
    (tmp_path / "rules.toml").write_text("\n".join(tables), encoding="utf-8")
    read = Rules.from_file(tmp_path / "rules.toml", extend=False)
    assert tuple(rule.name for rule in read.rules) == PATTERNS


def test_the_pattern_for_all_leaves_out_what_no_rule_takes() -> None:
    rules = Rules((Rule("a(?P<batch>[0-9])", "none"), Rule("b(?P<batch>[0-9])", "none", None, "x")))
    names = _names([(None, "a1"), (None, "b1"), ("x", "b1"), (None, "c"), (None, None)])
    assert rules._possible(names).to_list() == [True, False, True, False, False]


def test_what_is_too_large_in_one_pattern_is_tried_rule_by_rule() -> None:
    large = r"[\w\s]{60}"
    rules = Rules((*(Rule(f"{place}{large}", "none") for place in range(40)), Rule("b", "cycle")))
    names = _names([(None, "b"), (None, "1" + "a" * 60)])
    assert rules._possible(names).all()
    assert _classified(rules, names, 0)["rule"].to_list() == [40, 1]
