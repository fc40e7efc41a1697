"""What stands behind the means: the kernels of each phase, and cycles one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OTHER_KERNELS: Final = "other kernels"
"""Stands for the class in the row of all kernels of a phase below the top."""


@dataclass(frozen=True, slots=True)
class KernelTotal:
    """One kernel of a phase over the kept cycles of all ranks.

    The rows of a phase add up to its busy time in those cycles.

    Attributes:
        phase: The phase.
        kernel: Its full name; None in the rows that stand for no single kernel: the kernels below
            the top, and time in which several streams run.
        kernel_class: Its class, `OTHER_KERNELS` or "overlap across streams".
        ops: Those that start in a kept cycle.
        busy_ns: Time in which it runs; where two ops of one stream overlap the earlier keeps it.
        share: Of the phase's busy time.
    """

    phase: str
    kernel: str | None
    kernel_class: str
    ops: int
    busy_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class CycleRow:
    """One cycle on one rank.

    Windows and the time in which phases overlap add up to the period.

    Attributes:
        rank: The rank.
        cycle: Which cycle, by start among the kept ones; ranks that run it together share it.
        bucket: Place of its bucket in `Report.buckets`.
        number: The hooks' cycle number; None without.
        start_ns: First instant, since the first kept cycle's; each file has its own clock.
        period_ns: Until the next cycle's first instant.
        windows_ns: Window of each of `Report.cycle_phases`.
        accepted_drafts: Of all its live requests, bonus tokens excluded; None where no mark tells.
        state: "kept": it may be averaged.
    """

    rank: int
    cycle: int
    bucket: int
    number: int | None
    start_ns: int
    period_ns: int
    windows_ns: list[int]
    accepted_drafts: int | None
    state: str
