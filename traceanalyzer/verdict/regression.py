"""Is B slower than A by more than is allowed, for sure?

A loss counts only when its 95 % interval lies beyond what is allowed; one that cannot be judged
is told apart from none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.speculation.speedup import ENOUGH_MATCHED_SHARE
from traceanalyzer.verdict.comparison_words import change, shape_text
from traceanalyzer.verdict.matching import SAME_SHAPE
from traceanalyzer.verdict.overall import deciding
from traceanalyzer.verdict.ratios import inverse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import Estimated
    from traceanalyzer.report.comparison import BucketComparison, Comparison


@dataclass(frozen=True, slots=True)
class Regressions:
    """What a gate found.

    Attributes:
        sure: Losses beyond what is allowed.
        doubtful: Losses that may be beyond it: their interval holds what is allowed.
        not_judged: Why something could not be judged.
    """

    sure: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is a regression, or none could be ruled out."""
        return bool(self.sure or self.not_judged)


def regressions(found: Comparison, allowed_share: float) -> Regressions:
    """Judge tokens per second of every matched bucket, and of all together at A's mix.

    Args:
        found: The comparison.
        allowed_share: Loss of tokens per second that is allowed, 0..1.

    Returns:
        Where the acceptance of either capture is unknown, cycles of the same shape are judged by
        their length alone. Four fifths of the cycle time of each capture must be judged.
    """
    blocking = tuple(each.text for each in found.obstacles if each.blocks)
    if blocking:
        return Regressions(not_judged=blocking)
    pairs = deciding(found.buckets)
    if not pairs:
        return Regressions(not_judged=("no cycles of one shape in both",))
    known = [(each, speed) for each in pairs if (speed := _speed(each)) and speed.high is not None]
    judged = [(_name(each), speed) for each, speed in known]
    if found.overall is not None and found.overall.net is not None:
        judged.append(("all together", found.overall.net))
    least = 1 - allowed_share
    return Regressions(
        tuple(_told(*each) for each in judged if _end(each[1]) < least),
        tuple(_told(*each) for each in judged if each[1].value < least <= _end(each[1])),
        _too_little(pairs, [each for each, _ in known]),
    )


def _too_little(
    pairs: Sequence[BucketComparison], judged: Sequence[BucketComparison]
) -> tuple[str, ...]:
    """That most of the cycle time of A or B was not judged, and why."""
    share_a = math.fsum({each.a.bucket: each.a.time_share for each in judged}.values())
    share_b = math.fsum({each.b.bucket: each.b.time_share for each in judged}.values())
    if min(share_a, share_b) >= ENOUGH_MATCHED_SHARE:
        return ()
    text = f"only {share_a:.0%} of A's cycle time and {share_b:.0%} of B's can be judged"
    lacks = [_lack(each) for each in pairs if each not in judged]
    return ("; ".join([text, *lacks]),)


def _lack(pair: BucketComparison) -> str:
    speed = _speed(pair)
    lacks = "too few cycles for an interval" if speed else "acceptance unknown"
    return f"{shape_text(pair.b.shape)}: {lacks}"


def _end(speed: Estimated) -> float:
    return math.inf if speed.high is None else speed.high


def _speed(pair: BucketComparison) -> Estimated | None:
    """B's speed over A's; by the cycle alone where tokens are unknown but shapes are equal."""
    if pair.tokens_per_s is not None:
        return pair.tokens_per_s.ratio
    if pair.relation != SAME_SHAPE or pair.period_ns.ratio is None:
        return None
    return inverse(pair.period_ns.ratio)


def _name(pair: BucketComparison) -> str:
    measure = "tokens/s" if pair.tokens_per_s else "cycles/s, acceptance unknown"
    return f"{shape_text(pair.b.shape)} ({measure})"


def _told(name: str, speed: Estimated) -> str:
    return f"{name} {change(speed)}"
