"""A trace with every op's rank, phase and cycle settled: what all analyses start from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.intervals import Containers, Intervals
from traceanalyzer.phases.attribution import (
    CAPTURE_TIME,
    INFERRED,
    attribute_ops,
    launch_intervals,
)
from traceanalyzer.phases.cycles import Cycles, CycleSources, find_cycles
from traceanalyzer.phases.inference import infer_phases, with_inferred_ranges
from traceanalyzer.phases.op_places import places_of_ops, split_of_fused
from traceanalyzer.phases.ranks import find_ranks
from traceanalyzer.phases.spans import classify_ranges

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from traceanalyzer.phases.attribution import Attribution
    from traceanalyzer.phases.carried_layers import CarriedPhase
    from traceanalyzer.phases.inference import Inference
    from traceanalyzer.phases.op_places import OpPlaces
    from traceanalyzer.phases.ranks import Ranks
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

OTHER: Final = "other"
UNATTRIBUTED: Final = "unattributed"


@dataclass(frozen=True, slots=True)
class PhasedTrace:
    """A trace and the meaning of its ops.

    Attributes:
        trace: The tables; inferred phases are ranges in it, after those of the capture.
        spans: Meaning of the host ranges.
        attribution: Launch, range and method of each op.
        ranks: Lanes of the ops.
        ops: Each op's lane, start and end.
        collected: Which ops have times; 0/0 means the profiler did not collect them.
        labels: Phase names: those that occur, then "other" and "unattributed".
        label: Place in `labels` of each op.
        cycles: Decode cycles of every rank.
        cycle: Cycle of each op, -1 outside.
        places: Draft step, layer and module of each op.
        inference: How phases were inferred, or why not; None where ranges mean phases, where no
            inference was wanted, and without GPU work.
        carried: Phases with draft steps or layers that the order of kernels tells.
    """

    trace: Trace
    spans: Spans
    attribution: Attribution
    ranks: Ranks
    ops: Intervals
    collected: NDArray[np.bool_]
    labels: tuple[str, ...]
    label: NDArray[np.int64]
    cycles: Cycles
    cycle: NDArray[np.int64]
    places: OpPlaces
    inference: Inference | None = None
    carried: tuple[CarriedPhase, ...] = ()


def settle_phases(
    trace: Trace, rules: Rules, *, infer: bool | Collection[int] = True
) -> PhasedTrace:
    """Classify ranges, attribute ops, find cycles, and give each op its phase.

    Args:
        trace: The tables.
        rules: What names of ranges mean.
        infer: See `settle_ops`.
    """
    return settle_ops(trace, classify_ranges(trace, rules), infer=infer)


def settle_ops(
    trace: Trace,
    spans: Spans,
    *,
    infer: bool | Collection[int] = True,
    stretched: NDArray[np.bool_] | None = None,
) -> PhasedTrace:
    """Attribute ops, find cycles, and give each op its phase.

    Args:
        trace: The tables.
        spans: Meaning of its ranges.
        infer: Whether to infer phases where no range means one; or of which lanes, where it is
            known that all others' agree.
        stretched: See `find_cycles`.
    """
    attribution = attribute_ops(trace, spans)
    ranks = find_ranks(trace)
    inference = None
    if infer and trace.ops.height and not (spans.phase >= 0).any():
        lanes = None if infer is True else infer
        inference = infer_phases(trace, ranks, attribution.launch, lanes)
        if inference.ranges is not None:
            trace, spans = with_inferred_ranges(trace, spans, inference.ranges)
            attribution = attribute_ops(trace, spans)
            method = np.where(attribution.span >= 0, INFERRED, attribution.method)
            attribution = replace(attribution, method=method)
    places = places_of_ops(trace, spans, attribution.launch)
    part = split_of_fused(spans, attribution.span, places)
    if (split := part >= 0).any():
        method = np.where(split, CAPTURE_TIME, attribution.method)
        attribution = replace(attribution, method=method)
    start, end = trace.ops["start_ns"].to_numpy(), trace.ops["end_ns"].to_numpy()
    collected = (start != 0) | (end != 0)
    ops = Intervals(ranks.lane_of_op, *_without_zeros(start, end, collected))
    sources = CycleSources(trace, spans, attribution, ranks, ops, collected, part)
    cycles, cycle = find_cycles(sources, stretched)
    labels = (*spans.phases, OTHER, UNATTRIBUTED)
    label = np.where(part >= 0, part, np.append(spans.phase, -1)[attribution.span])
    in_cycle = _launched_in_cycle_range(trace, spans, attribution, label < 0)
    label = np.where(label >= 0, label, np.where(in_cycle, len(labels) - 2, len(labels) - 1))
    return PhasedTrace(
        trace,
        spans,
        attribution,
        ranks,
        ops,
        collected,
        labels,
        label,
        cycles,
        cycle,
        places,
        inference,
    )


def _without_zeros(
    start: NDArray[np.int64], end: NDArray[np.int64], collected: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Times in which ops that were not collected stand empty at the first one's start.

    Left at zero they would stretch a recording on UTC time over 50 years.
    """
    if collected.all() or not collected.any():
        return start, end
    first = start[collected].min()
    return np.where(collected, start, first), np.where(collected, end, first)


def _launched_in_cycle_range(
    trace: Trace, spans: Spans, attribution: Attribution, ops: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which of the chosen ops were launched inside an engine's cycle range.

    What was launched outside every known range stays unattributed wherever on the GPU it ran.
    """
    inside = np.zeros(ops.size, bool)
    ranges = spans.rows(spans.is_cycle)
    rows = np.flatnonzero(ops & (attribution.launch >= 0))
    if ranges.size and rows.size:
        calls = launch_intervals(trace, attribution.launch[rows])
        inside[rows] = Containers(spans.intervals.take(ranges)).innermost(calls) >= 0
    return inside
