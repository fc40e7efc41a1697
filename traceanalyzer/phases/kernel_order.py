"""What the order of a forward's kernels tells alone: blocks that recur, and layers carried over.

Both decline rather than guess: kernels that only partly repeat, or sequences that only partly
match, yield nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

LEAST_SCORE: Final = 0.9
"""Share of kernels that must match before layers are carried over."""

_LEAST_SAME_COUNT_SHARE: Final = 0.5
_LEAST_BLOCKS: Final = 2
_LEAST_ANCHORS: Final = 3
_LEAST_RECURRING_SHARE: Final = 0.75
_MOST_CELLS: Final = 1 << 25


@dataclass(frozen=True, slots=True)
class Match:
    """Two sequences of kernels laid side by side.

    Attributes:
        place: Place in the first of each kernel of the second, -1 for none.
        score: Kernels that match in order, of the longer sequence.
        same_count_share: Kernels of the first whose name occurs as often in the second, of those
            whose name occurs there at all.
    """

    place: Int64s
    score: float
    same_count_share: float

    @property
    def same_number_of_blocks(self) -> bool:
        """Whether they can be as many layers: one more or less changes most names' counts.

        Names of which one sequence has none are another choice of kernels, and say nothing.
        """
        return self.same_count_share > _LEAST_SAME_COUNT_SHARE

    def carried(self, labels: Int64s) -> Int64s:
        """Labels of the first sequence's kernels, such as layers, for those of the second.

        A kernel without a match has the label of the matches around it when they agree; -1 is no
        label.
        """
        matched = self.place >= 0
        return _filled(np.where(matched, np.append(labels, -1)[self.place], -1), matched)


def match_in_order(known: Sequence[int], names: Sequence[int]) -> Match:
    """Match two sequences of kernels along a longest common subsequence.

    Args:
        known: Kernel names, as numbers, of a forward in order.
        names: Those of another.

    Returns:
        The match; nothing of sequences too long to be compared.
    """
    first, second = np.array(known, np.int64), np.array(names, np.int64)
    longer = max(first.size, second.size)
    if np.array_equal(first, second):
        return Match(np.arange(first.size), float(longer > 0), float(longer > 0))
    if first.size * second.size > _MOST_CELLS:
        return Match(np.full(second.size, -1, np.int64), 0.0, 0.0)
    place = _common(first, second)
    return Match(place, float((place >= 0).sum()) / longer, _same_count_share(known, names))


def _same_count_share(known: Sequence[int], names: Sequence[int]) -> float:
    count, other = Counter(known), Counter(names)
    shared = {name: number for name, number in count.items() if other[name]}
    same = sum(number for name, number in shared.items() if other[name] == number)
    return same / sum(shared.values()) if shared else 0.0


def _common(known: Int64s, names: Int64s) -> Int64s:
    """For each of `names` its place in `known` along a longest common subsequence, or -1."""
    lengths = np.zeros((names.size + 1, known.size + 1), np.int32)
    for row, name in enumerate(names, 1):
        taken = lengths[row - 1, :-1] + (known == name)
        best = np.maximum(lengths[row - 1, 1:], taken)
        np.maximum.accumulate(best, out=lengths[row, 1:])
    match = np.full(names.size, -1, np.int64)
    row, column = names.size, known.size
    while row and column:
        if lengths[row, column] == lengths[row - 1, column]:
            row -= 1
        elif lengths[row, column] == lengths[row, column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            match[row] = column
    return match


def _filled(layer: Int64s, matched: NDArray[np.bool_]) -> Int64s:
    """Kernels without a match between two of one layer belong to it too."""
    places = np.arange(layer.size)
    before = np.maximum.accumulate(np.where(matched, places, -1))
    after = np.minimum.accumulate(np.where(matched, places, layer.size)[::-1])[::-1]
    padded = np.append(layer, -1)
    left, right = padded[before], padded[after]
    return np.where(matched, layer, np.where(left == right, left, -1))


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of kernels that recur in a forward: layers, or the steps of a draft.

    Attributes:
        count: How many blocks there are.
        block: Block of each kernel, -1 before the first and after the last kernel that recurs.
        recurring_share: Kernels that stand in a block as often as in most blocks, of all.
    """

    count: int
    block: Int64s
    recurring_share: float


def recurring_blocks(names: Sequence[int]) -> Blocks | None:
    """Find the blocks of a forward by the names that occur once in each, always in one order.

    Args:
        names: Kernel names of one forward, as numbers, in order.

    Returns:
        The division in which most kernels recur; None when that is less than three quarters. A
        block that differs, such as a dense layer among layers of experts, costs its own kernels.
    """
    by_count: Mapping[int, set[int]] = _names_by_count(names)
    found = [
        blocks
        for count, anchors in by_count.items()
        if count >= _LEAST_BLOCKS and (blocks := _blocks(names, count, anchors)) is not None
    ]
    best = max(found, key=lambda blocks: (blocks.recurring_share, blocks.count), default=None)
    return best if best is not None and best.recurring_share >= _LEAST_RECURRING_SHARE else None


def _names_by_count(names: Sequence[int]) -> dict[int, set[int]]:
    by_count: dict[int, set[int]] = defaultdict(set)
    for name, count in Counter(names).items():
        by_count[count].add(name)
    return by_count


def _blocks(names: Sequence[int], count: int, anchors: set[int]) -> Blocks | None:
    """Blocks by the names that occur `count` times, None when they change their order."""
    places = [place for place, name in enumerate(names) if name in anchors]
    unit = len(anchors)
    if unit < _LEAST_ANCHORS:
        return None
    order = [names[place] for place in places]
    if order != order[:unit] * count:
        return None
    block = np.full(len(names), -1, np.int64)
    starts = places[::unit]
    tail = names[places[-unit - 1] + 1 : starts[-1]]  # of the last block but one
    end = places[-1] + 1
    for name in tail:
        if end == len(names) or names[end] != name:
            break
        end += 1
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], end], strict=True)):
        block[start:stop] = number
    return Blocks(count, block, _recurring(names, block, count) / len(names))


def _recurring(names: Sequence[int], block: Int64s, count: int) -> int:
    """How many kernels stand in their block as often as their name does in most blocks."""
    inside = Counter(
        (name, number) for name, number in zip(names, block.tolist(), strict=True) if number >= 0
    )
    times: dict[int, list[int]] = defaultdict(list)
    for (name, _), number in inside.items():
        times[name].append(number)
    usual = {
        name: sorted(found + [0] * (count - len(found)))[count // 2]
        for name, found in times.items()
    }
    return sum(min(number, usual[name]) for (name, _), number in inside.items())
