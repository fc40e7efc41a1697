"""Whether a report that was read back can be what this tool wrote: files are edited by hand."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.report.buckets import BucketPhase, BucketReport, Estimated, FreeDrafting
from traceanalyzer.report.graphs import GraphReport

if TYPE_CHECKING:
    from collections.abc import Iterator


_MOST_KERNELS: Final = 1 << 22
"""In the blocks of a phase: what nobody's forward runs, written out, would fill the memory."""


def contradiction(report: Any) -> str | None:
    """The first figure that cannot be, None when there is none.

    Args:
        report: Any dataclass of the report.
    """
    return next(_contradictions(report), None)


def _contradictions(found: Any) -> Iterator[str]:
    if isinstance(found, float) and not isfinite(found):
        yield f"a figure is {found}"
    elif isinstance(found, Estimated) and not _is_ordered(found):
        yield f"{found.value} is not within [{found.low}, {found.high}]"
    elif isinstance(found, BucketReport) and found.mean_period_ns.value < 0:
        yield f"a cycle takes {found.mean_period_ns.value} ns"
    elif isinstance(found, BucketPhase) and not _has_its_blocks(found):
        yield f"the kernels of {found.phase} do not stand in its {len(found.kernel_blocks)} blocks"
    elif isinstance(found, FreeDrafting) and not 1 <= found.speedup <= found.speedup_with_launch:
        yield f"free drafting speeds a cycle up by {found.speedup}, {found.speedup_with_launch}"
    elif isinstance(found, GraphReport) and found.busy_ns > min(found.span_p50_ns, found.summed_ns):
        yield f"a graph is busy for {found.busy_ns} of {found.span_p50_ns} ns"
    if isinstance(found, (list, tuple)):
        for each in found:
            yield from _contradictions(each)
    elif is_dataclass(found):
        for field in fields(found):
            yield from _contradictions(getattr(found, field.name))


def _is_ordered(found: Estimated) -> bool:
    low = found.value if found.low is None else found.low
    high = found.value if found.high is None else found.high
    return low <= found.value <= high


def _has_its_blocks(phase: BucketPhase) -> bool:
    """Whether slots stand in blocks that are there, and blocks run as often as they can."""
    blocks = phase.kernel_blocks
    if not all(-1 <= slot.block < len(blocks) for slot in phase.kernel_slots):
        return False
    kernels = sum(blocks[slot.block] for slot in phase.kernel_slots if slot.block >= 0)
    return all(repeats > 0 for repeats in blocks) and kernels <= _MOST_KERNELS
