"""What to do: actions with an upper bound of their gain, evidence, and what would refute them.

Distrust of the capture comes first; the rest is ranked by gain. The one measurement that would
decide most is asked for by `next_measurement`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from traceanalyzer.speculation.draft_advice import (
    change_draft_length,
    cheapen_drafting,
    draft_without_collectives,
    guess_better,
    shrink_tree,
)
from traceanalyzer.speculation.next_measurement import next_measurement
from traceanalyzer.speculation.situation import (
    Action,
    ClassGrowth,
    Situation,
    bounded,
    interval,
)
from traceanalyzer.speculation.speedup import break_even_accept_len
from traceanalyzer.speculation.verify_advice import (
    fix_the_verify_path,
    run_decodes_kernels,
    stop_synchronising,
    stop_waiting_for_the_host,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Action", "ClassGrowth", "Situation", "advise", "next_measurement"]


def advise(situation: Situation) -> tuple[Action, ...]:
    """What to do in a situation.

    Returns:
        A warning where checks of the capture failed; then actions by falling upper bound of their
        gain, those without a bound last.
    """
    found = [action for rule in _RULES for action in rule(situation)]
    found.sort(key=lambda action: -_rank(action))
    return (*_distrust(situation), *found)


def _rank(action: Action) -> float:
    return -math.inf if action.gain_share_at_most is None else action.gain_share_at_most


def _distrust(situation: Situation) -> list[Action]:
    if not situation.problems:
        return []
    return [
        Action(
            action="Do not act on this capture yet",
            tokens_per_s_at_most=None,
            gain_share_at_most=None,
            evidence="; ".join(situation.problems),
            refuted_by="a capture that passes these checks and gives the same figures",
        )
    ]


def _switch_off(situation: Situation) -> list[Action]:
    """Speculation loses, by the upper bound of its speed-up."""
    speedup, plain = situation.speedup, situation.baseline_tokens_per_s
    if speedup is None or plain is None or situation.baseline_ms is None or speedup.high >= 1:
        return []
    needed = break_even_accept_len(situation.period_ms.value, situation.baseline_ms.value)
    where = "this load" if situation.batch is None else f"batch {situation.batch}"
    return [
        bounded(
            f"Switch speculation off for {where}",
            (plain, 1 / speedup.value - 1),
            f"speed-up {interval(speedup, 3)}: break-even accept_len {needed:.2f}, "
            f"here {interval(situation.accept_len)}",
            f"a run without speculation, same batch and context, below "
            f"{situation.tokens_per_s:.1f} tok/s",
        )
    ]


def _limit_batch(situation: Situation) -> list[Action]:
    """Speculation wins at small batches only."""
    threshold = situation.threshold
    if threshold is None or threshold.batch is None:
        return []
    ends = ["?" if end is None else f"{end:.1f}" for end in (threshold.low, threshold.high)]
    return [
        Action(
            action=f"Speculate below batch {threshold.batch:.1f} only",
            tokens_per_s_at_most=None,
            gain_share_at_most=None,
            evidence=f"the speed-up falls through 1 there [{ends[0]}, {ends[1]}]",
            refuted_by="a speed-up on the other side of 1 at a batch outside that interval",
        )
    ]


_RULES: Final[tuple[Callable[[Situation], list[Action]], ...]] = (
    _switch_off,
    fix_the_verify_path,
    run_decodes_kernels,
    stop_waiting_for_the_host,
    stop_synchronising,
    change_draft_length,
    shrink_tree,
    cheapen_drafting,
    draft_without_collectives,
    guess_better,
    _limit_batch,
)
