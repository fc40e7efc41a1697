"""Blocks put end to end, against polars' own way to do it."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.importers.stacking import Stack

_DTYPES = {"a": pl.Int64(), "b": pl.Int32(), "kind": pl.Enum(["x", "y"]), "never": pl.Int64()}
_VALUES = {"a": st.integers(0, 9), "b": st.integers(0, 9), "kind": st.sampled_from(["x", "y"])}


@st.composite
def _blocks(draw: st.DrawFn) -> list[pl.DataFrame]:
    blocks = []
    for height in draw(st.lists(st.integers(0, 4), max_size=5)):
        names = draw(st.permutations(sorted(_VALUES)))[: draw(st.integers(1, 3))]
        columns = []
        for name in names:
            value = draw(st.sampled_from([st.none(), _VALUES[name], st.none() | _VALUES[name]]))
            values = draw(st.lists(value, min_size=height, max_size=height))
            columns.append(pl.Series(name, values, dtype=_DTYPES[name]))
        blocks.append(pl.DataFrame(columns))
    return blocks


@pytest.mark.parametrize("copying", [True, False])
@examples()
@given(blocks=_blocks())
def test_a_stack_is_its_blocks_end_to_end(blocks: list[pl.DataFrame], copying: bool) -> None:
    stack = Stack(_DTYPES, copying=copying)
    given_rows = [block.rows() for block in blocks]
    for block in blocks:
        stack.add(block)
    joined = stack.joined()
    expected = pl.concat([pl.DataFrame(schema=_DTYPES), *blocks], how="diagonal")
    assert joined.schema == pl.Schema(_DTYPES)
    assert joined.rows() == expected.rows()
    assert all(joined[name].n_chunks() == 1 for name in _DTYPES)
    assert [block.rows() for block in blocks] == given_rows
