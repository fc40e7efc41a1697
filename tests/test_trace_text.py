"""The text behind a name's id: by a dictionary's look-up, and null for ids that name nothing."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.trace import Trace

IDS = st.one_of(
    st.none(),
    st.integers(-3, 8),
    st.sampled_from((-(1 << 31), (1 << 31) - 1)),
)


def _trace(texts: list[str]) -> Trace:
    return Trace.checked(
        {
            "names": pl.DataFrame(
                {"name": range(len(texts)), "text": texts},
                schema={"name": pl.Int32, "text": pl.String},
            )
        }
    )


@given(st.lists(st.text(max_size=3), max_size=5), st.lists(IDS, max_size=8))
@examples(0.5)
def test_ids_that_name_nothing_are_null(texts: list[str], ids: list[int | None]) -> None:
    by_id: dict[int | None, str] = dict(enumerate(texts))
    table = pl.DataFrame({"id": ids, "other": ids}, schema={"id": pl.Int32, "other": pl.Int32})
    found = table.select(_trace(texts).text("id"), "other")
    assert found["id"].to_list() == [by_id.get(each) for each in ids]
    assert found.schema == {"id": pl.String, "other": pl.Int32}


@pytest.mark.parametrize("wide", [pl.Int64, pl.UInt32])
def test_a_wide_id_is_not_cut_down_to_one_that_is_there(wide: type[pl.DataType]) -> None:
    largest = 1 << 32 if wide == pl.Int64 else (1 << 32) - 1
    table = pl.DataFrame({"id": [0, largest, None]}, schema={"id": wide})
    assert table.select(_trace(["a"]).text("id"))["id"].to_list() == ["a", None, None]


def test_it_works_in_a_filter_and_beside_another_one() -> None:
    trace = _trace(["a", "b"])
    table = pl.DataFrame({"domain": [0, None, 1], "name": [1, 1, 7]})
    assert table.filter(trace.text("name") == "b")["domain"].to_list() == [0, None]
    both = table.select(pl.concat_str(trace.text("domain"), trace.text("name")))
    assert both.to_series().to_list() == ["ab", None, None]
