"""What a draft that costs nothing would buy at most: from windows alone, without a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.phases.rules import rolls_up
from traceanalyzer.report import FreeDrafting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketPhase

_LAUNCHES: Final = ("host late", "launch latency")


def free_drafting(phases: Sequence[BucketPhase], period_ns: float) -> FreeDrafting | None:
    """Speed-ups of a cycle without its drafting, and without the wait for the target's launch too.

    Args:
        phases: Of the cycles of a bucket.
        period_ns: Their mean.

    Returns:
        None unless the cycle holds drafting and something else. Only whole-graph rows show such a
        wait: elsewhere it is not told from idle time between the target's own kernels.
    """
    drafting_ns = sum(
        (each.window_ns_per_cycle.mean for each in phases if rolls_up(each.phase, "drafting")),
        0.0,
    )
    wait_ns = sum(
        (
            gap.ns_per_cycle
            for each in phases
            if rolls_up(each.phase, "target") and each.whole_cycles
            for gap in each.gaps
            if gap.cause in _LAUNCHES
        ),
        0.0,
    )
    rest_ns = period_ns - drafting_ns
    if drafting_ns <= 0 or rest_ns - wait_ns <= 0:
        return None
    return FreeDrafting(drafting_ns, period_ns / rest_ns, wait_ns, period_ns / (rest_ns - wait_ns))
