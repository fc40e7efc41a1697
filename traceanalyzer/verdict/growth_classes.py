"""What each kernel class takes in a plain step, or in verify: all of the target's phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.verdict.growth_kernels import added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketPhase, BucketReport, ClassTime

TARGET_PHASES: Final = ("verify", "decode", "sample")
IDLE: Final = "idle"


@dataclass(frozen=True, slots=True)
class ClassCost:
    """Time of a class in a cycle.

    Attributes:
        ns: Mean.
        longest: Its longest kernel.
        half_width_ns: To either end of the mean's 95 % interval; None where it is not known.
        wait_ns: The part that only waits for a late rank; None where it cannot be told.
    """

    ns: float = 0.0
    longest: str | None = None
    half_width_ns: float | None = 0.0
    wait_ns: float | None = 0.0

    def __add__(self, other: ClassCost) -> ClassCost:
        known = self.wait_ns is not None and other.wait_ns is not None
        return ClassCost(
            self.ns + other.ns,
            self.longest or other.longest,
            added((self.half_width_ns, other.half_width_ns)),
            (self.wait_ns or 0.0) + (other.wait_ns or 0.0) if known else None,
        )


def target_phases(bucket: BucketReport) -> list[BucketPhase]:
    """The target's phases in the order in which they run; empty where kernels are not known."""
    phases = [phase for phase in bucket.phases if phase.phase in TARGET_PHASES]
    forward = [phase for phase in phases if phase.phase == bucket.shape.kind]
    if not forward or not forward[0].class_cycles:
        return []
    return forward + [phase for phase in phases if phase not in forward]


def class_costs(bucket: BucketReport) -> dict[str, ClassCost]:
    """By class, and idle time; empty where kernels were not recorded."""
    phases = target_phases(bucket)
    found: dict[str, ClassCost] = {}
    for phase in phases:
        for each in phase.classes:
            found[each.kernel_class] = found.get(each.kernel_class, ClassCost()) + _cost(each)
    if phases:
        found[IDLE] = ClassCost(_idle_ns(phases), None, _idle_half_width_ns(phases), None)
    return found


def _cost(each: ClassTime) -> ClassCost:
    return ClassCost(
        each.busy_ns_per_cycle, each.longest_kernel, each.busy_half_width_ns, each.wait_ns_per_cycle
    )


def _idle_ns(phases: Sequence[BucketPhase]) -> float:
    return sum(phase.class_window_ns - _busy_ns(phase.classes) for phase in phases)


def _idle_half_width_ns(phases: Sequence[BucketPhase]) -> float | None:
    return added(phase.class_idle_half_width_ns for phase in phases)


def _busy_ns(classes: Sequence[ClassTime]) -> float:
    return sum(each.busy_ns_per_cycle for each in classes)
