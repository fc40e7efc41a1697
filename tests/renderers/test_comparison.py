"""A comparison in the forms that a person reads, as it is in tests/golden."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.renderers.test_golden import assert_golden
from tests.verdict import made
from traceanalyzer.renderers.comparison import render_markdown, render_terminal
from traceanalyzer.report import Estimated, Report, Tool
from traceanalyzer.verdict.comparison import compare_reports

if TYPE_CHECKING:
    from traceanalyzer.report import BucketReport
    from traceanalyzer.report.comparison import Comparison

MS = made.MS


def bucket(verify_ms: float, batch: int, share: float, kernel: str) -> BucketReport:
    """3 ms of draft, this verify, and 0.1 ms of both; kernels are recorded at batch 1."""
    period_ms = 3.0 + verify_ms + 0.1
    classes = {"MoE": verify_ms - 8, "attention": 6.0} if batch == 1 else None
    phases = [
        made.phase("draft", 3.0, period_ms, gaps={"host late": 0.4}),
        made.phase("verify", verify_ms, period_ms, classes=classes, kernel=kernel),
    ]
    counts = made.AcceptanceCounts.from_histogram(5, [430, 245, 140, 80, 45, 60])
    period = made.around(period_ms * MS, 0.005)
    found = made.verify_bucket(phases, counts, batch=batch, share=share, mean_period_ns=period)
    return replace(found, overlap_ns_per_cycle=0.1 * MS, overlap_share=0.1 / period_ms)


def comparison() -> Comparison:
    """Verify at batch 1 got dearer and at batch 2 cheaper; batch 4 is in B alone."""
    a = made.report(bucket(28.0, 1, 0.6, "old"), bucket(33.0, 2, 0.4, "old"), path="a.sqlite")
    b = made.report(
        bucket(29.5, 1, 0.5, "new"),
        bucket(31.0, 2, 0.4, "new"),
        bucket(40.0, 4, 0.1, "new"),
        path="b.sqlite",
    )
    return compare_reports(a, b, tool=Tool("traceanalyzer", "0"))


def not_comparable() -> Comparison:
    """B was recorded under timers, and a single cycle of it was kept."""
    alone = replace(bucket(29.5, 1, 1.0, "old"), cycles=1, mean_period_ns=Estimated(32.6 * MS))
    a = made.report(bucket(28.0, 1, 1.0, "old"), path="a.sqlite")
    b: Report = made.report(alone, path="b.sqlite", syncs=6.0)
    return compare_reports(a, b, tool=Tool("traceanalyzer", "0"))


def test_terminal() -> None:
    assert_golden("comparison.txt", render_terminal(comparison(), plain=True))
    assert_golden("comparison.blocked.txt", render_terminal(not_comparable(), plain=True))


def test_markdown() -> None:
    assert_golden("comparison.md", render_markdown(comparison()))
