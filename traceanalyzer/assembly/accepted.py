"""What the cycles of a bucket accepted, with its interval and the ledger of verified slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from traceanalyzer.report import BucketAcceptance, Estimated, SlotLedger
from traceanalyzer.speculation.acceptance import AcceptanceCounts
from traceanalyzer.speculation.confidence import Estimate, block_ratio, clustered_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traceanalyzer.analyses.acceptance import AcceptedInBucket

_ENOUGH_REQUESTS: Final = 10
"""Below it requests that happen to be alike would tell too narrow an interval."""


def bucket_acceptance(found: AcceptedInBucket, shape: Mapping[str, Any]) -> BucketAcceptance | None:
    """The acceptance of one bucket; None when none of its requests was live.

    Args:
        found: What the marks tell.
        shape: Of the bucket: batch, padded_batch, verified_tokens over all requests.
    """
    committed = sum(tokens for tokens, _ in found.by_cycle)
    live = sum(requests for _, requests in found.by_cycle)
    if not live:
        return None
    counts = AcceptanceCounts.from_rows(found.counts)
    cycles = len(found.by_cycle)
    interval, unit = _interval(found)
    accept_len = _within_bounds(committed / live, interval, counts.longest + 1)
    return BucketAcceptance(
        cycles=cycles,
        request_cycles=live,
        requests=len(found.by_request) or None,
        committed_tokens=committed,
        accept_len=accept_len,
        committed_per_cycle=_times(accept_len, live / cycles),
        counts=[(k, accepted, count) for k, accepted, count in found.counts],
        survival=list(counts.survival()),
        conditional=list(counts.conditional()),
        interval_from=unit if interval else None,
        ledger=_ledger(found, Slots(committed, live, cycles), shape),
    )


def _interval(found: AcceptedInBucket) -> tuple[Estimate | None, str]:
    """The interval of the accept length, and what it counts as the unit of chance.

    Of few requests it is the wider one of theirs and of what single cycles tell.
    """
    by_request = clustered_ratio(found.by_request)
    if by_request is not None and len(found.by_request) >= _ENOUGH_REQUESTS:
        return by_request, "requests"
    by_cycle = block_ratio(found.by_cycle)
    if by_request is None or by_cycle is None:
        return by_cycle, "blocks of cycles"
    low, high = min(by_request.low, by_cycle.low), max(by_request.high, by_cycle.high)
    return Estimate(by_request.value, low, high), "requests"


def _within_bounds(value: float, interval: Estimate | None, most: float) -> Estimated:
    """With an interval inside what is possible; overshoot may take the value itself below 1."""
    if interval is None:
        return Estimated(value)
    low, high = max(interval.low, 1.0), min(interval.high, float(most))
    return Estimated(value, min(low, value), max(high, value))


def _times(found: Estimated, factor: float) -> Estimated:
    """Requests differ, so tokens of a cycle are as unsure as those of a request-cycle."""
    if found.low is None or found.high is None:
        return Estimated(found.value * factor)
    return Estimated(found.value * factor, found.low * factor, found.high * factor)


class Slots(NamedTuple):
    """Committed tokens, live request-cycles, and cycles of a bucket."""

    committed: int
    live: int
    cycles: int


def _ledger(found: AcceptedInBucket, slots: Slots, shape: Mapping[str, Any]) -> SlotLedger | None:
    """Where the slots went; None when they are not known or do not add up."""
    batch, padded = shape["batch"], shape["padded_batch"]
    verified = (shape["verified_tokens"] or 0) * slots.cycles
    rows = [(k, count) for k, _, count in found.counts] + found.stale + found.idle
    size = _slots_of(rows, verified)
    if size is None or not batch:
        return None
    stale = sum(size(k) * count for k, count in found.stale)
    padding = max(0, (padded or batch) - batch) * verified // batch
    idle = sum(size(k) * count for k, count in found.idle) + padding
    rejected = verified + padding - slots.committed - found.overshoot_tokens - stale - idle
    if rejected < 0:
        return None
    return SlotLedger(
        verified + padding, slots.committed, rejected, found.overshoot_tokens, stale, idle
    )


def _slots_of(rows: Sequence[tuple[int, int]], verified: int) -> Callable[[int], int] | None:
    """Verified slots of one request by its k: k + 1 on chains, the same for all in trees."""
    if not verified:
        return None
    if sum((k + 1) * count for k, count in rows) == verified:
        return lambda k: k + 1
    requests = sum(count for _, count in rows)
    if len({k for k, _ in rows}) > 1 or verified % requests:
        return None
    return lambda _: verified // requests
