"""The phases that were recorded both with whole-graph rows and node by node, made one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.report import ClassShare, Estimated, NodePhase, NodeRecording
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.verdict.estimates import estimated, plain
from traceanalyzer.verdict.growth import IDLE
from traceanalyzer.verdict.node_overhead import (
    ClassWork,
    RecordedPhase,
    Slowed,
    fit_overhead,
    undisturbed_shares,
)
from traceanalyzer.verdict.node_parts import corrected_parts
from traceanalyzer.verdict.ratios import product_of_known

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from traceanalyzer.report import BucketPhase, PhaseParts, Report
    from traceanalyzer.verdict.node_overhead import Overhead

OVERLAP: Final = "overlap across streams"
MOST_DISTURBANCE: Final = 0.1
"""Above it what recording did to a phase can no longer be taken out of its shares."""


@dataclass(frozen=True, slots=True)
class Twice:
    """A phase of a bucket that was recorded in both ways.

    Attributes:
        bucket: Place of the bucket in the report that gets its classes.
        whole_ns: Its window where replays are whole-graph rows.
        nodes: The phase as recorded node by node.
        parts: Its draft steps and layers, as recorded likewise.
    """

    bucket: int
    whole_ns: Estimated
    nodes: BucketPhase
    parts: tuple[PhaseParts, ...] = ()

    @property
    def node_ns(self) -> Estimated:
        """Its window where nodes are recorded."""
        half, value = self.nodes.class_window_half_width_ns, self.nodes.class_window_ns
        return Estimated(value) if half is None else Estimated(value, value - half, value + half)

    @property
    def added_ns(self) -> Estimate:
        """By how much that is longer."""
        whole, node = plain(self.whole_ns), plain(self.node_ns)
        value = node.value - whole.value
        below = math.hypot(node.value - node.low, whole.high - whole.value)
        above = math.hypot(node.high - node.value, whole.value - whole.low)
        return Estimate(value, value - below, value + above)

    @property
    def slowed(self) -> Slowed:
        """What the fit needs of it."""
        return Slowed(self.nodes.graph_launches_per_cycle, replayed_ops(self.nodes), self.added_ns)


def corrected(report: Report, twice: Sequence[Twice], shares_from: str | None) -> Report:
    """The report with the classes and parts of these phases, and what recording nodes cost.

    Args:
        report: Gives the buckets.
        twice: At least one phase.
        shares_from: Path of the capture that recorded nodes, None for the report's own.
    """
    overhead = fit_overhead([each.slowed for each in twice])
    rows = [_node_phase(each, overhead) for each in twice]
    classes = {
        (row.bucket, row.phase): _with_classes(each, row)
        for row, each in zip(rows, twice, strict=True)
    }
    buckets = [
        replace(
            bucket,
            phases=[
                replace(phase, **classes.get((place, phase.phase), {})) for phase in bucket.phases
            ],
        )
        for place, bucket in enumerate(report.buckets)
    ]
    found = NodeRecording(
        shares_from,
        estimated(overhead.per_node_ns),
        estimated(overhead.per_replay_ns),
        rows,
    )
    parts = [
        part
        for row, each in zip(rows, twice, strict=True)
        if row.refused is None
        for part in corrected_parts(each, _recorded(each, overhead), overhead)
    ]
    return replace(
        report, buckets=buckets, parts=_with_parts(report, classes, parts), node_recording=found
    )


def _with_parts(
    report: Report, corrected: Container[tuple[int, str]], parts: Sequence[PhaseParts]
) -> list[PhaseParts]:
    """Those of phases that were recorded in one way only, and the corrected ones, by bucket."""
    kept = [each for each in report.parts if (each.bucket, each.phase) not in corrected]
    return sorted([*kept, *parts], key=lambda each: each.bucket)


def _node_phase(found: Twice, overhead: Overhead) -> NodePhase:
    nodes = replayed_ops(found.nodes)
    disturbance = _disturbance(found)
    refused = _refused(disturbance)
    shares = None if refused else undisturbed_shares(_recorded(found, overhead), overhead)
    if shares is None and refused is None:
        refused = "what the other phases tell of the overhead is longer than this one"
    names = [*(each.kernel_class for each in found.nodes.classes), IDLE]
    return NodePhase(
        bucket=found.bucket,
        phase=found.nodes.phase,
        nodes_per_cycle=nodes,
        replays_per_cycle=found.nodes.graph_launches_per_cycle,
        whole_window_ns=found.whole_ns,
        node_window_ns=found.node_ns,
        disturbance_share=disturbance,
        overhead_ns_per_node=estimated(found.added_ns, 1 / nodes),
        refused=refused,
        shares=[
            ClassShare(name, _as_sure_as(found, share))
            for name, share in zip(names, shares or [], strict=bool(shares))
        ],
    )


def _as_sure_as(found: Twice, share: Estimate) -> Estimated:
    """Without an interval where a single cycle tells none of the windows'."""
    known = found.node_ns.low is not None and found.whole_ns.low is not None
    return Estimated(share.value, share.low, share.high) if known else Estimated(share.value)


def _disturbance(found: Twice) -> Estimated:
    ratio = product_of_known((found.node_ns, 1.0), (found.whole_ns, -1.0))
    if ratio.low is None or ratio.high is None:
        return Estimated(ratio.value - 1)
    return Estimated(ratio.value - 1, ratio.low - 1, ratio.high - 1)


def _refused(disturbance: Estimated) -> str | None:
    if disturbance.value > MOST_DISTURBANCE:
        return (
            f"recording nodes made it {disturbance.value:.0%} longer, more than "
            f"{MOST_DISTURBANCE:.0%}: its shares are those of another program"
        )
    if disturbance.value < -MOST_DISTURBANCE:
        return (
            f"it is {-disturbance.value:.0%} shorter with its nodes recorded, which recording "
            "cannot do: the load was another"
        )
    return None


def _recorded(found: Twice, overhead: Overhead) -> RecordedPhase:
    """The phase with its doubts; what the fit leaves unexplained is one of them."""
    whole, node = plain(found.whole_ns), plain(found.node_ns)
    slowed = found.slowed
    unexplained = abs(slowed.added_ns.value - overhead.of(slowed.replays, slowed.nodes))
    doubt_ns = math.hypot((whole.high - whole.low) / 2, (node.high - node.low) / 2)
    return RecordedPhase(
        window_ns=node.value,
        doubt_ns=max(doubt_ns, unexplained),
        replays=slowed.replays,
        classes=[
            ClassWork(
                each.busy_ns_per_cycle,
                each.busy_half_width_ns or 0.0,
                each.replayed_ops_per_cycle,
                each.kernel_class == OVERLAP,
            )
            for each in found.nodes.classes
        ],
    )


def _with_classes(found: Twice, row: NodePhase) -> dict[str, Any]:
    """What changes in the phase: no classes when its shares are refused."""
    if row.refused is not None:
        return {"classes": [], "class_cycles": 0, "class_window_ns": 0.0}
    window_ns = found.whole_ns.value
    classes = [
        replace(
            each,
            busy_ns_per_cycle=told.share.value * window_ns,
            busy_half_width_ns=_half_width_ns(told.share, window_ns),
        )
        for each, told in zip(found.nodes.classes, row.shares, strict=False)
    ]
    high = found.whole_ns.high
    return {
        "classes": sorted(classes, key=lambda each: -each.busy_ns_per_cycle),
        "class_idle_half_width_ns": _half_width_ns(row.shares[-1].share, window_ns),
        "kernel_blocks": found.nodes.kernel_blocks,
        "kernel_slots": found.nodes.kernel_slots,
        "class_cycles": found.nodes.class_cycles,
        "class_window_ns": window_ns,
        "class_window_half_width_ns": None if high is None else high - window_ns,
    }


def _half_width_ns(share: Estimated, window_ns: float) -> float | None:
    if share.low is None or share.high is None:
        return None
    return max(share.high - share.value, share.value - share.low) * window_ns


def replayed_ops(phase: BucketPhase) -> float:
    """Graph nodes that a cycle runs in a phase, as far as they were recorded."""
    return math.fsum(each.replayed_ops_per_cycle for each in phase.classes)
