"""Keys of millions of ops as small dense numbers: what counts and sums by group start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.intervals import sorted_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

_ROOM: Final = 4
"""Possible keys to each that is there, up to which a table of all of them beats sorting."""
_SMALL: Final = 1 << 16


def distinct(*keys: Int64s) -> tuple[Int64s, list[Int64s]]:
    """The keys that occur, sorted, and where each stands among them.

    Args:
        keys: Any integers, in as many arrays as are asked about together.

    Returns:
        The distinct keys, and their places, an array for each of `keys`.
    """
    total = sum(key.size for key in keys)
    if not total:
        return np.zeros(0, np.int64), [np.zeros(0, np.int64) for _ in keys]
    low = min(int(key.min()) for key in keys if key.size)
    size = 1 + max(int(key.max()) for key in keys if key.size) - low
    if size > _ROOM * total + _SMALL:
        known, place = _sorted_out(np.concatenate(keys))
        return known, np.split(place, np.cumsum([key.size for key in keys])[:-1])
    occurs = np.zeros(size, bool)
    for key in keys:
        occurs[key - low] = True
    known = np.flatnonzero(occurs)
    place = np.zeros(size, np.int64)
    place[known] = np.arange(known.size)
    return known + low, [place[key - low] for key in keys]


def rows_by_key(keys: Int64s) -> tuple[Int64s, list[Int64s]]:
    """The keys that occur, sorted, and the rows of each, ascending."""
    known, (place,) = distinct(keys)
    order = sorted_rows(place)
    first = np.searchsorted(place[order], np.arange(1, known.size))
    return known, np.split(order, first) if known.size else []


def _sorted_out(keys: Int64s) -> tuple[Int64s, Int64s]:
    """The keys that occur, sorted, and where each stands among them."""
    order = sorted_rows(keys)
    keys = keys[order]
    fresh = begins_anew(keys)
    place = np.empty(keys.size, np.int64)
    place[order] = np.cumsum(fresh) - 1
    return keys[fresh], place


def begins_anew(keys: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which keys differ from the one before: where the runs of equal neighbours begin."""
    return np.append(True, keys[1:] != keys[:-1])[: keys.size]


def without_repeats(keys: Int64s) -> Int64s:
    """Of equal neighbours the first."""
    return keys[begins_anew(keys)]


def parted(keys: Int64s, size: int) -> tuple[Int64s, Int64s]:
    """Quotients and remainders of non-negative keys, as `np.divmod` in a fifth of its time."""
    quotients = keys // size
    return quotients, keys - quotients * size


def least_of(place: Int64s, groups: int, values: Int64s) -> Int64s:
    """The least value of each group, each of which has one; `place` is the group of each value."""
    least = np.full(groups, np.iinfo(np.int64).max)
    np.minimum.at(least, place, values)
    return least


def ordered(slot: Int64s, start_ns: Int64s) -> Int64s:
    """Rows by slot, start and row, as `np.lexsort` gives them in several times the time.

    Args:
        slot: Non-negative.
        start_ns: Starts.
    """
    if not slot.size:
        return np.zeros(0, np.int64)
    low = int(start_ns.min())
    bits = (int(start_ns.max()) - low).bit_length()
    if bits + int(slot.max()).bit_length() > 62:
        return np.lexsort((start_ns, slot))
    key = (slot.astype(np.int64) << bits) + (start_ns - low)
    return sorted_rows(key)
