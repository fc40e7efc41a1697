"""The cycles that every rank of a replica kept: only they weigh each rank alike.

The stages of a pipeline, and a rank that is slower than the others, spend the same cycle
differently. Where one of them lost some of its events, a mean over all kept cycles of all ranks
leans to those that lost none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.phases.grouping import rows_by_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

_ENOUGH_SHARE: Final = 0.9
"""Of the cycles that any rank kept: with so many on each, what is lost moves no mean."""
_FEWEST: Final = 3
"""Cycles below which no interval means anything."""


def lost_elsewhere(
    bucket: Int64s, lane: Int64s, number: Int64s, replica: Int64s
) -> NDArray[np.bool_]:
    """Which kept cycles another rank of the same replica does not have.

    Args:
        bucket: Of each kept cycle.
        lane: Likewise.
        number: The engine's number of it, below 0 where none is known.
        replica: Of each lane: ranks that run the same cycles.

    Returns:
        One element a cycle; none where the ranks have nearly the same ones, or where too few
        are shared by all.
    """
    lost = np.zeros(bucket.size, np.bool_)
    if not (number >= 0).all():
        return lost
    replicas = 1 + int(replica.max(initial=0))
    _, groups = rows_by_key(bucket * replicas + replica[lane])
    for chosen in groups:
        lanes, own = np.unique(lane[chosen], return_inverse=True)
        numbers, place = np.unique(number[chosen], return_inverse=True)
        has = np.zeros((numbers.size, lanes.size), np.bool_)
        has[place, own] = True
        fewest, shared = int(has.sum(axis=0).min()), np.all(has, axis=1)
        if fewest < _ENOUGH_SHARE * numbers.size and np.count_nonzero(shared) >= _FEWEST:
            lost[chosen] = ~shared[place]
    return lost
