"""Counts of acceptance agree within what the marks of all buckets leave open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verdict.made import around, decode_bucket, phase, report, verify_bucket
from traceanalyzer.report import BucketReport, Check, Estimated, Report
from traceanalyzer.speculation.acceptance import AcceptanceCounts, AcceptanceReading
from traceanalyzer.verdict.baseline import Baseline, Step, told_baseline
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known


def bucket(histogram: list[int], doubt: float = 0.0, n: int | None = None) -> BucketReport:
    """Verifies that accept so many drafts so often; its accept_len is off by `doubt`."""
    counts = AcceptanceCounts.from_histogram(len(histogram) - 1, histogram)
    made = verify_bucket([phase("verify", 3.0, 3.0)], counts, n=n or len(histogram), share=0.5)
    assert made.acceptance
    length = around(made.acceptance.accept_len.value, doubt)
    return replace(made, acceptance=replace(made.acceptance, accept_len=length))


def checks_of(found: Report, counted: float) -> list[Check]:
    reading = AcceptanceReading(
        source="a log", read_as="accept len", conversion="none", accept_len=counted
    )
    known = Known(baseline=told_baseline(["1=2"]), readings=(reading,))
    return [each for each in judged(found, known).trust if each.check == "acceptance"]


def test_a_server_that_drafts_several_lengths_may_accept_more_than_the_main_bucket_can() -> None:
    one, three = bucket([20, 80], n=2), bucket([0, 0, 20, 80], n=4)
    accepted = (80 + 2 * 20 + 3 * 80 + 200) / 200
    assert accepted > 2, "more than k = 1 gives"
    assert [each.status for each in checks_of(report(one, three), accepted)] == ["ok"]
    beyond = checks_of(report(one, three), 4.2)
    assert [each.status for each in beyond] == ["failed"]
    assert "above 4" in beyond[0].text


@pytest.mark.parametrize(("counted", "status"), [(1.58, "ok"), (1.36, "failed"), (1.64, "failed")])
def test_the_doubts_of_several_buckets_are_pooled(counted: float, status: str) -> None:
    """Two halves of 1.5, off by 10 % each: together 1.5 within 7.1 %."""
    found = report(bucket([50, 50], 0.1), bucket([50, 50], 0.1))
    assert [each.status for each in checks_of(found, counted)] == [status]


def test_a_bucket_that_tells_no_interval_is_doubted_by_its_share() -> None:
    unknown = bucket([50, 50])
    assert unknown.acceptance
    bare = replace(unknown.acceptance, accept_len=Estimated(1.5))
    found = report(bucket([50, 50]), replace(unknown, acceptance=bare))
    assert [each.status for each in checks_of(found, 1.5 + 0.74)] == ["failed"], "k = 1"
    assert [each.status for each in checks_of(found, 1.9)] == ["ok"]


def test_verifies_that_carry_prompts_are_in_the_counters_too() -> None:
    alone, mixed = bucket([0, 100]), bucket([100, 0])
    mixed = replace(mixed, shape=replace(mixed.shape, kind="mixed", prompt_tokens=64))
    assert [each.status for each in checks_of(report(alone, mixed), 1.5)] == ["ok"]
    assert [each.status for each in checks_of(report(alone, mixed), 2.0)] == ["failed"]


def test_a_server_whose_every_cycle_carries_prompts_is_told_what_is_missing() -> None:
    mixed = bucket([50, 50])
    mixed = replace(mixed, shape=replace(mixed.shape, kind="mixed", prompt_tokens=64))
    verdict = judged(report(mixed), Known()).verdict
    assert verdict is not None
    assert verdict.outcome == "unknown"
    (text,) = verdict.missing
    assert "record" in text
    assert judged(report(decode_bucket(2.0)), Known()).verdict is None


def test_doubts_about_the_baselines_times_are_told() -> None:
    doubt = Check("node recording", "warning", "nodes slow it", "Record it twice.")
    other = Check("cycles", "warning", "few", "Record more.")
    plain = replace(report(decode_bucket(2.0), path="plain.sqlite"), trust=[doubt, other])
    step = Step(decode_bucket(2.0).mean_period_ns, "plain", plain.buckets[0], plain)
    found = judged(report(bucket([50, 50])), Known(baseline=Baseline({1: [step]})))
    told = [each for each in found.trust if "nodes slow it" in each.text]
    assert [(each.check, each.status, each.next_step) for each in told] == [
        ("baseline", "warning", "Record it twice.")
    ]
    assert not any("few" in each.text for each in found.trust)
