"""Why verify costs more than a plain step: kernel class against kernel class, and idle time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from traceanalyzer.kernels.classification import COLLECTIVES
from traceanalyzer.report import Growth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketPhase, BucketReport, ClassTime

TARGET_PHASES: Final = ("verify", "decode", "sample")
IDLE: Final = "idle"


def growth(decode: BucketReport, verify: BucketReport) -> list[Growth]:
    """Time of each kernel class in a plain step and in verify (sampling included).

    Returns:
        The largest growth first; empty where the kernels of either were not recorded. The rows add
        up to the windows of the two, in the cycles in which kernels were recorded.
    """
    before, after = _classes(decode), _classes(verify)
    if not before or not after:
        return []
    rows = []
    for name in dict.fromkeys((*after, *before)):
        old_ns, old_kernel = before.get(name, (0.0, None))
        new_ns, new_kernel = after.get(name, (0.0, None))
        rows.append(Growth(name, old_ns, new_ns, old_kernel, new_kernel))
    return sorted(rows, key=lambda row: row.decode_ns - row.verify_ns)


def draft_collective_ns(bucket: BucketReport) -> float | None:
    """Collectives in draft and draft extend per cycle; None where kernels were not recorded."""
    own = [
        phase
        for phase in bucket.phases
        if phase.phase in ("draft", "draft_extend") and phase.class_cycles
    ]
    if not any(phase.phase == "draft" for phase in own):
        return None
    return math.fsum(
        each.busy_ns_per_cycle
        for phase in own
        for each in phase.classes
        if each.kernel_class in COLLECTIVES
    )


def _classes(bucket: BucketReport) -> dict[str, tuple[float, str | None]]:
    """Time and longest kernel of each class in the target's phases; empty when not recorded."""
    phases = [phase for phase in bucket.phases if phase.phase in TARGET_PHASES]
    forward = [phase for phase in phases if phase.phase == bucket.shape.kind]
    if not forward or not forward[0].class_cycles:
        return {}
    found: dict[str, tuple[float, str | None]] = {}
    for phase in phases:
        for each in phase.classes:
            ns, kernel = found.get(each.kernel_class, (0.0, None))
            longest = kernel or each.longest_kernel
            found[each.kernel_class] = (ns + each.busy_ns_per_cycle, longest)
    found[IDLE] = (_idle_ns(phases), None)
    return found


def _idle_ns(phases: Sequence[BucketPhase]) -> float:
    return sum(phase.class_window_ns - _busy_ns(phase.classes) for phase in phases)


def _busy_ns(classes: Sequence[ClassTime]) -> float:
    return sum(each.busy_ns_per_cycle for each in classes)
