"""Which forwards are as deep as the target, and which as shallow as a draft model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.phases.inferred.signs import ACCEPT, CHOICE, PICK, TREE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.inferred.forwards import Forwards
    from traceanalyzer.phases.inferred.sequence import LaunchedOps

    Int64s = NDArray[np.int64]
    Bools = NDArray[np.bool_]

_MOST: Final = 0.5
_TARGET_TIME_SHARE: Final = 0.2
_SAME_DEPTH: Final = 0.02
_HALF: Final = 0.5
_NEARLY: Final = 0.8
_MOST_ODD: Final = 0.05


class Unclear(Exception):
    """Why phases cannot be told: one reason in words."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Which forwards are as deep as the target and which as shallow as a draft model.

    Attributes:
        target: The target's forwards.
        small: The draft model's.
        layers: Attention layers of the target, 0 where only whole-graph rows ran it.
        draft_layers: The most of a forward of the draft model, 0 where none is known.
        depth: Attention layers of each forward, 0 where they are hidden.
    """

    target: Bools
    small: Bools
    layers: int
    draft_layers: int
    depth: Int64s


def sizes_of(ops: LaunchedOps, forwards: Forwards) -> Sizes:
    """Tell the target's forwards from the draft model's.

    By depth where kernels are recorded: the target is the deepest that takes a good part of the
    time, a draft model has at most half its layers. Whole-graph rows are known by another replay
    of their graph, by the kernels that follow them, or, beside a target known so, by their length.

    Raises:
        Unclear: No forward can be the target's.
    """
    depth = _known_depth(ops, forwards)
    known = depth > 0
    layers = _target_layers(depth[known], forwards.ns[known]) if known.any() else 0
    target = known & (np.abs(depth - layers) <= _SAME_DEPTH * layers)
    # Prompts in parts: target forwards in a row with no choice of tokens that would end each.
    chosen = (forwards.tail & CHOICE) != 0
    target |= known & (depth > layers) & (depth % max(1, layers) == 0) & ~chosen & ~forwards.chooses
    small = known & (depth <= _HALF * layers)
    opaque = np.flatnonzero(~known)
    if opaque.size:
        target[opaque], small[opaque] = _opaque_sizes(ops, forwards, opaque, target)
    if not target.any():
        raise Unclear("no forward is the target's: none is followed by a choice of tokens")
    odd = forwards.ns[~target & ~small].sum() / max(1, ops.lane_ns)
    if odd > _MOST_ODD:
        raise Unclear(f"{odd:.0%} of GPU time is in forwards of neither target's nor draft's depth")
    return Sizes(target, small, layers, int(depth[small].max(initial=0)), depth)


def _known_depth(ops: LaunchedOps, forwards: Forwards) -> Int64s:
    """Layers of each forward; a whole-graph row has those of its graph's replay elsewhere."""
    depth = forwards.layers.copy()
    graph = np.where(ops.replayed[forwards.first], ops.graph[forwards.first], -1)
    known = (depth > 0) & (graph >= 0)
    if not known.any():
        return depth
    ids, place = np.unique(graph, return_inverse=True)
    of_graph = np.zeros(ids.size, np.int64)
    np.maximum.at(of_graph, place[known], depth[known])
    return np.where((depth == 0) & (graph >= 0), of_graph[place], depth)


def _target_layers(depth: Int64s, ns: Int64s) -> int:
    """The deepest forward that takes a good part of the time."""
    time = np.bincount(depth, ns)
    return int(np.flatnonzero(time >= _TARGET_TIME_SHARE * time.sum()).max(initial=0))


def _opaque_sizes(
    ops: LaunchedOps, forwards: Forwards, rows: Int64s, target: Bools
) -> tuple[Bools, Bools]:
    """Which whole-graph rows are target and which draft, decided for each graph as a whole.

    Raises:
        Unclear: They carry no ids.
    """
    ids, graph = np.unique(ops.graph[forwards.first[rows]], return_inverse=True)
    if ids[0] < 0:
        raise Unclear("whole-graph rows do not say which graph they are")
    count = np.bincount(graph, minlength=ids.size)

    def mostly(sign: int) -> Bools:
        hits = (forwards.tail[rows] & sign) != 0
        return np.bincount(graph, hits, ids.size) > _MOST * count

    length = np.array([np.median(forwards.ns[rows][graph == each]) for each in range(ids.size)])
    judged, picked = mostly(ACCEPT), mostly(PICK)
    is_target = judged.copy()
    # Where draft steps pick their tokens outside of their graphs, length alone tells them.
    if count[picked & ~judged].sum() < _MOST * count[~judged].sum() or not judged.any():
        is_target |= picked
    reference = _reference_ns(forwards, target, length, is_target)
    long = ~is_target & ~mostly(TREE) & (length >= _NEARLY * reference)
    # As long as the target and in every cycle: the draft model's, or what else.
    if count[long].sum() < _MOST * (target.sum() + count[is_target].sum()):
        is_target |= long
    is_small = ~is_target & (length <= _HALF * reference)
    return is_target[graph], is_small[graph]


def _reference_ns(
    forwards: Forwards, target: Bools, length: NDArray[np.float64], is_target: Bools
) -> float:
    """Length of a target forward that is known, infinite where none is."""
    if target.any():
        return float(np.median(forwards.ns[target]))
    return float(np.median(length[is_target])) if is_target.any() else np.inf
