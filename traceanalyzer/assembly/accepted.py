"""What the cycles of a bucket accepted, with its interval and the ledger of verified slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.report import BucketAcceptance, Estimated, SlotLedger
from traceanalyzer.speculation.acceptance import AcceptanceCounts
from traceanalyzer.speculation.confidence import block_ratio, clustered_ratio

if TYPE_CHECKING:
    from traceanalyzer.analyses.acceptance import AcceptedInBucket
    from traceanalyzer.speculation.confidence import Estimate

_ENOUGH_REQUESTS: Final = 10
"""Below it an interval over requests would rest on too few of them; cycles are resampled then."""


def bucket_acceptance(
    found: AcceptedInBucket, verified_tokens: int | None
) -> BucketAcceptance | None:
    """The acceptance of one bucket; None when none of its requests was live.

    Args:
        found: What the marks tell.
        verified_tokens: Tokens in each target forward, over all requests; None when unknown.
    """
    committed = sum(tokens for tokens, _ in found.by_cycle)
    live = sum(requests for _, requests in found.by_cycle)
    if not live:
        return None
    counts = AcceptanceCounts.from_rows(found.counts)
    by_request = len(found.by_request) >= _ENOUGH_REQUESTS
    interval = clustered_ratio(found.by_request) if by_request else block_ratio(found.by_cycle)
    per_cycle = block_ratio([(tokens, 1) for tokens, _ in found.by_cycle])
    shared = live / found.cycles  # requests a cycle
    return BucketAcceptance(
        cycles=found.cycles,
        request_cycles=live,
        requests=len(found.by_request) or None,
        committed_tokens=committed,
        accept_len=_within(1.0, committed / live, interval, counts.longest + 1),
        committed_per_cycle=_within(
            shared, committed / found.cycles, per_cycle, shared * (counts.longest + 1)
        ),
        counts=[(k, accepted, count) for k, accepted, count in found.counts],
        survival=list(counts.survival()),
        conditional=list(counts.conditional()),
        interval_from=("requests" if by_request else "blocks of cycles") if interval else None,
        ledger=_ledger(found, committed, verified_tokens),
    )


def _within(least: float, value: float, interval: Estimate | None, most: float) -> Estimated:
    """With an interval inside what is possible; overshoot may take the value itself below."""
    if interval is None:
        return Estimated(value)
    return Estimated(value, max(interval.low, min(value, least)), min(interval.high, most))


def _ledger(
    found: AcceptedInBucket, committed: int, verified_tokens: int | None
) -> SlotLedger | None:
    """Where the slots went; None when they are not known or do not add up."""
    live = sum(requests for _, requests in found.by_cycle)
    rows = live + found.stale + found.idle
    verified = (verified_tokens or 0) * found.cycles
    if not verified or verified % rows:
        return None
    slots = verified // rows
    stale, idle = found.stale * slots, found.idle * slots
    rejected = verified - committed - found.overshoot_tokens - stale - idle
    if rejected < 0:
        return None
    return SlotLedger(verified, committed, rejected, found.overshoot_tokens, stale, idle)
