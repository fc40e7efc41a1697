"""The kernels of a plain step beside those of verify: which one stands in the other's place."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.kernels.short_names import short_name
from traceanalyzer.phases.kernel_alignment import aligned
from traceanalyzer.phases.kernel_blocks import unfolded
from traceanalyzer.report import OTHER_KERNELS, KernelGrowth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.report import BucketPhase, ClassTime, KernelSlot

LEAST_MATCHED: Final = 0.75
"""Share of kernels that must match before the two are compared kernel by kernel."""

_SAME_NAME, _SAME_SHORT_NAME, _SAME_CLASS = 5, 4, 3
_MOST_ROWS: Final = 5


@dataclass(frozen=True, slots=True)
class Side:
    """Kernels of one of the two.

    Attributes:
        parts: What the kernels of each slot take together, slots in any order.
        order: Place in `parts` of each kernel, in the order in which they run.
    """

    parts: list[Part]
    order: list[int]


@dataclass(frozen=True, slots=True)
class Part:
    """Some kernels of one name: how many in a cycle, their time, and its doubt (None: unknown)."""

    kernel: str
    kernel_class: str
    ops: float
    ns: float
    half_width_ns: float | None

    def over(self, count: int) -> Part:
        """An equal share of it."""
        half = None if self.half_width_ns is None else self.half_width_ns / count
        return Part(self.kernel, self.kernel_class, self.ops / count, self.ns / count, half)


@dataclass(frozen=True, slots=True)
class Matched:
    """Kernel against kernel.

    Attributes:
        share: Kernels that match in order, of the longer of the two; None where an order is
            unknown.
        rows: By class, the largest growth first; they add up to the class. Empty when too few
            match.
    """

    share: float | None = None
    rows: dict[str, list[KernelGrowth]] = field(default_factory=dict)


def side_of(phases: Sequence[BucketPhase]) -> Side:
    """The kernels of phases that follow one another, scaled to what their classes take.

    Where recording nodes cost time and was taken out of the classes, it is taken out alike here.
    """
    parts: list[Part] = []
    order: list[int] = []
    for phase in phases:
        scale = _scale(phase)
        blocks: list[list[int]] = [[] for _ in phase.kernel_blocks]
        for slot in phase.kernel_slots:
            if slot.block >= 0:
                blocks[slot.block].append(len(parts))
            parts.append(_part(slot, scale[slot.kernel_class]))
        order += unfolded(list(zip(blocks, phase.kernel_blocks, strict=True)))
    return Side(parts, order)


def _scale(phase: BucketPhase) -> Mapping[str, tuple[float, float | None]]:
    """By class: what times are multiplied by, and the class's half width as a share of it."""
    recorded: dict[str, float] = defaultdict(float)
    for slot in phase.kernel_slots:
        recorded[slot.kernel_class] += slot.busy_ns_per_cycle
    classes = {each.kernel_class: each for each in phase.classes}
    return {name: _scale_of(ns, classes.get(name)) for name, ns in recorded.items()}


def _scale_of(recorded_ns: float, wanted: ClassTime | None) -> tuple[float, float | None]:
    if wanted is None or recorded_ns <= 0 or wanted.busy_ns_per_cycle <= 0:
        return 0.0 if wanted is None else 1.0, 0.0
    half = wanted.busy_half_width_ns
    doubt = None if half is None else half / wanted.busy_ns_per_cycle
    return wanted.busy_ns_per_cycle / recorded_ns, doubt


def _part(slot: KernelSlot, scale: tuple[float, float | None]) -> Part:
    """A slot, no surer than its class: what doubts the class (recording it, too) doubts it."""
    factor, doubt = scale
    ns, half = slot.busy_ns_per_cycle * factor, slot.busy_half_width_ns
    known = half is not None and doubt is not None
    return Part(
        slot.kernel,
        slot.kernel_class,
        slot.ops_per_cycle,
        ns,
        max((half or 0.0) * factor, (doubt or 0.0) * ns) if known else None,
    )


def matched(decode: Side, verify: Side) -> Matched:
    """Pair the kernels of a plain step and of verify.

    Kernels of one name pair before those of one class, so that a changed kernel stands beside the
    one whose place it takes. What no place pairs is paired by name, or stands alone.
    """
    if not decode.order or not verify.order:
        return Matched()
    pairs = aligned(decode.order, verify.order, _likeness(decode.parts, verify.parts))
    if pairs is None:
        return Matched()
    share = len(pairs) / max(len(decode.order), len(verify.order))
    if share < LEAST_MATCHED:
        return Matched(share)
    sums = _Sums()
    left, right = _each_kernel(decode), _each_kernel(verify)
    for one, other in pairs:
        before, after = left.in_order[one], right.in_order[other]
        sums.add((before.kernel_class, before.kernel, after.kernel), before, after)
    paired = {one for one, _ in pairs}, {other for _, other in pairs}
    _add_unpaired(sums, left.without(paired[0]), right.without(paired[1]))
    return Matched(share, sums.rows())


def fewer(rows: Sequence[KernelGrowth]) -> list[KernelGrowth]:
    """The kernels of a class that changed most, and one row for the rest."""
    if len(rows) <= _MOST_ROWS + 1:
        return list(rows)
    by_change = sorted(rows, key=lambda row: -abs(row.more_ns))
    listed, rest = by_change[:_MOST_ROWS], by_change[_MOST_ROWS:]
    other = KernelGrowth(
        OTHER_KERNELS,
        OTHER_KERNELS,
        sum(row.decode_ops for row in rest),
        sum(row.verify_ops for row in rest),
        sum(row.decode_ns for row in rest),
        sum(row.verify_ns for row in rest),
        added(row.decode_half_width_ns for row in rest),
        added(row.verify_half_width_ns for row in rest),
    )
    return [*(row for row in rows if row in listed), other]


def added(half_widths: Iterable[float | None]) -> float | None:
    """The half width of a sum: never too narrow, however its terms depend on one another."""
    found = list(half_widths)
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def _likeness(one: Sequence[Part], other: Sequence[Part]) -> NDArray[np.int64]:
    """Of each part to each; kernels of different classes are not alike."""
    shorts = [[short_name(part.kernel) for part in parts] for parts in (one, other)]
    return np.array(
        [
            [
                _alike(a, b, same_short=short_a == short_b)
                for b, short_b in zip(other, shorts[1], strict=True)
            ]
            for a, short_a in zip(one, shorts[0], strict=True)
        ],
        np.int64,
    )


def _alike(one: Part, other: Part, *, same_short: bool) -> int:
    if one.kernel_class != other.kernel_class:
        return 0
    if one.kernel == other.kernel:
        return _SAME_NAME
    return _SAME_SHORT_NAME if same_short else _SAME_CLASS


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The kernels of a side one by one, and what stands in no place."""

    in_order: list[Part]
    outside: list[Part]

    def without(self, places: set[int]) -> list[Part]:
        """All but those in some places of the order."""
        rest = [part for place, part in enumerate(self.in_order) if place not in places]
        return rest + self.outside


def _each_kernel(side: Side) -> _Kernels:
    times: dict[int, int] = defaultdict(int)
    for place in side.order:
        times[place] += 1
    single = {place: side.parts[place].over(count) for place, count in times.items()}
    outside = [part for place, part in enumerate(side.parts) if place not in times]
    return _Kernels([single[place] for place in side.order], outside)


_NOTHING: Final = Part("", "", 0.0, 0.0, 0.0)


def _add_unpaired(sums: _Sums, decode: Sequence[Part], verify: Sequence[Part]) -> None:
    """What is left of both: by name where both have it."""
    names = [{(part.kernel_class, part.kernel) for part in parts} for parts in (decode, verify)]
    for part in decode:
        both = (part.kernel_class, part.kernel) in names[1]
        sums.add((part.kernel_class, part.kernel, part.kernel if both else None), part, _NOTHING)
    for part in verify:
        both = (part.kernel_class, part.kernel) in names[0]
        sums.add((part.kernel_class, part.kernel if both else None, part.kernel), _NOTHING, part)


class _Sums:
    """Kernels added up by class and by the two names."""

    def __init__(self) -> None:
        self._sides: dict[tuple[str, str | None, str | None], list[tuple[Part, Part]]] = {}

    def add(self, key: tuple[str, str | None, str | None], before: Part, after: Part) -> None:
        """Add a kernel of a step and the one in its place."""
        self._sides.setdefault(key, []).append((before, after))

    def rows(self) -> dict[str, list[KernelGrowth]]:
        """By class, the largest growth first."""
        found: dict[str, list[KernelGrowth]] = defaultdict(list)
        for (name, before, after), pairs in self._sides.items():
            sides = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            numbers = [sum(part.ops for part in parts) for parts in sides]
            times = [sum(part.ns for part in parts) for parts in sides]
            halves = [added(part.half_width_ns for part in parts) for parts in sides]
            found[name].append(KernelGrowth(before, after, *numbers, *times, *halves))
        for rows in found.values():
            rows.sort(key=lambda row: -row.more_ns)
        return dict(found)
