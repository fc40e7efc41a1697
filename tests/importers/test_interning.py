"""Texts and ids by row number, against dictionaries."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.importers.interning import Ids, NamesById

_IDS = st.integers(0, 6) | st.sampled_from([-1, -(1 << 63), 1 << 32, (1 << 32) + 1, (1 << 63) - 1])
_COLUMNS = st.lists(st.none() | _IDS, max_size=8)


@examples(0.5)
@given(st.lists(_COLUMNS, max_size=4))
def test_ids_are_numbered_once_for_all_columns(columns: list[list[int | None]]) -> None:
    ids = Ids()
    numbered = [ids.rows(pl.Series(column, dtype=pl.Int64)) for column in columns]
    table = ids.table().to_list()
    assert len(set(table)) == len(table)
    assert set(table) == {each for column in columns for each in column} - {None}
    for column, rows in zip(columns, numbered, strict=True):
        assert rows.dtype == pl.Int32
        assert [None if row is None else table[row] for row in rows] == column


@examples(0.5)
@given(
    st.lists(st.tuples(st.none() | _IDS, st.integers(0, 99)), max_size=6),
    st.integers(0, 3000),
    _COLUMNS,
)
def test_names_are_found_by_their_first_id(
    stated: list[tuple[int | None, int]], gap: int, asked: list[int | None]
) -> None:
    stated = [*stated, (gap, 7)]
    ids, names = zip(*stated, strict=True)
    by_id = NamesById(pl.Series(ids, dtype=pl.Int64), pl.Series(names, dtype=pl.Int32))
    expected = {known: name for known, name in reversed(stated) if known is not None}
    for column in (asked, [*asked, gap, gap + 1], [None, None]):
        found = by_id.of(pl.Series(column, dtype=pl.Int64))
        assert found.dtype == pl.Int32
        assert found.to_list() == [expected.get(each) for each in column]  # type: ignore[arg-type]


def test_a_file_without_ids_names_nothing() -> None:
    by_id = NamesById(pl.Series(dtype=pl.Int64), pl.Series(dtype=pl.Int32))
    assert by_id.of(pl.Series([0, 1, None], dtype=pl.Int64)).to_list() == [None] * 3
