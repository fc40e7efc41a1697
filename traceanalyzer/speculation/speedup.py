"""Does speculation pay: speed-up, break-even on each axis, ceilings, and mixed loads.

With A committed tokens a cycle (`accept_len`, bonus included), a period of T ms and a plain decode
step of T_base ms at the same batch, S = A x T_base / T. Times are ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from traceanalyzer.speculation.confidence import Estimate, product

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ENOUGH_MATCHED_SHARE: Final = 0.8
"""Share of wall time that needs a baseline of its own bucket before a mixed speed-up is given."""


def tokens_per_s(accept_len: float, period_ms: float, batch: float = 1) -> float:
    """Tokens a second of `batch` requests that each commit accept_len tokens a period."""
    return 1000 * batch * accept_len / period_ms


def implied_accept_len(tokens_per_s: float, period_ms: float, batch: float = 1) -> float:
    """The accept_len that a measured rate and period must have had."""
    return tokens_per_s * period_ms / (1000 * batch)


def speedup(accept_len: float, period_ms: float, baseline_ms: float) -> float:
    """S = A x T_base / T.

    Medusa's acceleration rate over overhead (arXiv 2401.10774), MagicDec's Omega over relative
    cost (arXiv 2408.11049); a utility below 1 is Cascade's sign to stop (arXiv 2506.20675).
    """
    return accept_len * baseline_ms / period_ms


def speedup_estimate(accept_len: Estimate, period_ms: Estimate, baseline_ms: Estimate) -> Estimate:
    """`speedup` of independent estimates, with its interval."""
    return product((accept_len, 1.0), (baseline_ms, 1.0), (period_ms, -1.0))


def break_even_accept_len(period_ms: float, baseline_ms: float) -> float:
    """The accept_len at which S = 1."""
    return period_ms / baseline_ms


def break_even_period_ms(accept_len: float, baseline_ms: float) -> float:
    """The period at which S = 1, ms."""
    return accept_len * baseline_ms


def break_even_verify_ms(accept_len: float, baseline_ms: float, rest_ms: float) -> float:
    """The verify time at which S = 1, ms.

    Args:
        accept_len: Committed tokens a cycle.
        baseline_ms: A plain decode step.
        rest_ms: Everything in the period but verify.

    Returns:
        0 or less where no verify is cheap enough.
    """
    return accept_len * baseline_ms - rest_ms


def free_drafting_speedup(
    accept_len: float, verify_ms: float, baseline_ms: float, other_ms: float = 0.0
) -> float:
    """The ceiling of all work on draft and re-extend: S if both took no time."""
    return speedup(accept_len, verify_ms + other_ms, baseline_ms)


def perfect_acceptance_speedup(draft_tokens: int, period_ms: float, baseline_ms: float) -> float:
    """The ceiling of all work on acceptance: S if every draft were accepted."""
    return speedup(draft_tokens + 1, period_ms, baseline_ms)


def wasted_share(accept_len: float, verified_tokens: float) -> float:
    """Share of verified tokens that commit nothing: 1 - A/n."""
    return 1 - accept_len / verified_tokens


def verify_ms_per_committed_token(accept_len: float, verify_ms: float) -> float:
    """What verify alone costs a committed token; above T_base no drafting can win."""
    return verify_ms / accept_len


def target_efficiency(verify_ms: float, baseline_ms: float) -> float:
    """T_base / T_verify: the system's part of the speed-up (MoESD, arXiv 2505.19645)."""
    return baseline_ms / verify_ms


def elasticities(phase_ms: Mapping[str, float], period_ms: float) -> dict[str, float]:
    """Per cent of S for one per cent of each phase's time: minus its share.

    d ln S / d ln T_x = -T_x / T; for accept_len it is 1.
    """
    return {phase: -ms / period_ms for phase, ms in phase_ms.items()}


def goodput(committed_tokens: float, period_ms_sum: float) -> float:
    """Committed tokens a second over cycles of any lengths: the ratio of the sums."""
    return 1000 * committed_tokens / period_ms_sum


@dataclass(frozen=True, slots=True)
class BucketLoad:
    """What one bucket of equal cycles carried.

    Args:
        committed_tokens: Of all its requests and cycles.
        wall_ms: Sum of its periods.
        batch: Requests in each cycle.
        baseline_ms: A plain decode step at this batch; None where none was measured.
    """

    committed_tokens: float
    wall_ms: float
    batch: float
    baseline_ms: float | None

    @property
    def baseline_wall_ms(self) -> float | None:
        """What plain decoding would have needed for the same tokens, ms."""
        if self.baseline_ms is None:
            return None
        return self.committed_tokens * self.baseline_ms / self.batch


@dataclass(frozen=True, slots=True)
class MixedSpeedup:
    """A speed-up over several buckets, None where too little wall time has a baseline."""

    speedup: float | None
    matched_share: float


def mixed_speedup(loads: Iterable[BucketLoad]) -> MixedSpeedup:
    """What plain decoding would have needed for the same tokens, over what was needed.

    Each bucket's tokens are priced at its own baseline, so a shift of load between buckets
    cannot pass for a speed-up or hide one. Below `ENOUGH_MATCHED_SHARE` nothing is given.
    """
    loads = list(loads)
    total_ms = math.fsum(load.wall_ms for load in loads)
    matched = [load for load in loads if load.baseline_wall_ms is not None]
    wall_ms = math.fsum(load.wall_ms for load in matched)
    share = wall_ms / total_ms if total_ms else 0.0
    if wall_ms <= 0 or share < ENOUGH_MATCHED_SHARE:
        return MixedSpeedup(None, share)
    plain_ms = math.fsum(load.baseline_wall_ms or 0.0 for load in matched)
    return MixedSpeedup(plain_ms / wall_ms, share)


def whole_service_speedup(not_decoding_share: float, decode_speedup: float) -> float:
    """1 / (phi + (1 - phi)/S): the speed-up of requests end to end (Amdahl's law).

    Args:
        not_decoding_share: phi, the share of the baseline's wall time that is not decoding.
        decode_speedup: S.
    """
    return 1 / (not_decoding_share + (1 - not_decoding_share) / decode_speedup)


@dataclass(frozen=True, slots=True)
class Threshold:
    """The batch from which speculation loses, with its 95 % interval.

    Args:
        batch: None where the speed-up does not fall through 1 in the batches measured.
        low: None where even the smallest batch may lose.
        high: None where even the largest batch may win.
        outcome: What the speed-ups themselves say.
    """

    batch: float | None
    low: float | None
    high: float | None
    outcome: Literal["crosses", "wins throughout", "loses from the start"]


def batch_threshold(points: Sequence[tuple[float, Estimate]]) -> Threshold:
    """Where S falls through 1 as the batch grows.

    Between two batches ln S is taken as linear in ln batch; the interval is where the lower and
    the upper bounds of S cross.

    Args:
        points: Batch (above 0, each once), and the speed-up there (above 0).

    Raises:
        ValueError: No point.
    """
    if not points:
        raise ValueError("a threshold needs the speed-up at some batch")
    ordered = sorted(points, key=lambda point: point[0])
    batch = _crossing([(each, s.value) for each, s in ordered])
    outcome: Literal["crosses", "wins throughout", "loses from the start"] = "crosses"
    if batch is None:
        outcome = "loses from the start" if ordered[0][1].value < 1 else "wins throughout"
    return Threshold(
        batch,
        _crossing([(each, s.low) for each, s in ordered]),
        _crossing([(each, s.high) for each, s in ordered]),
        outcome,
    )


def _crossing(points: Sequence[tuple[float, float]]) -> float | None:
    """The first batch at which a speed-up falls below 1; None where it starts or stays there."""
    for (batch, s), (next_batch, next_s) in pairwise(points):
        if s < 1:
            return None
        if next_s < 1:
            share = math.log(s) / math.log(s / next_s) if next_s > 0 else 0.0
            return batch * math.exp(share * math.log(next_batch / batch))
    return None
