"""Layers of replays whose capture was not recorded, carried over from another run by kernel order.

The other run is an eager one with layer ranges, or one whose graphs' construction was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.phases.kernel_order import LEAST_SCORE, carried_layers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CarriedOver:
    """Layers carried over to the replays of one phase.

    Attributes:
        layer: Layer of each op of the trace, -1 where none was carried over.
        lowest_score: Of the replays that were matched; None when none was.
        refused: How many replays matched too little.
    """

    layer: Int64s
    lowest_score: float | None
    refused: int


def carry_layers(
    known: PhasedTrace, replays: PhasedTrace, phase: str, least_score: float = LEAST_SCORE
) -> CarriedOver:
    """Carry the layers of one phase over to the replays of another trace, or of the same one.

    Args:
        known: Holds a forward of the phase whose layers are known.
        replays: Gets them for the graph replays of the phase that have none of their own.
        phase: The phase.
        least_score: See `carried_layers`; each sequence of kernels is matched on its own.
    """
    numbers: dict[str, int] = {}
    source = _known_forward(known, phase)
    layer = np.full(replays.label.size, -1, np.int64)
    scores, refused = [], 0
    found: dict[tuple[int, ...], tuple[Int64s, float] | None] = {}
    for rows in _replays_without_layers(replays, phase):
        names = _names(replays, rows, numbers)
        if names not in found:
            told = None
            if source is not None:
                layers = known.places.layer[source]
                own = _names(known, source, numbers)
                told = carried_layers(own, layers, names, least_score)
            found[names] = None if told is None else (told.layer, told.score)
        match = found[names]
        if match is None:
            refused += 1
        else:
            layer[rows] = match[0]
            scores.append(match[1])
    return CarriedOver(layer, min(scores, default=None), refused)


def _names(phased: PhasedTrace, rows: Int64s, numbers: dict[str, int]) -> tuple[int, ...]:
    """Kernel names of some ops as numbers that several traces share."""
    texts = phased.trace.names["text"].gather(phased.trace.ops["name"].gather(rows))
    return tuple(numbers.setdefault(text, len(numbers)) for text in texts.to_list())


def _known_forward(phased: PhasedTrace, phase: str) -> Int64s | None:
    """The kernels of the forward of a phase that has most with a layer, in order."""
    replayed = phased.trace.ops["graph_node_id"].is_not_null().to_numpy()
    forwards = [*_groups(phased, phase, replayed), *_groups(phased, phase, ~replayed)]
    with_layers = [int((phased.places.layer[rows] >= 0).sum()) for rows in forwards]
    return forwards[int(np.argmax(with_layers))] if any(with_layers) else None


def _replays_without_layers(phased: PhasedTrace, phase: str) -> list[Int64s]:
    replayed = phased.trace.ops["graph_node_id"].is_not_null().to_numpy()
    groups = _groups(phased, phase, replayed)
    return [rows for rows in groups if (phased.places.layer[rows] < 0).all()]


def _groups(phased: PhasedTrace, phase: str, chosen: NDArray[np.bool_]) -> list[Int64s]:
    """The chosen kernels of a phase, those of one rank and launch or (eager ones) range together.

    Each group's kernels are in the order in which they start.
    """
    if phase not in phased.labels:
        return []
    kernels = (phased.trace.ops["kind"] == "kernel").to_numpy() & phased.collected
    rows = np.flatnonzero(chosen & kernels & (phased.label == phased.labels.index(phase)))
    if not rows.size:
        return []
    replayed = phased.trace.ops["graph_node_id"].is_not_null().to_numpy()[rows]
    group = np.where(replayed, phased.attribution.launch[rows], phased.attribution.span[rows])
    lane = phased.ops.lane[rows]
    order = np.lexsort((rows, phased.ops.start_ns[rows], group, lane))
    rows, group, lane = rows[order], group[order], lane[order]
    cuts = np.flatnonzero((group[1:] != group[:-1]) | (lane[1:] != lane[:-1])) + 1
    return np.split(rows, cuts)
