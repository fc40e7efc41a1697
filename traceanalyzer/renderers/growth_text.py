"""Why verify costs more than a plain step, in sentences and table cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.kernels.classification import COLLECTIVES
from traceanalyzer.kernels.short_names import short_name, short_pair
from traceanalyzer.renderers.figures import decimals_for, milliseconds, percent
from traceanalyzer.report import OTHER_KERNELS, Growth, KernelGrowth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketVerdict, GrowthEvidence

GROWTH_TITLES: Final = ("class", "plain ms", "verify ms", "×", "more ms", "kernel")

_SMALL_GROWTH: Final = 0.002
"""Of verify: classes below it share a row."""

_SMALL_KERNEL: Final = 0.01
"""Of verify: kernels that changed by less have no row of their own."""

_INDENT: Final = "· "


def cause_lines(main: BucketVerdict) -> list[str]:
    """What stands out, the dearest first; that nothing does."""
    if not main.growth:
        return []
    if not main.growth_causes:
        return ["Nothing stands out: no class grows much beyond the others."]
    return [f"{each.text[:1].upper()}{each.text[1:]}." for each in main.growth_causes]


def evidence_lines(main: BucketVerdict) -> list[str]:
    """How both were launched, what the rows rest on, and how to read them."""
    found = main.growth_evidence
    if found is None:
        return []
    return [_launched(found), *_padding(found), _matching(found), _rests_on(found)]


def _launched(found: GrowthEvidence) -> str:
    sides = (
        ("a plain step", found.decode_graph_launches, found.decode_eager_ops, found.decode_ops),
        ("verify", found.verify_graph_launches, found.verify_eager_ops, found.verify_ops),
    )
    parts = [
        f"{name} {graphs:.2g} graph{'' if graphs == 1 else 's'} and {eager:,.0f} of {ops:,.0f} ops "
        "outside"
        for name, graphs, eager, ops in sides
    ]
    return f"launched: {'; '.join(parts)}"


def _padding(found: GrowthEvidence) -> list[str]:
    if found.batch is None:
        return []
    rooms = [
        "no graph" if room is None else f"a graph for {room}"
        for room in (found.decode_padded_batch, found.verify_padded_batch)
    ]
    return [f"batch {found.batch}: a plain step in {rooms[0]}, verify in {rooms[1]}"]


def _matching(found: GrowthEvidence) -> str:
    if found.matched_share is None:
        return "by class only: the order of the kernels is not known of both"
    share = percent(found.matched_share)
    if found.matched:
        return f"kernel by kernel: {share} of the kernels stand in the same place of both"
    return f"by class only: {share} of the kernels stand in the same place of both, too few"


def _rests_on(found: GrowthEvidence) -> str:
    counts = found.decode_cycles, found.verify_cycles
    text = "kernels recorded in {:,} plain and {:,} verify cycles".format(*counts)
    if min(counts) == 1:
        return f"{text}: one cycle tells no interval"
    return f"{text}; ± to either end of the 95 % interval"


def growth_rows(main: BucketVerdict) -> list[tuple[str, ...]]:
    """The largest growth first, kernels below their class, small classes in one row."""
    whole_ns = sum(row.verify_ns for row in main.growth)
    decimals = decimals_for(whole_ns)
    large = [row for row in main.growth if abs(row.more_ns) >= _SMALL_GROWTH * whole_ns]
    small = [row for row in main.growth if row not in large]
    rows = [cells for row in large for cells in class_rows(row, decimals, _SMALL_KERNEL * whole_ns)]
    if len(small) == 1:
        rows += class_rows(small[0], decimals, whole_ns)
    elif small:
        sums = (sum(row.decode_ns for row in small), sum(row.verify_ns for row in small))
        name = f"{len(small)} classes that grew little"
        rows.append(_cells(name, Growth(name, *sums, None, None), decimals, ""))
    return rows


def class_rows(row: Growth, decimals: int, least_ns: float) -> list[tuple[str, ...]]:
    """A class, and below it what is known of its parts.

    Args:
        row: The class.
        decimals: Of a millisecond.
        least_ns: Change from which on a kernel has a row of its own.
    """
    listed = [each for each in row.kernels if abs(each.more_ns) >= least_ns]
    if len(row.kernels) == 1 or not row.kernels:
        note = _transition(row.kernels[0]) if row.kernels else _longest(row)
        return [
            _cells(row.name, row, decimals, _joined(note, _waiting_note(row))),
            *_waits(row, decimals),
        ]
    rows = [_cells(row.name, row, decimals, _waiting_note(row)), *_waits(row, decimals)]
    rows += [_cells(_number(each), each, decimals, _transition(each)) for each in listed]
    return rows + _rest(row, listed, decimals)


def _rest(row: Growth, listed: Sequence[KernelGrowth], decimals: int) -> list[tuple[str, ...]]:
    """The kernels of a class that are not listed, where others are."""
    rest = [each for each in row.kernels if each not in listed]
    if not listed or not rest:
        return []
    sums = (sum(each.decode_ns for each in rest), sum(each.verify_ns for each in rest))
    return [_cells(f"{_INDENT}the rest", Growth("", *sums, None, None), decimals, "")]


def _waits(row: Growth, decimals: int) -> list[tuple[str, ...]]:
    """Transfer and waiting apart, where both sides tell them."""
    before, after = row.decode_wait_ns, row.verify_wait_ns
    if before is None or after is None or row.name not in COLLECTIVES:
        return []
    transfer = Growth("", row.decode_ns - before, row.verify_ns - after, None, None)
    waiting = Growth("", before, after, None, None)
    return [
        _cells(f"{_INDENT}transfer", transfer, decimals, ""),
        _cells(f"{_INDENT}waiting", waiting, decimals, "for a late rank"),
    ]


def _waiting_note(row: Growth) -> str:
    if row.name not in COLLECTIVES:
        return ""
    unknown = [
        name
        for name, wait in (("plain", row.decode_wait_ns), ("verify", row.verify_wait_ns))
        if wait is None
    ]
    if not unknown:
        return ""
    return "waiting included" if len(unknown) == 2 else f"waiting included in {unknown[0]}"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _cells(name: str, row: Growth | KernelGrowth, decimals: int, note: str) -> tuple[str, ...]:
    known = row.decode_half_width_ns, row.verify_half_width_ns, row.more_half_width_ns
    more = f"{row.more_ns / 1e6:+.{decimals}f}"
    return (
        name,
        milliseconds(row.decode_ns, decimals=decimals) + _doubt(known[0], decimals),
        milliseconds(row.verify_ns, decimals=decimals) + _doubt(known[1], decimals),
        f"{row.verify_ns / row.decode_ns:.1f}" if row.decode_ns > 0 else "new",
        more + _doubt(known[2], decimals),
        note,
    )


def _doubt(half_width_ns: float | None, decimals: int) -> str:
    if half_width_ns is None:
        return ""
    return f" ± {milliseconds(half_width_ns, decimals=decimals)}"


def _number(row: KernelGrowth) -> str:
    before, after = (f"{number:,.3g}" for number in (row.decode_ops, row.verify_ops))
    return f"{_INDENT}{after} ×" if before == after else f"{_INDENT}{before} → {after} ×"


def _transition(row: KernelGrowth) -> str:
    """The kernel, or the two that stand in one place."""
    if row.verify_kernel == OTHER_KERNELS:
        return OTHER_KERNELS
    if row.verify_kernel is None:
        return f"gone: {short_name(row.decode_kernel or '')}"
    if row.decode_kernel is None:
        return f"new: {short_name(row.verify_kernel)}"
    if row.decode_kernel == row.verify_kernel:
        return short_name(row.verify_kernel)
    return " → ".join(short_pair(row.decode_kernel, row.verify_kernel))


def _longest(row: Growth) -> str:
    """Where kernels do not match: the longest ones of the class, if they differ."""
    before, after = row.decode_kernel, row.verify_kernel
    if before == after or after is None:
        return ""
    return f"new: {short_name(after)}" if before is None else " → ".join(short_pair(before, after))


def kernel_rows(main: BucketVerdict) -> list[tuple[str, ...]]:
    """Every kernel of every class, each row with its class; empty where kernels do not match."""
    decimals = decimals_for(sum(row.verify_ns for row in main.growth))
    return [
        (
            row.name,
            f"{each.decode_ops:,.3g}",
            f"{each.verify_ops:,.3g}",
            *_cells("", each, decimals, _transition(each))[1:],
        )
        for row in main.growth
        for each in row.kernels
    ]


KERNEL_TITLES: Final = (
    "class",
    "in plain",
    "in verify",
    "plain ms",
    "verify ms",
    "×",
    "more ms",
    "kernel",
)
