"""A report's JSON is small where it is long, and says the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.report import CycleRow
from traceanalyzer.report.json_text import json_text


@dataclass(frozen=True, slots=True)
class Long:
    """As a report is: some texts and numbers, and a long table."""

    text: str
    numbers: list[int]
    rows: list[CycleRow] = field(default_factory=list)


_ints = st.integers(-(1 << 62), 1 << 62)
_rows = st.builds(
    CycleRow,
    *(_ints for _ in range(3)),
    st.none() | _ints,
    _ints,
    _ints,
    st.lists(_ints, max_size=3),
    st.none() | _ints,
    st.text(),
)


@examples(0.3)
@given(st.builds(Long, st.text(), st.lists(_ints, max_size=3), st.lists(_rows, max_size=5)))
def test_each_row_is_a_line_and_nothing_is_lost(value: Long) -> None:
    text = json_text(value, rows=("rows",))
    assert msgspec.json.decode(text, type=Long) == value
    starting = [line for line in text.split(b"\n") if line.startswith(b'    {"rank":')]
    assert [
        msgspec.json.decode(line.rstrip(b","), type=CycleRow) for line in starting
    ] == value.rows


def test_it_is_indented_as_people_expect() -> None:
    value = Long("a\nb", [1, 2])
    assert json_text(value, rows=("rows",)).decode() == json.dumps(
        {"text": "a\nb", "numbers": [1, 2], "rows": []}, indent=2
    )
