"""Which recurring forwards of the target carry prompt tokens beside their drafts or plain steps.

Servers replay graphs for forwards without prompts, and run those with a part of a prompt one kernel
at a time, or from smaller graphs. Larger batches and special requests leave the graphs too: only
that the first forward off the graphs is longer at once, with no prompt run before it, tells that it
holds one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.phases.inferred.sizes import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Bools = NDArray[np.bool_]

_LONGER: Final = 1.25
_AS_LONG: Final = 1.1
_FEWEST: Final = 2  # times that forwards lengthen, of which one may have any cause
_FEWEST_REPLAYS: Final = 8
_AROUND: Final = 2
_NEAR: Final = 3  # replays on each side; as drafts can alternate in number, one tells little
_MOST_UNSURE: Final = 0.01
_RECORD: Final = "record with ranges (`traceanalyzer capture`) to tell them apart"


@dataclass(frozen=True, slots=True)
class TargetForwards:
    """The target's forwards in order, as arrays of one length.

    Attributes:
        ns: Summed length of its ops.
        recurs: Which are taken for the one that comes back every cycle.
        replayed: Which are one replay.
    """

    ns: Int64s
    recurs: Bools
    replayed: Bools


@dataclass(frozen=True, slots=True)
class Prompts:
    """Which of the target's forwards carry prompt tokens, and which may."""

    carried: Bools
    unsure: Bools


@dataclass(frozen=True, slots=True)
class _Run:
    """Recurring forwards in a row that are no replays.

    Attributes:
        rows: Their places.
        follows: Whether a replay stands right before.
        replay_ns: Length of the longest replay near, 0 where none is.
    """

    rows: slice
    follows: bool
    replay_ns: int


def prompts_in(forwards: TargetForwards) -> Prompts:
    """Tell which recurring forwards carry prompt tokens.

    Raises:
        Unclear: Too much time is in forwards that may.
    """
    replays = forwards.recurs & forwards.replayed
    others = forwards.recurs & ~forwards.replayed
    none = np.zeros(others.size, bool)
    if replays.sum() < _FEWEST_REPLAYS:
        if (times := _jumps(forwards)) >= _FEWEST:
            raise Unclear(
                f"{times:,} times the length of the target's forward, which is no single graph's "
                f"replay, jumps by a factor of {_LONGER:g} or more with no prompt in between: "
                f"prompt tokens, or a larger batch; {_RECORD}"
            )
        return Prompts(none, none)
    runs = list(_runs(forwards, replays, others))
    alike, longer = none.copy(), none.copy()
    for run in runs:
        own = forwards.ns[run.rows]
        alike[run.rows] = own.max() <= _AS_LONG * run.replay_ns
        longer[run.rows] = run.follows and own[:2].max() >= _LONGER * run.replay_ns
    most = _MOST_UNSURE * forwards.ns[forwards.recurs].sum()
    begun = sum(bool(longer[run.rows].any()) for run in runs)
    if begun >= _FEWEST and forwards.ns[alike].sum() <= most:
        return Prompts(others & ~alike, alike)
    if forwards.ns[others & ~alike].sum() <= most:
        return Prompts(none, others & ~alike)
    share = forwards.ns[others & ~alike].sum() / forwards.ns[forwards.recurs].sum()
    raise Unclear(
        f"{share:.0%} of the target's recurring time is in forwards that are no graph replays and "
        f"of other lengths: prompt tokens, or batches beyond the graphs; {_RECORD}"
    )


def _runs(forwards: TargetForwards, replays: Bools, others: Bools) -> Iterator[_Run]:
    edges = np.diff(np.concatenate(([False], others, [False])).astype(np.int8))
    for first, end in zip(np.flatnonzero(edges > 0), np.flatnonzero(edges < 0), strict=True):
        near = (slice(max(0, first - _NEAR), first), slice(end, end + _NEAR))
        lengths = np.concatenate([forwards.ns[side][replays[side]] for side in near])
        follows = bool(first > 0 and replays[first - 1])
        yield _Run(slice(first, end), follows, int(lengths.max(initial=0)))


def _jumps(forwards: TargetForwards) -> int:
    """How often the length jumps though no prompt was run between that could enlarge the batch.

    A forward is longer than those before it, shorter than all around it, or the first that is
    short again: of one slow forward only the first holds, and batches shrink at any time.
    """
    before = [_ratio(forwards, back) for back in range(1, _AROUND + 1)]
    after = [_ratio(forwards, -ahead) for ahead in range(1, _AROUND + 1)]
    rises = np.min(before, axis=0) > _LONGER
    dips = np.max([*before, *after], axis=0) * _LONGER < 1
    falls = np.max(before, axis=0) * _LONGER < 1
    return int((rises | dips | falls & (rises | dips).any()).sum())


def _ratio(forwards: TargetForwards, back: int) -> NDArray[np.float64]:
    """Length of each forward over that of the one so far before it; 1 where a prompt is between."""
    ns, ratio = np.maximum(forwards.ns, 1), np.ones(forwards.ns.size)
    for place in range(max(0, back), ns.size + min(0, back)):
        low, high = sorted((place, place - back))
        if forwards.recurs[low : high + 1].all():
            ratio[place] = ns[place] / ns[place - back]
    return ratio
