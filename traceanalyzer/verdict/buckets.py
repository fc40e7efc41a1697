"""One bucket of speculating cycles against plain decode at the same batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.report import BucketVerdict, Estimated
from traceanalyzer.speculation import speedup as theory
from traceanalyzer.verdict.estimates import NS_PER_MS, product_of
from traceanalyzer.verdict.growth import Explained, draft_collective_ns, explained_growth
from traceanalyzer.verdict.untraced import periods_of_step, served_period

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketReport
    from traceanalyzer.verdict.baseline import Step

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Accepted:
    """The accept length to use for a bucket.

    Attributes:
        accept_len: Bonus token included.
        source: Where it comes from and by which definition.
        live_per_cycle: Live requests in a cycle; the batch where nothing else is known.
        counted: Whether it was counted in these cycles, so that a missing interval means doubt
            and not certainty.
        requests: How many it was counted over; None when unknown.
    """

    accept_len: Estimated
    source: str
    live_per_cycle: float
    counted: bool
    requests: int | None = None


def bucket_verdict(
    place: int, bucket: BucketReport, accepted: Accepted | None, step: Step | None
) -> BucketVerdict:
    """Judge one bucket.

    Args:
        place: Of the bucket in the report.
        bucket: Its times.
        accepted: What it accepts, None when unknown.
        step: The plain decode step to compare with, None when there is none.
    """
    found = _costs(BucketVerdict(bucket=place, outcome="no acceptance"), bucket)
    if accepted is not None:
        found = _with_acceptance(found, bucket, accepted)
    if step is not None:
        found = _with_baseline(found, bucket, step, accepted)
    if accepted is None or step is None or accepted.accept_len.value <= 0:
        return found
    return _compared(found, bucket, accepted)


def _costs(found: BucketVerdict, bucket: BucketReport) -> BucketVerdict:
    target_ns = _rollup_ns(bucket, "target")
    per_request = verified_per_request(bucket)
    return replace(
        found,
        target_ns=target_ns,
        target_ns_per_verified_token=target_ns / per_request if target_ns and per_request else None,
        draft_collective_ns=draft_collective_ns(bucket),
    )


def _with_acceptance(
    found: BucketVerdict, bucket: BucketReport, accepted: Accepted
) -> BucketVerdict:
    per_request = verified_per_request(bucket)
    accept_len = accepted.accept_len
    live = Estimated(accepted.live_per_cycle)
    if accept_len.value <= 0:
        return replace(found, outcome="no baseline", accept_len_from=accepted.source)
    return replace(
        found,
        outcome="no baseline",
        accept_len=accept_len,
        accept_len_from=accepted.source,
        accept_len_requests=accepted.requests,
        tokens_per_s=_per_second((accept_len, live), served_period(bucket)),
        break_even_baseline_ns=product_of(((served_period(bucket), 1.0), (accept_len, -1.0))),
        target_ns_per_committed_token=found.target_ns / accept_len.value
        if found.target_ns
        else None,
        wasted_share=theory.wasted_share(accept_len.value, per_request) if per_request else None,
    )


def _with_baseline(
    found: BucketVerdict, bucket: BucketReport, step: Step, accepted: Accepted | None
) -> BucketVerdict:
    live = accepted.live_per_cycle if accepted else bucket.shape.batch or 1
    explained = explained_growth(step.bucket, bucket) if step.bucket else Explained()
    return replace(
        found,
        baseline_ns=step.period_ns,
        baseline_from=step.source,
        baseline_tokens_per_s=_plain_rate(live, bucket.shape.batch, step.period_ns),
        break_even_accept_len=periods_of_step(bucket, step),
        target_to_decode=found.target_ns / step.period_ns.value if found.target_ns else None,
        growth=explained.rows,
        growth_causes=explained.causes,
        growth_evidence=explained.evidence,
    )


def _plain_rate(live: float, batch: int | None, period_ns: Estimated) -> Estimated:
    """Without an interval where requests come and go: how many would live then is not measured."""
    rate = _per_second((Estimated(live),), period_ns)
    return Estimated(rate.value) if batch is not None and live != batch else rate


def _compared(found: BucketVerdict, bucket: BucketReport, accepted: Accepted) -> BucketVerdict:
    assert found.baseline_ns is not None, "compared with a baseline"
    assert found.break_even_accept_len is not None, "which tells that accept length"
    accept_len, period, step = accepted.accept_len, bucket.mean_period_ns, found.baseline_ns
    speedup = product_of(((accept_len, 1.0), (found.break_even_accept_len, -1.0)))
    rest_ns = period.value - (found.target_ns or 0.0)
    verify_ns = theory.break_even_verify_ms(accept_len.value, step.value, rest_ns)
    longest = longest_run(bucket)
    doubted = [period, accept_len] if accepted.counted else [period]
    return replace(
        found,
        outcome=outcome_of(speedup, known=all(each.low is not None for each in doubted)),
        speedup=speedup,
        break_even_period_ns=theory.break_even_period_ms(accept_len.value, step.value),
        break_even_verify_ns=verify_ns if found.target_ns and verify_ns > 0 else None,
        free_drafting_speedup=_free_drafting(bucket, accept_len, step),
        perfect_acceptance_speedup=theory.perfect_acceptance_speedup(
            longest, period.value, step.value
        )
        if longest
        else None,
    )


def outcome_of(speedup: Estimated, *, known: bool = True) -> str:
    """Whether it is winning or losing, undecided when the interval holds 1 or is not known."""
    low = speedup.value if speedup.low is None else speedup.low
    high = speedup.value if speedup.high is None else speedup.high
    if low > 1 and known:
        return "winning"
    return "losing" if high < 1 and known else "undecided"


def verified_per_request(bucket: BucketReport) -> float | None:
    """n: tokens that the target forward verifies for one request, None when unknown."""
    shape = bucket.shape
    if shape.verified_tokens is None or not shape.batch:
        return None
    return shape.verified_tokens / shape.batch


def longest_run(bucket: BucketReport) -> int | None:
    """k: the longest accepted run that is possible, None when unknown."""
    if bucket.acceptance and bucket.acceptance.counts:
        return max(k for k, _, _ in bucket.acceptance.counts)
    shape = bucket.shape
    if shape.draft_tokens is None or not shape.batch:
        return None
    return shape.draft_tokens // shape.batch


def _free_drafting(bucket: BucketReport, accept_len: Estimated, step: Estimated) -> float | None:
    drafting_ns = _rollup_ns(bucket, "drafting")
    if drafting_ns is None:
        return None
    rest_ms = (bucket.mean_period_ns.value - drafting_ns) / NS_PER_MS
    return theory.speedup(accept_len.value, rest_ms, step.value / NS_PER_MS)


def _rollup_ns(bucket: BucketReport, name: str) -> float | None:
    return next((each.mean_ns_per_cycle for each in bucket.rollups if each.name == name), None)


def _per_second(tokens: Sequence[Estimated], period_ns: Estimated) -> Estimated:
    factors = [(each, 1.0) for each in (*tokens, Estimated(NS_PER_S))]
    return product_of((*factors, (period_ns, -1.0)))
