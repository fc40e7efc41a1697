"""Idle time and the time of phases, against the timeline that is swept as a whole."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given

from tests.measured import Measured
from tests.strategies import examples, gpu_traces
from traceanalyzer.analyses.phase_time import active_time, phase_segments

if TYPE_CHECKING:
    from traceanalyzer.analyses.phase_time import ActiveTime
    from traceanalyzer.intervals import Segments
    from traceanalyzer.trace import Trace


def swept(measured: Measured) -> Segments:
    phased, work = measured.phased, np.flatnonzero(measured.phased.collected)
    return phase_segments(phased.ops.take(work), phased.label[work], phased.cycles)


@examples()
@given(gpu_traces())
def test_devices_idle_where_the_timeline_has_no_phase(trace: Trace) -> None:
    measured = Measured(trace)
    segments, ops = swept(measured), measured.phased.ops
    expected = []
    lanes = zip(
        segments.spans.lane.tolist(),
        segments.spans.start_ns.tolist(),
        segments.spans.end_ns.tolist(),
        (segments.active == 0).tolist(),
        strict=True,
    )
    for (lane, idle), stretch in groupby(lanes, key=lambda each: (each[0], each[3])):
        pieces = [(start, end) for _, start, end, _ in stretch]
        expected += [(lane, *piece, pieces[0][0]) for piece in pieces if idle]
    idle = measured.idle
    spans = idle.spans
    columns = (spans.lane, spans.start_ns, spans.end_ns, idle.since_ns)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    timed = [
        (lane, start, op)
        for op, (lane, start, end) in enumerate(
            zip(ops.lane.tolist(), ops.start_ns.tolist(), ops.end_ns.tolist(), strict=True)
        )
        if measured.phased.collected[op] and end > start
    ]
    for (lane, _, end, _), place in zip(expected, idle.next_op.tolist(), strict=True):
        later = [each for each in timed if each[0] == lane and each[1] >= end]
        found = -1 if place < 0 else idle.ops.op[place]
        assert found == (min(later)[2] if later else -1)


def summed(active: ActiveTime) -> dict[tuple[int, int, int], int]:
    found: dict[tuple[int, int, int], int] = {}
    rows = zip(*(getattr(active, name).tolist() for name in active.__slots__), strict=True)
    for lane, cycle, labels, ns in rows:
        if labels:
            found[lane, cycle, labels] = found.get((lane, cycle, labels), 0) + ns
    return found


@examples()
@given(gpu_traces())
def test_phases_are_active_as_long_as_in_the_timeline(trace: Trace) -> None:
    measured = Measured(trace)
    whole = active_time(measured.phased.cycles, swept(measured))
    assert summed(measured.active) == summed(whole)
