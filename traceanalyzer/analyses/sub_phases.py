"""Time in each cycle of the parts of its phases: draft steps and layers, where ranges tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Intervals, added_to_union, total_by
from traceanalyzer.phases.cycles import KEPT
from traceanalyzer.phases.grouping import distinct, parted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace

PARTS: Final = ("draft step", "layer")


def sub_phase_time(phased: PhasedTrace) -> pl.DataFrame:
    """Busy time of every draft step and layer in every kept cycle.

    Returns:
        One row a cycle, label, part and number that has ops: cycle, label, part (place in
        `PARTS`), number, busy_ns (union over streams), nodes (ops that a graph replayed), score
        (lowest share of matching kernels where the order of kernels tells the place, else null).
        Steps and layers divide the same time in two ways.
    """
    is_node = phased.attribution.by_graph_call
    numbers = (phased.places.step, phased.places.layer)
    tables = [_part(phased, part, number, is_node) for part, number in enumerate(numbers)]
    return pl.concat(tables).sort("cycle", "label", "part", "number")


def _part(
    phased: PhasedTrace, part: int, number: NDArray[np.int32], is_node: NDArray[np.bool_]
) -> pl.DataFrame:
    kept = np.append(phased.cycles.state == KEPT, False)
    rows = np.flatnonzero(number >= 0)
    rows = rows[kept[phased.cycle[rows]] & phased.collected[rows]]
    labels, numbers = len(phased.labels), 1 + int(number[rows].max(initial=0))
    place = (phased.cycle[rows] * labels + phased.label[rows]) * numbers + number[rows]
    groups, (group,) = distinct(place)
    ops = Intervals(group, phased.ops.start_ns[rows], phased.ops.end_ns[rows])
    busy = total_by(group, groups.size, added_to_union(ops, rows))
    outer, own = parted(groups, numbers)
    cycle, label = parted(outer, labels)
    return pl.DataFrame(
        {
            "cycle": cycle,
            "label": label,
            "part": np.full(groups.size, part),
            "number": own,
            "busy_ns": busy,
            "nodes": np.bincount(group[is_node[rows]], minlength=groups.size),
            "score": _lowest_scores(_scores(phased, part, rows), group, groups.size),
        }
    )


def _scores(phased: PhasedTrace, part: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    scores = phased.places.scores
    return np.full(rows.size, np.nan) if scores is None else scores[part, rows]


def _lowest_scores(scores: NDArray[np.float64], group: NDArray[np.int64], groups: int) -> pl.Series:
    """The lowest score of each group, null where ranges tell the places of all its ops."""
    lowest = np.full(groups, np.inf)
    carried = ~np.isnan(scores)
    np.minimum.at(lowest, group[carried], scores[carried])
    return pl.Series(np.where(np.isinf(lowest), np.nan, lowest)).fill_nan(None)
