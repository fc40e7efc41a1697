"""All matched buckets of two captures together, without falling for a change of their mix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traceanalyzer.report.comparison import Overall
from traceanalyzer.speculation.speedup import ENOUGH_MATCHED_SHARE
from traceanalyzer.verdict.matching import SAME_TOKENS
from traceanalyzer.verdict.ratios import inverse, weighted_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import Estimated, Report
    from traceanalyzer.report.comparison import BucketComparison


def deciding(buckets: Sequence[BucketComparison]) -> list[BucketComparison]:
    """The pairs on which a verdict rests."""
    if not buckets or buckets[0].relation == SAME_TOKENS:
        return []
    return [each for each in buckets if each.relation == buckets[0].relation]


def overall_of(a: Report, b: Report, buckets: Sequence[BucketComparison]) -> Overall | None:
    """The net change for A's tokens: each bucket's time a token, weighted by A's tokens in it.

    Args:
        a: The capture compared with.
        b: The capture that is compared.
        buckets: Matched buckets, those on which a verdict rests first.

    Returns:
        None where each capture has one bucket, which speaks for itself.
    """
    pairs = deciding(buckets)
    if not pairs or len(a.buckets) == len(b.buckets) == 1:
        return None
    share_a = math.fsum({each.a.bucket: each.a.time_share for each in pairs}.values())
    share_b = math.fsum({each.b.bucket: each.b.time_share for each in pairs}.values())
    found = Overall(pairs[0].relation, min(share_a, 1.0), min(share_b, 1.0))
    reason = _withheld(found, pairs)
    if reason is not None:
        return Overall(found.relation, found.matched_share_a, found.matched_share_b, None, reason)
    return Overall(found.relation, found.matched_share_a, found.matched_share_b, _net(pairs))


def _withheld(found: Overall, pairs: Sequence[BucketComparison]) -> str | None:
    if min(found.matched_share_a, found.matched_share_b) < ENOUGH_MATCHED_SHARE:
        return f"less than {ENOUGH_MATCHED_SHARE:.0%} of the cycle time of both was matched"
    if any(_net_ratio(each) is None for each in pairs):
        return "the acceptance of a matched bucket is unknown"
    return None


def _net(pairs: Sequence[BucketComparison]) -> Estimated:
    """A's time for its tokens over the time that B would need for them."""
    parts = []
    for pair in pairs:
        ratio = _net_ratio(pair)
        assert ratio is not None, "withheld otherwise"
        rivals = [each for each in pairs if each.a.bucket == pair.a.bucket]
        share = _tokens_of_b(pair) / math.fsum(map(_tokens_of_b, rivals))
        parts.append((pair.a.time_share * share, inverse(ratio)))
    used = ({pair.a.bucket for pair in pairs}, {pair.b.bucket for pair in pairs})
    independent = all(len(each) == len(pairs) for each in used)
    return inverse(weighted_mean(parts, independent=independent))


def _net_ratio(pair: BucketComparison) -> Estimated | None:
    return pair.tokens_per_s.ratio if pair.tokens_per_s else None


def _tokens_of_b(pair: BucketComparison) -> float:
    """Tokens that B's bucket committed."""
    per_token, period = pair.period_ns_per_token, pair.period_ns
    assert per_token is not None, "tokens are known"
    assert per_token.b is not None, "tokens are known"
    assert period.b is not None, "a bucket has a period"
    return period.b.value / per_token.b.value * pair.b.cycles / pair.b.ranks
