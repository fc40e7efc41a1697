"""Rows by batch: each can be told from every other, and no column is there for nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict.made import SEED_COUNTS, report, seed_bucket
from traceanalyzer.renderers.bucket_table import OUTCOME, BucketTable, bucket_table
from traceanalyzer.renderers.markdown import render_markdown
from traceanalyzer.renderers.terminal import render_terminal
from traceanalyzer.verdict.baseline import told_baseline
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from traceanalyzer.report import Report

FIGURES = ("of cycle time", "accept_len", "tok/s", OUTCOME)
COMPARED = ("break-even", "plain tok/s", "speed-up")


def two_buckets(*, baseline: bool = False, **changes: Any) -> Report:
    """Two halves of a capture whose shapes differ in `changes`."""
    one = seed_bucket(share=0.5)
    other = replace(one, shape=replace(one.shape, **changes))
    known = Known(baseline=told_baseline(["11.1"])) if baseline else Known()
    return judged(report(one, other), known)


def shown(found: Report) -> str:
    return render_terminal(found, plain=True)


def table_of(found: Report) -> BucketTable:
    table = bucket_table(found)
    assert table is not None
    return table


@pytest.mark.parametrize(
    ("changes", "title", "cells"),
    [
        ({"padded_batch": 4}, "graph batch", ("1", "4")),
        ({"draft_tokens": 3}, "drafted", ("5", "3")),
        ({"prompt_tokens": 512}, "prompt tokens", ("-", "512")),
        ({"graph": "no graph"}, "launched", ("CUDA graph", "no graph")),
    ],
)
def test_what_tells_buckets_apart_has_a_column(
    changes: dict[str, Any], title: str, cells: tuple[str, str]
) -> None:
    table = table_of(two_buckets(**changes))
    assert table.titles == ("batch", "tokens", title, *FIGURES)
    assert tuple(row[2] for row in table.rows) == cells
    assert table.telling == {"batch", "tokens", title}


def test_what_has_one_value_in_all_buckets_has_none() -> None:
    table = table_of(two_buckets(batch=2, padded_batch=2, verified_tokens=12))
    assert table.titles == ("batch", "tokens", *FIGURES)
    assert [row[:2] for row in table.rows] == [("1", "6"), ("2", "12")]


def test_comparisons_have_columns_where_there_is_a_baseline() -> None:
    titles = table_of(two_buckets(baseline=True, padded_batch=4)).titles
    assert set(COMPARED) <= set(titles)
    assert titles[-1] == OUTCOME


def test_one_bucket_needs_no_table() -> None:
    assert bucket_table(judged(report(seed_bucket()), Known())) is None
    assert "By batch" not in render_markdown(judged(report(seed_bucket()), Known()))


def test_a_narrow_terminal_keeps_what_tells_buckets_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("traceanalyzer.renderers.verdict_screen.screen_width", lambda: 80)
    found = two_buckets(baseline=True, prompt_tokens=2048)
    _, _, by_batch = shown(found).partition("By batch")
    assert "prompt tokens" in by_batch
    assert "2048" in by_batch
    assert "no room for" in by_batch


def test_without_a_baseline_the_headline_says_what_a_plain_step_must_cost() -> None:
    step_ms = 31.744 / SEED_COUNTS.accept_len
    line = f"a win where a plain decode step takes more than {step_ms:.2f} ms."
    assert line in shown(judged(report(seed_bucket()), Known())).replace("\n   ", " ")
    unknown = shown(judged(report(seed_bucket(None)), Known()))
    assert "No verdict yet.\n" in unknown
