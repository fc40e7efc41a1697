"""All cycles together: what is not known of one bucket is in the doubt of the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verdict.made import MS, around, decode_bucket, phase, report, verify_bucket
from traceanalyzer.report import BucketReport, Estimated, Verdict
from traceanalyzer.speculation.acceptance import AcceptanceCounts
from traceanalyzer.verdict.baseline import Baseline, Step, told_baseline
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known

KNOWN = Known(baseline=told_baseline(["1=2", "2=2.5"]))


def verify(batch: int, cycles: int, ms: float = 3.0) -> BucketReport:
    """Cycles that commit 1.5 tokens a request each."""
    counts = AcceptanceCounts.from_histogram(1, [cycles * batch // 2, cycles * batch // 2])
    return verify_bucket([phase("verify", ms, ms)], counts, batch=batch, n=2, cycles=cycles)


def without_intervals(bucket: BucketReport) -> BucketReport:
    """As a single cycle tells it."""
    accepted = bucket.acceptance
    assert accepted
    length, tokens = (
        Estimated(each.value) for each in (accepted.accept_len, accepted.committed_per_cycle)
    )
    return replace(
        bucket,
        mean_period_ns=Estimated(bucket.mean_period_ns.value),
        acceptance=replace(accepted, accept_len=length, committed_per_cycle=tokens),
    )


def verdict_of(*buckets: BucketReport, known: Known = KNOWN) -> Verdict:
    verdict = judged(report(*buckets), known).verdict
    assert verdict is not None
    return verdict


def together(verdict: Verdict) -> Estimated:
    assert verdict.mixed is not None
    assert verdict.mixed.speedup is not None
    return verdict.mixed.speedup


def test_a_bucket_of_one_cycle_is_doubted_by_all_of_its_share() -> None:
    one = without_intervals(verify(2, 2, ms=6.0))
    found = together(verdict_of(verify(1, 98), one))
    wall_ms = 98 * 3.0 + 2 * 6.0
    own = 1.5 * 2.5 / 6.0 * (2 * 6.0) / wall_ms
    assert found.low == pytest.approx(found.value - own)
    assert found.high == pytest.approx(found.value + own)


def test_what_is_known_exactly_adds_no_doubt() -> None:
    found = together(verdict_of(verify(1, 98), verify(2, 2)))
    assert found.low == pytest.approx(found.value)
    assert found.high == pytest.approx(found.value)


def test_cycles_with_prompts_are_as_unsure_as_what_they_committed() -> None:
    mixed = verify(2, 100, ms=4.0)
    shape = replace(mixed.shape, kind="mixed", prompt_tokens=64)
    accepted = mixed.acceptance
    assert accepted
    unsure = replace(accepted, accept_len=around(1.5, 0.2), committed_per_cycle=around(3.0, 0.2))
    mixed = replace(mixed, shape=shape, acceptance=unsure)
    baseline = Baseline(KNOWN.baseline.steps, {(2, 64): Step(around(3.0 * MS), "made")})
    found = together(verdict_of(verify(1, 100), mixed, known=Known(baseline=baseline)))
    own = 0.2 * (3.0 + 0.5 * 2.5) / 4.0 * 4.0 / 7.0
    assert found.high == pytest.approx(found.value + own)


def test_what_keeps_the_whole_from_being_compared_is_named() -> None:
    """Every verifying bucket has a baseline, but half of the time carries prompts and has none."""
    mixed = verify(2, 100)
    mixed = replace(mixed, shape=replace(mixed.shape, kind="mixed", prompt_tokens=64))
    verdict = verdict_of(verify(1, 100), mixed)
    assert verdict.outcome == "unknown"
    (text,) = verdict.missing
    assert "50% of the cycle time (mixed cycles with 64 prompt tokens)" in text
    assert "--baseline" in text
    assert not verdict_of(verify(1, 100), decode_bucket(2.0)).missing
