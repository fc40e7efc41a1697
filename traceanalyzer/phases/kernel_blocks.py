"""A forward's kernels in order, told shortly: blocks of kernels that repeat one after another.

Unlike `kernel_order`, which finds layers although they differ, this loses nothing: the blocks
written out are the sequence again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_KERNELS: Final = 1 << 14
"""Longer sequences are not folded."""

_LEAST_SAVED: Final = 4
_MOST_REPETITIONS: Final = 128
"""Searched for; what many small ones are left of is told as it stands."""

_MOST_DISTANCES: Final = 64
"""A layer's length is the distance of all names that it has once, so it is among the commonest."""


@dataclass(frozen=True, slots=True)
class Block:
    """Kernels from `start` up to `start + length` of a sequence, and how often they run in turn."""

    start: int
    length: int
    repeats: int


def folded(names: Sequence[int]) -> list[Block]:
    """The blocks of a sequence, in order.

    Args:
        names: Kernel names, as numbers, in the order in which they run.

    Returns:
        Blocks that follow one another without a gap; what repeats nowhere is a block that runs
        once. The repetition that covers most comes first, of equal ones that of the shorter block;
        what lies before and after it is folded alike.
    """
    if not len(names) or len(names) > MOST_KERNELS:
        return [Block(0, len(names), 1)] if len(names) else []
    return _folded(np.asarray(names, np.int64))


def unfolded(blocks: Sequence[tuple[Sequence[int], int]]) -> list[int]:
    """Blocks written out: the members of each, as often as it runs."""
    return [member for members, repeats in blocks for _ in range(repeats) for member in members]


def _folded(names: NDArray[np.int64]) -> list[Block]:
    done, left = [], [Block(0, names.size, 1)]
    for _ in range(_MOST_REPETITIONS):
        if not left:
            break
        part = left.pop()
        found = _longest_repetition(names[part.start : part.start + part.length])
        if found is None:
            done.append(part)
            continue
        start, length = part.start + found.start, found.length * found.repeats
        done.append(Block(start, found.length, found.repeats))
        rest = part.start + part.length - start - length
        sides = Block(part.start, found.start, 1), Block(start + length, rest, 1)
        left += [side for side in sides if side.length]
    return sorted([*done, *left], key=lambda block: block.start)


def _longest_repetition(names: NDArray[np.int64]) -> Block | None:
    """The repetition that saves most kernels; None when none saves enough."""
    best, saved = None, _LEAST_SAVED - 1
    for length in _distances(names):
        start, alike = _longest_run(names[:-length] == names[length:])
        if (repeated := alike // length * length) > saved:
            best, saved = Block(start, length, 1 + alike // length), repeated
    return best


def _distances(names: NDArray[np.int64]) -> list[int]:
    """How far a name stands from where it stood before: the commonest distances, rising."""
    order = np.argsort(names, kind="stable")
    same = names[order][1:] == names[order][:-1]
    distances, times = np.unique(np.diff(order)[same], return_counts=True)
    commonest = np.argsort(-times, kind="stable")[:_MOST_DISTANCES]
    found: list[int] = np.sort(distances[commonest]).tolist()
    return found


def _longest_run(true: NDArray[np.bool_]) -> tuple[int, int]:
    """Start and length of the longest run of what is true, the first of equal ones."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], true, [False])).astype(np.int8)))
    if not edges.size:
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    place = int(lengths.argmax())
    return int(edges[2 * place]), int(lengths[place])
