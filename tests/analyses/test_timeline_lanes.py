"""The lanes of a timeline hold every span once, in order, and none overlaps the next."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import SAMPLE_TRACES
from tests.strategies import RULES, build, examples, traces
from traceanalyzer.analyses.acceptance import accepted_drafts
from traceanalyzer.analyses.buckets import cycle_buckets
from traceanalyzer.analyses.phase_time import phase_segments
from traceanalyzer.analyses.timeline_lanes import rows as rows_module
from traceanalyzer.analyses.timeline_lanes.gpu_tracks import BRIDGED_NS
from traceanalyzer.analyses.timeline_lanes.lanes import timeline_lanes
from traceanalyzer.analyses.timeline_lanes.model import NONE
from traceanalyzer.analyses.timeline_lanes.rows import stacked_rows
from traceanalyzer.importers import load
from traceanalyzer.intervals import Intervals
from traceanalyzer.kernels.classification import CLASSES
from traceanalyzer.phases.cycles import KEPT
from traceanalyzer.phases.phased import PhasedTrace, settle_phases
from traceanalyzer.phases.rules import Rules
from traceanalyzer.trace import concatenate

if TYPE_CHECKING:
    from traceanalyzer.analyses.timeline_lanes.model import Lane, TimelineLanes
    from traceanalyzer.trace import Trace


def lanes_of(phased: PhasedTrace) -> TimelineLanes:
    timed = phased.collected
    segments = phase_segments(phased.ops.take(timed), phased.label[timed], phased.cycles)
    bucket = cycle_buckets(phased)["bucket"].to_numpy().astype(np.int64)
    return timeline_lanes(phased, segments, bucket, accepted_drafts(phased.trace))


@pytest.fixture(scope="module")
def phased() -> PhasedTrace:
    return settle_phases(load([SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"]), Rules.shipped())


@pytest.fixture(scope="module")
def lanes(phased: PhasedTrace) -> TimelineLanes:
    return lanes_of(phased)


def of_kind(lanes: TimelineLanes, *kinds: str) -> list[Lane]:
    return [lane for lane in lanes.lanes if lane.kind in kinds]


def spans_of(lanes: TimelineLanes, *kinds: str) -> list[tuple[int, int, str]]:
    """Start, end and name of the spans of some kinds."""
    spans = lanes.spans
    return [
        (int(spans.start_ns[row]), int(spans.end_ns[row]), lanes.names[spans.name[row]])
        for lane in of_kind(lanes, *kinds)
        for row in range(lane.first, lane.end)
    ]


# Stacking.


def lowest_free_rows(spans: list[tuple[int, int, int]]) -> list[int]:
    """Spans of (lane, start, end) by start, the longer first, each on the lowest free row."""
    rows = [0] * len(spans)
    ends: dict[int, list[int]] = {}
    for place in sorted(range(len(spans)), key=lambda i: (spans[i][1], -spans[i][2])):
        lane, start, end = spans[place]
        taken = ends.setdefault(lane, [])
        row = next((row for row, until in enumerate(taken) if until <= start), len(taken))
        taken[row : row + 1] = [end]
        rows[place] = row
    return rows


_spans = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-5, 30), st.sampled_from((0, 1, 2, 5, 9, 40))).map(
        lambda span: (span[0], span[1], span[1] + span[2])
    ),
    max_size=40,
)


@examples(0.5)
@given(_spans, st.sampled_from((0, 1, 2, 12)))
def test_rows_agree_with_the_reference(spans: list[tuple[int, int, int]], peeled: int) -> None:
    columns = np.array(spans, np.int64).reshape(-1, 3).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_PEELED_ROWS", peeled)
        assert stacked_rows(Intervals(*columns)).tolist() == lowest_free_rows(spans)


def test_very_many_overlapping_spans_are_stacked_too() -> None:
    start = np.arange(3_000)
    rows = stacked_rows(Intervals(np.zeros_like(start), start, start + 100_000))
    assert rows.tolist() == start.tolist()


# Lanes.


@examples(0.15)
@given(traces())
def test_spans_of_a_lane_are_in_order_and_never_overlap(trace: Trace) -> None:
    lanes = lanes_of(settle_phases(trace, RULES))
    spans = lanes.spans
    assert (spans.end_ns >= spans.start_ns).all()
    reached = 0
    for lane in lanes.lanes:
        assert lane.first == reached < lane.end
        reached = lane.end
        own = slice(lane.first, lane.end)
        assert (spans.start_ns[own][1:] >= spans.end_ns[own][:-1]).all()
    assert reached == spans.size


@examples(0.15)
@given(traces())
def test_ops_calls_and_ranges_are_drawn_once(trace: Trace) -> None:
    phased = settle_phases(trace, RULES)
    lanes = lanes_of(phased)
    texts = trace.names["text"]

    def rows(frame_name: str, *, timed: bool) -> Counter[tuple[int, int, str]]:
        frame = getattr(trace, frame_name)
        if timed:
            frame = frame.filter((frame["start_ns"] != 0) | (frame["end_ns"] != 0))
        return Counter(
            (start, end, texts[name])
            for start, end, name in frame.select("start_ns", "end_ns", "name").iter_rows()
        )

    assert Counter(spans_of(lanes, "stream")) == rows("ops", timed=True)
    assert Counter(spans_of(lanes, "calls", "graph launches")) == rows("launches", timed=False)
    assert Counter(spans_of(lanes, "ranges")) == rows("ranges", timed=False)


@examples(0.1)
@given(traces())
def test_phases_lie_where_their_ops_do(trace: Trace) -> None:
    phased = settle_phases(trace, RULES)
    lanes = lanes_of(phased)
    running = [
        (start, end)
        for start, end, timed in zip(
            phased.ops.start_ns.tolist(),
            phased.ops.end_ns.tolist(),
            phased.collected.tolist(),
            strict=True,
        )
        if timed and end > start
    ]
    drawn = spans_of(lanes, "phases")
    for start, end in running:
        assert sum(max(0, min(end, b) - max(start, a)) for a, b, _ in drawn) >= end - start
    for start, end, _ in drawn:
        # Whatever is drawn begins and ends with work and bridges only short idle time.
        inside = sorted((a, b) for a, b in running if a < end and b > start)
        reached = start
        for a, b in inside:
            assert a - reached < BRIDGED_NS
            reached = max(reached, b)
        assert reached >= end


def test_a_long_gap_inside_a_phase_stays_idle() -> None:
    ops = [(0, 100), (200, 300), (300 + BRIDGED_NS, 400 + BRIDGED_NS)]
    trace = build(
        ops=[{"start_ns": a + 1, "end_ns": b + 1, "correlation_id": 1} for a, b in ops],
        launches=[{"start_ns": 1, "end_ns": 2, "correlation_id": 1}],
        ranges=[{"start_ns": 0, "end_ns": 9, "name": "draft"}],
    )
    lanes = lanes_of(settle_phases(trace, RULES))
    assert spans_of(lanes, "phases") == [
        (1, 301, "draft"),
        (301 + BRIDGED_NS, 401 + BRIDGED_NS, "draft"),
    ]


def test_nested_ranges_lie_at_their_depth() -> None:
    trace = build(
        ranges=[
            {"start_ns": 0, "end_ns": 90, "name": "cycle"},
            {"start_ns": 0, "end_ns": 40, "name": "verify"},
            {"start_ns": 10, "end_ns": 20, "name": "sample"},
            {"start_ns": 40, "end_ns": 50, "name": "draft"},
            {"start_ns": 5, "end_ns": 60, "name": "known", "end_thread": 1},
        ],
        threads=(0, 0),
    )
    lanes = lanes_of(settle_phases(trace, RULES))
    found = {
        lane.title: [lanes.names[name] for name in lanes.spans.name[lane.first : lane.end]]
        for lane in lanes.lanes
    }
    assert found == {
        "thread 5000": ["cycle"],
        "thread 5000 · 2": ["verify", "draft"],
        "thread 5000 · 3": ["sample"],
        "thread 5000, closed elsewhere": ["known"],
    }


def test_overlapping_ops_of_a_stream_share_it_in_two_lanes() -> None:
    ops = [(1, 50, "a"), (40, 60, "b"), (60, 70, "c"), (65, 65, "d")]
    trace = build(ops=[{"start_ns": a, "end_ns": b, "name": name} for a, b, name in ops])
    lanes = lanes_of(settle_phases(trace, RULES))
    found = [
        (lane.title, [lanes.names[name] for name in lanes.spans.name[lane.first : lane.end]])
        for lane in of_kind(lanes, "stream")
    ]
    assert found == [("stream 7", ["a", "c"]), ("stream 7 · 2", ["b", "d"])]


def test_ops_keep_their_phase_cycle_class_and_launch(
    phased: PhasedTrace, lanes: TimelineLanes
) -> None:
    spans = lanes.spans
    drawn = Counter(
        (
            int(spans.start_ns[row]),
            lanes.phases[spans.phase[row]],
            int(spans.cycle[row]),
            int(spans.correlation[row]),
        )
        for lane in of_kind(lanes, "stream")
        for row in range(lane.first, lane.end)
    )
    ops = phased.trace.ops["correlation_id"].fill_null(NONE).to_list()
    labels = [phased.labels[label] for label in phased.label.tolist()]
    start, cycle = phased.ops.start_ns.tolist(), phased.cycle.tolist()
    assert drawn == Counter(zip(start, labels, cycle, ops, strict=True))
    collectives = Counter(spans_of(lanes, "collectives"))
    named = {"all-reduce", "other collective"}
    classes = [CLASSES[each] if each >= 0 else None for each in lanes.name_class]
    assert collectives == Counter(
        span for span in spans_of(lanes, "stream") if classes[lanes.names.index(span[2])] in named
    )
    assert collectives


def test_graph_launches_carry_the_phase_of_what_they_launched(
    phased: PhasedTrace, lanes: TimelineLanes
) -> None:
    spans = lanes.spans
    process = {0: 0, 1: 1}
    launched = {
        (process[lane], number): label
        for lane, number, label in zip(
            phased.ops.lane.tolist(),
            phased.trace.ops["correlation_id"].to_list(),
            phased.label.tolist(),
            strict=True,
        )
    }
    found = [
        (launched[lane.group, int(spans.correlation[row])], int(spans.phase[row]))
        for lane in of_kind(lanes, "graph launches")
        for row in range(lane.first, lane.end)
        if (lane.group, int(spans.correlation[row])) in launched
    ]
    assert found
    assert all(expected == phase for expected, phase in found)


def test_cycle_facts(phased: PhasedTrace, lanes: TimelineLanes) -> None:
    facts, cycles = lanes.cycles, phased.cycles
    assert facts.ordinal.tolist() == [*range(1, 13), *range(1, 13)]
    period = cycles.spans.duration_ns
    kept = (cycles.state == KEPT) & (cycles.spans.lane == 0)
    assert set(facts.usual_ns[kept].tolist()) == {int(np.median(period[kept]))}
    assert set(facts.usual_ns[cycles.state != KEPT].tolist()) == {NONE}
    marks = accepted_drafts(phased.trace)
    told = dict(marks.group_by("cycle").sum().select("cycle", "accepted").iter_rows())
    numbers = facts.number.tolist()
    assert facts.accepted.tolist() == [told.get(number, NONE) for number in numbers]
    assert (facts.host_start_ns <= facts.start_ns).all()


def _of_two_files(first_utc: int | None, second_utc: int | None) -> TimelineLanes:
    parts = []
    for utc in (first_utc, second_utc):
        trace = build(ops=[{"start_ns": 10, "end_ns": 20}])
        files = trace.files.with_columns(start_utc_ns=pl.lit(utc, pl.Int64))
        parts.append(replace(trace, files=files))
    return lanes_of(settle_phases(concatenate(parts), RULES))


def test_files_are_aligned_by_the_start_they_state() -> None:
    lanes = _of_two_files(5_000, 7_000)
    assert [start for start, _, _ in spans_of(lanes, "stream")] == [10, 2_010]
    assert "do not read skew" in lanes.notes[0]


def test_files_without_a_common_clock_stay_where_they_are() -> None:
    lanes = _of_two_files(None, 7_000)
    assert [start for start, _, _ in spans_of(lanes, "stream")] == [10, 10]
    assert "do not compare times" in lanes.notes[0]


def test_ops_without_times_are_told() -> None:
    trace = build(ops=[{"start_ns": 0, "end_ns": 0}, {"start_ns": 10, "end_ns": 20}])
    lanes = lanes_of(settle_phases(trace, RULES))
    assert lanes.notes == ("Not drawn, because the trace has no times for them: 1 ops.",)
