"""Where the time of a cycle went from one bucket to another: phase by phase, class by class."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from traceanalyzer.report import Estimated
from traceanalyzer.report.comparison import ClassComparison, PhaseComparison
from traceanalyzer.verdict.ratios import figure, over

if TYPE_CHECKING:
    from traceanalyzer.report import BucketPhase, BucketReport, ClassTime
    from traceanalyzer.report.comparison import Figure

    _PerCycle = tuple[Estimated | None, Estimated | None]

IDLE: Final = "idle"


def compare_phases(
    a: BucketReport, b: BucketReport, tokens_per_cycle: _PerCycle
) -> list[PhaseComparison]:
    """Each phase's window in both buckets; the target forwards stand against one another.

    Args:
        a: The bucket of A.
        b: The bucket of B.
        tokens_per_cycle: What a cycle commits in A and in B, None where unknown.

    Returns:
        In A's order, then what B alone has. What the phases add to the period, and the overlap,
        add up to the period's change.
    """
    left = {phase.phase: phase for phase in b.phases}
    partner = {a.shape.kind: b.shape.kind}
    pairs: list[tuple[BucketPhase | None, BucketPhase | None]] = []
    for phase in a.phases:
        name = partner.get(phase.phase, phase.phase)
        taken = name == b.shape.kind and phase.phase != a.shape.kind
        pairs.append((phase, None if taken else left.pop(name, None)))
    pairs += [(None, phase) for phase in left.values()]
    period_ns = a.mean_period_ns.value
    return [_compare(one, other, tokens_per_cycle, period_ns) for one, other in pairs]


def overlap_change(a: BucketReport, b: BucketReport) -> float:
    """What overlap of phases adds to the period, of A's period."""
    return _share(b.overlap_ns_per_cycle - a.overlap_ns_per_cycle, a.mean_period_ns.value)


def _compare(
    a: BucketPhase | None, b: BucketPhase | None, tokens_per_cycle: _PerCycle, period_ns: float
) -> PhaseComparison:
    windows = a.window_ns if a else None, b.window_ns if b else None
    change_ns = (windows[1].value if windows[1] else 0.0) - (
        windows[0].value if windows[0] else 0.0
    )
    return PhaseComparison(
        phase_a=a.phase if a else None,
        phase_b=b.phase if b else None,
        ns_per_cycle=figure(*windows),
        ns_per_token=_per_token(windows, tokens_per_cycle),
        idle_ns_per_cycle=figure(
            Estimated(a.gap_ns_per_cycle) if a else None,
            Estimated(b.gap_ns_per_cycle) if b else None,
        ),
        period_change_share=_share(change_ns, period_ns),
        classes=_classes(a, b, tokens_per_cycle) if a and b else [],
        class_cycles_a=a.class_cycles if a else 0,
        class_cycles_b=b.class_cycles if b else 0,
    )


def _per_token(found: _PerCycle, tokens_per_cycle: _PerCycle) -> Figure | None:
    if None in tokens_per_cycle:
        return None
    one, other = (over(ns, tokens) for ns, tokens in zip(found, tokens_per_cycle, strict=True))
    return figure(one, other)


def _classes(a: BucketPhase, b: BucketPhase, tokens_per_cycle: _PerCycle) -> list[ClassComparison]:
    """The largest change first; the rows add up to the windows in the cycles with kernels."""
    if not a.class_cycles or not b.class_cycles:
        return []
    ours, theirs = ({each.kernel_class: each for each in phase.classes} for phase in (a, b))
    rows = [
        _class(name, ours.get(name), theirs.get(name), tokens_per_cycle)
        for name in dict.fromkeys(chain(ours, theirs))
    ]
    idle = (Estimated(_idle_ns(a)), Estimated(_idle_ns(b)))
    rows.append(
        ClassComparison(IDLE, figure(*idle), _per_token(idle, tokens_per_cycle), None, None, None)
    )
    return sorted(
        rows, key=lambda row: -abs(_value(row.ns_per_cycle.b) - _value(row.ns_per_cycle.a))
    )


def _class(
    name: str, a: ClassTime | None, b: ClassTime | None, tokens_per_cycle: _PerCycle
) -> ClassComparison:
    busy, ops = zip(_busy_and_ops(a), _busy_and_ops(b), strict=True)
    return ClassComparison(
        kernel_class=name,
        ns_per_cycle=figure(*busy),
        ns_per_token=_per_token(busy, tokens_per_cycle),
        ops_per_cycle=figure(*ops),
        longest_kernel_a=a.longest_kernel if a else None,
        longest_kernel_b=b.longest_kernel if b else None,
    )


def _busy_and_ops(found: ClassTime | None) -> tuple[Estimated | None, Estimated | None]:
    if found is None:
        return None, None
    return Estimated(found.busy_ns_per_cycle), Estimated(found.ops_per_cycle)


def _idle_ns(phase: BucketPhase) -> float:
    busy_ns = sum(each.busy_ns_per_cycle for each in phase.classes)
    return max(0.0, phase.class_window_ns - busy_ns)


def _value(found: Estimated | None) -> float:
    return found.value if found else 0.0


def _share(ns: float, period_ns: float) -> float:
    return ns / period_ns if period_ns else 0.0
