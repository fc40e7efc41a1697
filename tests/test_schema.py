from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from traceanalyzer import schema
from traceanalyzer.errors import InputError
from traceanalyzer.trace import Trace, concatenate

DOCS = Path(__file__).parents[1] / "docs" / "tables.md"


def test_the_docs_are_the_schema() -> None:
    assert DOCS.read_text(encoding="utf-8") == schema.markdown()


def test_an_empty_trace_has_every_declared_table() -> None:
    trace = Trace.checked({})
    for table in schema.TABLES:
        assert getattr(trace, table.name).schema == table.polars_schema


def test_narrow_integers_and_any_column_order_are_taken() -> None:
    rows = pl.DataFrame({"text": ["a"], "name": [0]}, schema={"text": pl.String, "name": pl.Int8})
    assert Trace.checked({"names": rows}).names.schema == schema.NAMES.polars_schema


@pytest.mark.parametrize(
    ("tables", "what"),
    [
        ({"nonsense": pl.DataFrame()}, "unknown tables: nonsense"),
        ({"names": pl.DataFrame({"name": [0]})}, "column text is missing"),
        ({"names": pl.DataFrame({"name": ["x"], "text": ["a"]})}, "wrong type"),
        ({"names": pl.DataFrame({"name": [0], "text": [None]})}, "column text holds nulls"),
    ],
)
def test_a_table_that_breaks_the_declaration_is_refused(
    tables: dict[str, pl.DataFrame], what: str
) -> None:
    with pytest.raises(InputError, match=what):
        Trace.checked(tables)


def named(*texts: str, mark: int) -> Trace:
    """A trace of one process whose only mark bears the name at row `mark`."""
    process = {"process": [0], "file": [0], "process_id": [7], "name": ["p"], "rank": [None]}
    instant = {"time_ns": [1], "thread": [0], "domain": [None], "name": [mark], "payload": [None]}
    thread = {"thread": [0], "process": [0], "thread_id": [7], "name": [None]}
    return Trace.checked(
        {
            "names": pl.DataFrame({"name": range(len(texts)), "text": texts}),
            "processes": pl.DataFrame(process),
            "threads": pl.DataFrame(thread),
            "marks": pl.DataFrame(instant),
        }
    )


def test_concatenating_keeps_processes_apart_and_shares_names() -> None:
    joined = concatenate([named("a", "b", mark=1), named("b", "c", mark=0)])
    assert joined.names["text"].to_list() == ["a", "b", "c"]
    assert joined.marks["name"].to_list() == [1, 1]
    assert joined.marks["thread"].to_list() == [0, 1]
    assert joined.processes["process"].to_list() == [0, 1]
    assert joined.processes["name"].to_list() == ["p", "p"]
