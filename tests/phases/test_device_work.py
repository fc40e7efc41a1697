from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.measured import Measured
from tests.reference import Reference, union_ns
from tests.strategies import MEANINGS, examples, gpu_traces
from traceanalyzer.intervals import Intervals
from traceanalyzer.phases.collective_matching import clock_offsets
from traceanalyzer.phases.device_work import CoveredTime, label_before, starts_early

_stretch = st.tuples(st.integers(0, 2), st.integers(-5, 20), st.integers(0, 9))


def intervals(rows: list[tuple[int, int, int]]) -> Intervals:
    lane, start, length = (np.array(part, np.int64) for part in zip(*rows, strict=True))
    return Intervals(lane, start, start + length)


@examples()
@given(st.lists(_stretch, max_size=8), st.lists(_stretch, min_size=1, max_size=5))
def test_covered_time_is_the_union_within(
    work: list[tuple[int, int, int]], stretches: list[tuple[int, int, int]]
) -> None:
    nothing = np.zeros(0, np.int64)
    covered = CoveredTime(intervals(work) if work else Intervals(nothing, nothing, nothing))
    assert covered.within(intervals(stretches)).tolist() == [
        union_ns(
            (max(begin, start), max(min(begin + length, start + size), max(begin, start)))
            for other, begin, length in work
            if other == lane
        )
        for lane, start, size in stretches
    ]


@examples(0.2)
@given(gpu_traces())
def test_order_on_a_device_agrees_with_the_reference(trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    everything = np.flatnonzero(measured.phased.collected)
    starting_early = starts_early(measured.phased, measured.order, everything)
    early = dict(zip(everything.tolist(), starting_early.tolist(), strict=True))
    before = dict(
        zip(everything.tolist(), label_before(measured.phased, everything).tolist(), strict=True)
    )
    for op in everything.tolist():
        own = reference.ops[op]
        same = [
            place for place in everything.tolist() if reference.lane[place] == reference.lane[op]
        ]
        assert early[op] == any(
            reference.ops[place]["stream_id"] == own["stream_id"]
            and (reference.ops[place]["start_ns"], place) < (own["start_ns"], op)
            and reference.ops[place]["end_ns"] > own["start_ns"]
            for place in same
        )
        ended = [place for place in same if reference.ops[place]["end_ns"] <= own["start_ns"]]
        last = max(ended, key=lambda place: (reference.ops[place]["end_ns"], place), default=None)
        name = None if before[op] < 0 else measured.phased.labels[before[op]]
        assert name == (None if last is None else reference.label[last])


@examples(0.3)
@given(
    st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=3),
    st.integers(1, 300),
    st.integers(-3, 3),
)
def test_clock_offsets_follow_drift_from_block_to_block(
    shifts: list[int], count: int, drift: int
) -> None:
    """Clocks that drift by a few ns a collective stay within half a block of the truth."""
    at = np.arange(count, dtype=np.int64) * 1_000
    ends = np.stack([at, *(at + shift + drift * np.arange(count) for shift in shifts)], axis=1)
    left = ends - clock_offsets(ends) - at[:, None]
    assert (left[:, 0] == 0).all()
    assert np.abs(left).max() <= abs(drift) * 64
