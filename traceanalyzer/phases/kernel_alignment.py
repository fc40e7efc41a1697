"""Two forwards kernel beside kernel: which ones stand in the same place of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_CELLS: Final = 1 << 24
"""Of the table that the alignment fills; longer sequences are not aligned."""


def aligned(
    one: Sequence[int], other: Sequence[int], likeness: NDArray[np.int64]
) -> list[tuple[int, int]] | None:
    """Pairs of places, in order, whose likeness adds up to the most that is possible.

    With a likeness of 1 for equal names and 0 for others it is a longest common subsequence.

    Args:
        one: Kinds of kernels in the order in which they run.
        other: The same of the other forward.
        likeness: Of each kind of `one` (row) to each of `other`, not negative; kinds of none are
            never paired.

    Returns:
        Places in both, rising; None when the sequences are too long.
    """
    if len(one) * len(other) > MOST_CELLS:
        return None
    rows, columns = np.asarray(one, np.int64), np.asarray(other, np.int64)
    best = np.zeros((rows.size + 1, columns.size + 1), np.int32)
    for row, kind in enumerate(rows, 1):
        gain = likeness[kind, columns]
        np.maximum(best[row - 1, 1:], best[row - 1, :-1] + gain, out=best[row, 1:])
        np.maximum.accumulate(best[row], out=best[row])
    return _pairs(best)


def _pairs(best: NDArray[np.int32]) -> list[tuple[int, int]]:
    row, column = best.shape[0] - 1, best.shape[1] - 1
    found = []
    while row and column:
        if best[row, column] == best[row - 1, column]:
            row -= 1
        elif best[row, column] == best[row, column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            found.append((row, column))
    return found[::-1]
