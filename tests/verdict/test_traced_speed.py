"""Tokens per second as recorded beside those served untraced."""

from __future__ import annotations

import pytest

from traceanalyzer.report import BucketVerdict, Estimated
from traceanalyzer.verdict.traced_speed import tracing_check

BUCKET = BucketVerdict(0, "no baseline", tokens_per_s=Estimated(183.0, 182.5, 183.5))


@pytest.mark.parametrize(
    ("untraced", "status", "says"),
    [
        (186.0, "ok", "183.0 tok/s as recorded, 186.0 untraced: slower by 1.6%"),
        (182.0, "ok", "faster by 0.5%"),
        (183.2, "ok", "within what the acceptance of so few cycles can tell"),
        (200.0, "warning", "slower by 8.5%"),
        (160.0, "warning", "faster by 14.4%"),
    ],
)
def test_both_rates_stand_side_by_side(untraced: float, status: str, says: str) -> None:
    (check,) = tracing_check(BUCKET, untraced)
    assert (check.check, check.status) == ("tracing", status)
    assert says in check.text
    assert (check.next_step is not None) == (status == "warning")


def test_a_wide_interval_is_no_slowdown() -> None:
    wide = BucketVerdict(0, "no baseline", tokens_per_s=Estimated(150.0, 100.0, 200.0))
    (check,) = tracing_check(wide, 186.0)
    assert check.status == "ok"


def test_without_acceptance_there_is_no_rate_to_compare() -> None:
    assert tracing_check(BucketVerdict(0, "no acceptance"), 186.0) == []
