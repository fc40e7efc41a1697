"""What does recording a CUDA graph node by node cost, and what is left of its phases without it?

A replay is taken to be slowed by a + b x nodes. Where b lies, in the kernels or in the gaps between
them, cannot be seen, so shares have intervals that hold either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.speculation.cost import fit_linear

if TYPE_CHECKING:
    from collections.abc import Sequence


class Slowed(NamedTuple):
    """A phase recorded in both ways: its replays and nodes, and by how many ns it was longer."""

    replays: float
    nodes: float
    added_ns: Estimate


@dataclass(frozen=True, slots=True)
class Overhead:
    """What recording nodes costs each replay, and each node of it; neither is below 0."""

    per_replay_ns: Estimate
    per_node_ns: Estimate

    def of(self, replays: float, nodes: float) -> float:
        """So many replays of so many nodes in all, ns."""
        return self.per_replay_ns.value * replays + self.per_node_ns.value * nodes


def fit_overhead(phases: Sequence[Slowed]) -> Overhead:
    """Fit a + b x nodes by least squares, a replay at a time, over phases that have replays.

    A part that comes out below 0, which recording cannot cost, is 0, and the other is fitted
    alone. With one number of nodes only, a cannot be told from b: all is given to b, whose
    interval reaches down to 0.
    """
    points = [
        (each.nodes / each.replays, _scaled(each.added_ns, 1 / each.replays))
        for each in phases
        if each.replays > 0 and each.nodes > 0
    ]
    fit = fit_linear(points)
    if fit is None:
        return _undivided(points)
    fixed, slope = fit.fixed, fit.per_token
    if fixed.value < 0:
        return Overhead(_from_zero(fixed), _with_value(slope, max(0.0, _through_origin(points))))
    if slope.value < 0:
        return Overhead(_with_value(fixed, max(0.0, _mean(points))), _from_zero(slope))
    return Overhead(_from_zero(fixed), _from_zero(slope))


def _undivided(points: Sequence[tuple[float, Estimate]]) -> Overhead:
    if not points:
        return Overhead(Estimate.exact(0.0), Estimate.exact(0.0))
    nodes, most = points[0][0], max(0.0, *(added.high for _, added in points))
    value = max(0.0, _through_origin(points))
    return Overhead(Estimate(0.0, 0.0, most), Estimate(value, 0.0, max(value, most / nodes)))


def _through_origin(points: Sequence[tuple[float, Estimate]]) -> float:
    weights = _weights(points)
    below = math.fsum(w * n * n for w, (n, _) in zip(weights, points, strict=True))
    return (
        math.fsum(w * n * added.value for w, (n, added) in zip(weights, points, strict=True))
        / below
    )


def _mean(points: Sequence[tuple[float, Estimate]]) -> float:
    weights = _weights(points)
    total = math.fsum(w * added.value for w, (_, added) in zip(weights, points, strict=True))
    return total / math.fsum(weights)


def _weights(points: Sequence[tuple[float, Estimate]]) -> list[float]:
    widths = [added.high - added.low for _, added in points]
    return [1 / width**2 for width in widths] if all(widths) else [1.0] * len(points)


def _with_value(found: Estimate, value: float) -> Estimate:
    return Estimate(value, min(value, max(found.low, 0.0)), max(found.high, value))


def _from_zero(found: Estimate) -> Estimate:
    return _with_value(found, max(found.value, 0.0))


def _scaled(found: Estimate, factor: float) -> Estimate:
    return Estimate(found.value * factor, found.low * factor, found.high * factor)


class ClassWork(NamedTuple):
    """A kernel class where nodes were recorded: its time and that one's half-width, its nodes.

    `overlaps`: it is the time in which several streams run.
    """

    ns: float
    half_ns: float
    nodes: float
    overlaps: bool = False


@dataclass(frozen=True, slots=True)
class RecordedPhase:
    """A phase of a cycle as recorded node by node.

    Attributes:
        window_ns: Its window.
        doubt_ns: How far the window without the overhead may be off, to either side.
        replays: Graph launches.
        classes: Its classes; the rest of the window is idle time.
    """

    window_ns: float
    doubt_ns: float
    replays: float
    classes: Sequence[ClassWork]

    @property
    def overlap_ns(self) -> float:
        """Time in which several streams run."""
        return math.fsum(each.ns for each in self.classes if each.overlaps)

    @property
    def nodes(self) -> float:
        """All nodes."""
        return math.fsum(each.nodes for each in self.classes)

    @property
    def idle_ns(self) -> float:
        """What no class fills; below 0 where a class ran beside another phase."""
        return self.window_ns - math.fsum(each.ns for each in self.classes)


def undisturbed_shares(phase: RecordedPhase, overhead: Overhead) -> list[Estimate] | None:
    """The share of each class, and of idle time as the last, had recording cost nothing.

    The part of b that lies in the kernels is taken to be half of what it can be, from what idle
    time cannot hold up to all; intervals span that range. To it come, in squares, the half-widths
    of a class's own time, of the window, and of a and b. Where streams overlap, nodes that are
    further apart overlap less and longer ones more: that time may be off by b x nodes, what a class
    lost to it may be all of its b, and it may have lost as much of its own time again.

    Returns:
        Shares that add up to 1; None where the overhead is as long as the window.
    """
    left_ns = phase.window_ns - overhead.of(phase.replays, phase.nodes)
    if left_ns <= 0:
        return None
    least = _least_inside(phase, overhead)
    insides = (0.0 if phase.overlap_ns else least, (least + 1) / 2, 1.0)
    ends = [_without(phase, overhead, inside) for inside in insides]
    shares = []
    for place, row in enumerate(zip(*ends, strict=True)):
        value = row[1] / left_ns
        half = max(_half_width(phase, overhead, place, each / left_ns) for each in row) / left_ns
        shares.append(_within(value, min(row) / left_ns - half, max(row) / left_ns + half))
    return shares


def _least_inside(phase: RecordedPhase, overhead: Overhead) -> float:
    """The least part of b in the kernels: gaps cannot have grown by more than there is of them."""
    by_nodes = overhead.per_node_ns.value * phase.nodes
    if by_nodes <= 0:
        return 1.0
    room = max(phase.idle_ns, 0.0) - overhead.per_replay_ns.value * phase.replays
    return min(1.0, max(0.0, 1 - room / by_nodes))


def _without(phase: RecordedPhase, overhead: Overhead, inside: float) -> list[float]:
    """Times of the classes and of idle time without the overhead; no kernel is below 0."""
    node_ns = inside * overhead.per_node_ns.value
    classes = [max(each.ns - node_ns * each.nodes, 0.0) for each in phase.classes]
    left_ns = phase.window_ns - overhead.of(phase.replays, phase.nodes)
    return [*classes, left_ns - math.fsum(classes)]


def _half_width(phase: RecordedPhase, overhead: Overhead, place: int, share: float) -> float:
    """Of one time without the overhead, from everything but where b lies."""
    a, b = overhead.per_replay_ns, overhead.per_node_ns
    if place < len(phase.classes):
        found = phase.classes[place]
        moved = phase.nodes if found.overlaps else found.nodes
        own = found.half_ns + min(b.value * moved, phase.overlap_ns)
        nodes, replays = found.nodes, 0.0
    else:
        own = math.hypot(phase.doubt_ns, *(each.half_ns for each in phase.classes))
        nodes, replays = phase.nodes, phase.replays
    return math.hypot(
        own,
        share * phase.doubt_ns,
        max(abs(nodes - share * phase.nodes), share * phase.nodes) * _reach(b),
        (replays - share * phase.replays) * _reach(a),
    )


def _reach(found: Estimate) -> float:
    return max(found.high - found.value, found.value - found.low)


def _within(value: float, low: float, high: float) -> Estimate:
    """Shares end at 0 and 1, unless the value itself lies beyond."""
    return Estimate(value, min(value, max(low, 0.0)), max(value, min(high, 1.0)))
