"""The GPU side of a timeline: cycles, phases, each stream's ops, and the collectives apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.analyses.timeline_lanes.model import (
    COLLECTIVES,
    CYCLES,
    NONE,
    PHASES,
    STREAM,
    Spans,
    Tracks,
)
from traceanalyzer.kernels.classification import CLASSES, class_of_ops
from traceanalyzer.kernels.classification import COLLECTIVES as COLLECTIVE_CLASSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.analyses.timeline_lanes.texts import Texts
    from traceanalyzer.intervals import Segments
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

BRIDGED_NS: Final = 10_000
"""Idle time below this does not interrupt a phase's span. Kernels of one replay lie about a
microsecond apart; a launch that came late leaves more."""


def cycle_tracks(phased: PhasedTrace, texts: Texts) -> Tracks:
    """Every cycle as one span."""
    cycles = phased.cycles
    size = cycles.spans.size
    spans = Spans(
        cycles.spans.start_ns,
        cycles.spans.end_ns,
        texts.of_states(cycles.state),
        np.full(size, NONE),
        np.arange(size),
        np.full(size, NONE),
    )
    return Tracks(CYCLES, cycles.spans.lane, np.zeros(size, np.int64), spans)


def phase_tracks(phased: PhasedTrace, segments: Segments, texts: Texts) -> Tracks:
    """Phases as they follow one another, with idle time below `BRIDGED_NS` bridged.

    Time in which two phases or more run is a span of its own, whose phase is the one after the
    last. No span crosses a cycle's border.
    """
    running = np.flatnonzero(segments.active)
    pieces = segments.spans.take(running)
    active = segments.active[running]
    single = active & (active - 1) == 0
    label = np.where(single, np.log2(active).astype(np.int64), len(phased.labels))
    cycle = phased.cycles.at(pieces)
    opens = np.ones(pieces.size, bool)
    opens[1:] = (
        (pieces.lane[1:] != pieces.lane[:-1])
        | (label[1:] != label[:-1])
        | (cycle[1:] != cycle[:-1])
        | (pieces.start_ns[1:] - pieces.end_ns[:-1] >= BRIDGED_NS)
    )
    first = np.flatnonzero(opens)
    last = np.append(first[1:], pieces.size)[: first.size] - 1
    spans = Spans(
        pieces.start_ns[first],
        pieces.end_ns[last],
        texts.of_phases(label[first]),
        label[first],
        cycle[first],
        np.full(first.size, NONE),
    )
    return Tracks(PHASES, pieces.lane[first], np.zeros(first.size, np.int64), spans)


def op_tracks(phased: PhasedTrace, texts: Texts) -> list[Tracks]:
    """Each stream's ops, and the collectives of all streams once more."""
    ops = phased.trace.ops
    classes = class_of_ops(phased.trace)
    spans = Spans(
        phased.ops.start_ns,
        phased.ops.end_ns,
        texts.of_ops(ops["name"].to_numpy().astype(np.int64), classes),
        phased.label,
        phased.cycle,
        ops["correlation_id"].fill_null(NONE).to_numpy(),
    )
    lane, stream = phased.ops.lane, ops["stream_id"].to_numpy()
    streams = Tracks(STREAM, lane, stream, spans)
    if not phased.collected.all():
        streams = streams.take(phased.collected)
        classes = classes[phased.collected]
    collective = np.isin(classes, [CLASSES.index(each) for each in COLLECTIVE_CLASSES])
    apart = streams.take(collective)
    return [streams, Tracks(COLLECTIVES, apart.group, np.zeros_like(apart.track), apart.spans)]
