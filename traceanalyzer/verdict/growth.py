"""Why verify costs more than a plain step: kernel class against kernel class, and idle time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.kernels.classification import COLLECTIVES
from traceanalyzer.report import Growth, GrowthCause, GrowthEvidence
from traceanalyzer.verdict.growth_causes import Grown, growth_causes
from traceanalyzer.verdict.growth_classes import IDLE, ClassCost, class_costs, target_phases
from traceanalyzer.verdict.growth_kernels import LEAST_MATCHED, Matched, fewer, matched, side_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketPhase, BucketReport, KernelGrowth

__all__ = ["IDLE", "Explained", "draft_collective_ns", "explained_growth"]

_NONE: Final = ClassCost()


@dataclass(frozen=True, slots=True)
class Explained:
    """The growth from a plain step to verify.

    Attributes:
        rows: Kernel classes and idle time, the largest growth first; empty where the kernels of
            either were not recorded. They add up to the windows of the two, in the cycles in
            which kernels were recorded.
        causes: What stands out, the dearest first.
        evidence: What all rests on; None without rows.
    """

    rows: list[Growth] = field(default_factory=list)
    causes: list[GrowthCause] = field(default_factory=list)
    evidence: GrowthEvidence | None = None


def explained_growth(decode: BucketReport, verify: BucketReport) -> Explained:
    """Compare a plain step with verify, sampling included in both."""
    before, after = class_costs(decode), class_costs(verify)
    if not before or not after:
        return Explained()
    phases = target_phases(decode), target_phases(verify)
    pairs = matched(side_of(phases[0]), side_of(phases[1]))
    names = dict.fromkeys((*after, *before))
    full = [
        _row(name, before.get(name, _NONE), after.get(name, _NONE), pairs.rows.get(name, []))
        for name in names
    ]
    full.sort(key=lambda row: -row.more_ns)
    evidence = _evidence((decode, verify), phases, pairs)
    causes = growth_causes(Grown(full, evidence, verify.shape))
    rows = [replace(row, kernels=fewer(row.kernels)) for row in full]
    return Explained(rows, causes, evidence)


def _row(name: str, before: ClassCost, after: ClassCost, kernels: list[KernelGrowth]) -> Growth:
    return Growth(
        name,
        before.ns,
        after.ns,
        before.longest,
        after.longest,
        before.half_width_ns,
        after.half_width_ns,
        before.wait_ns if name in COLLECTIVES else None,
        after.wait_ns if name in COLLECTIVES else None,
        kernels,
    )


def _evidence(
    buckets: tuple[BucketReport, BucketReport],
    phases: tuple[Sequence[BucketPhase], Sequence[BucketPhase]],
    pairs: Matched,
) -> GrowthEvidence:
    return GrowthEvidence(
        decode_cycles=phases[0][0].class_cycles,
        verify_cycles=phases[1][0].class_cycles,
        matched_share=pairs.share,
        matched=pairs.share is not None and pairs.share >= LEAST_MATCHED,
        decode_graph_launches=_graph_launches(phases[0]),
        verify_graph_launches=_graph_launches(phases[1]),
        decode_eager_ops=_ops(phases[0]) - _replayed(phases[0]),
        verify_eager_ops=_ops(phases[1]) - _replayed(phases[1]),
        decode_ops=_ops(phases[0]),
        verify_ops=_ops(phases[1]),
        batch=buckets[1].shape.batch,
        decode_padded_batch=buckets[0].shape.padded_batch,
        verify_padded_batch=buckets[1].shape.padded_batch,
    )


def _graph_launches(phases: Sequence[BucketPhase]) -> float:
    return math.fsum(phase.graph_launches_per_cycle for phase in phases)


def _ops(phases: Sequence[BucketPhase]) -> float:
    return math.fsum(each.ops_per_cycle for phase in phases for each in phase.classes)


def _replayed(phases: Sequence[BucketPhase]) -> float:
    return math.fsum(each.replayed_ops_per_cycle for phase in phases for each in phase.classes)


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
