"""Texts from a trace are shown as they are, and do nothing: for any text, not for known tricks."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from traceanalyzer.renderers import screen
from traceanalyzer.renderers.figures import (
    count,
    decimals_for,
    duration,
    milliseconds,
    percent,
    safe,
)
from traceanalyzer.renderers.markdown import _code
from traceanalyzer.renderers.markdown_tables import escaped
from traceanalyzer.renderers.screen import bold

markup = st.text(st.sampled_from("[]/\\ab#=\x1b\n\x9b\u202e"), max_size=12)
texts = st.one_of(markup, st.text(max_size=20))


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def shown(text: str) -> str:
    """What a text becomes on the screen that all output goes through."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "screen_width", lambda: 10_000)
        return screen.capture([text], plain=True)


@given(texts)
@example("[bold]x[/]")
@example("\\[/bold]")
@example("\\\\[red]x")
@example("a\\")
def test_text_is_shown_as_it_is_written(text: str) -> None:
    assert shown(safe(text)) == printable(text).rstrip() + "\n"


@given(texts)
@example("a\\")
def test_text_does_not_reach_into_our_own_styles(text: str) -> None:
    assert bold(safe(text)).plain == printable(text)
    assert bold(safe(text)).style == "bold"


@given(texts)
@example("a|b\n`c`\\")
def test_a_cell_of_markdown_is_one_cell(text: str) -> None:
    cell = escaped(text)
    assert "\n" not in cell
    bare = re.sub(r"\\[\\`*_<>\[\]|]", "", cell)
    assert not re.search(r"[|`*_<>\[\]\\]", bare), "nothing of Markdown is left unescaped"


@given(texts)
def test_code_of_markdown_ends_where_it_should(text: str) -> None:
    assert "`" not in _code(text)
    assert "\n" not in _code(text)


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "1 us"),
        (5_580, "5.58 us"),
        (999_499, "999 us"),
        (1_000_000, "1 ms"),
        (-2_500_000, "-2.5 ms"),
        (3_900_000_000, "3.9 s"),
        (1_234_567_000_000, "1,235 s"),
    ],
)
def test_durations(ns: float, expected: str) -> None:
    assert duration(ns) == expected


@given(st.integers(-(10**13), 10**13))
def test_a_duration_never_shows_an_exponent(ns: int) -> None:
    """999,999 ns is about a millisecond, not 1e+03 us."""
    assert re.fullmatch(r"-?[\d,]+(\.\d+)? (ns|us|ms|s)", duration(ns))


def test_other_figures() -> None:
    assert milliseconds(28_450_000, decimals=2) == "28.45"
    assert milliseconds(1_234_567_891_000) == "1,234,567.891"
    assert [decimals_for(ns) for ns in (31_740_000, 2_180_000, 999_999)] == [2, 3, 4]
    assert percent(0.8963) == "89.6 %"
    assert percent(0) == "0.0 %"
    assert count(1_234_567) == "1,234,567"
