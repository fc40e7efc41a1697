from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.measured import FIXED
from tests.reference import HostReference, Reference, nearest_rank
from tests.strategies import MEANINGS, RULES, build, examples, host_traces
from traceanalyzer.analyses.host_time import host_work
from traceanalyzer.phases.cycles import STATES
from traceanalyzer.phases.spans import classify_ranges
from traceanalyzer.pipeline import analyze

if TYPE_CHECKING:
    from traceanalyzer.report import RankReport
    from traceanalyzer.trace import Trace


@examples(0.2)
@given(host_traces())
def test_host_cycles_agree_with_the_reference(trace: Trace) -> None:
    work, reference = (
        host_work(classify_ranges(trace, RULES), trace.ranges["closed"].to_numpy()),
        _reference(trace),
    )
    spans = work.cycles.spans
    columns = (spans.lane, spans.start_ns, spans.end_ns, work.cycles.forward)
    assert work.threads.tolist() == reference.threads
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [
        (cycle.lane, cycle.start_ns, cycle.end_ns, cycle.forward) for cycle in reference.cycles
    ]
    assert [STATES[state] for state in work.cycles.state] == [
        cycle.state for cycle in reference.cycles
    ]


@examples(0.1)
@given(host_traces())
def test_host_time_of_every_phase_agrees_with_the_reference(trace: Trace) -> None:
    reference = _reference(trace)
    report = analyze(trace, FIXED)
    assert report.capture.time_base == "host"
    assert len(report.ranks) == len(reference.threads)
    for lane, rank in enumerate(report.ranks):
        _check_rank(rank, reference, lane)


def _reference(trace: Trace) -> HostReference:
    return HostReference(Reference(trace, MEANINGS))


def _check_rank(rank: RankReport, reference: HostReference, lane: int) -> None:
    kept = [
        reference.windows_of(cycle)
        for cycle in reference.cycles
        if cycle.lane == lane and cycle.state == "kept"
    ]
    assert rank.cycles.kept == len(kept)
    own = [piece for piece in reference.pieces() if piece[0] == lane]
    found = {phase.phase: phase for phase in rank.phases}
    for phase in {phase for *_, phase in own} | set(found):
        total = sum(end - start for _, start, end, of in own if of == phase)
        windows = [window.get(phase, 0) for window in kept]
        if phase == "other":
            total = 0  # between phases nothing is busy
        if phase not in found:
            assert total == 0
            assert not any(windows)
            continue
        assert found[phase].busy_ns == total
        spread = found[phase].window_ns_per_cycle
        assert (spread is None) == (not windows)
        if spread is not None:
            assert spread.mean == pytest.approx(fmean(windows))
            assert spread.p50 == nearest_rank(windows, 50)


def test_at_each_instant_the_innermost_phase_range_counts() -> None:
    ranges = [
        {"name": "verify", "start_ns": 0, "end_ns": 100},
        {"name": "sample", "start_ns": 60, "end_ns": 90},
        {"name": "known", "start_ns": 10, "end_ns": 20},
        {"name": "draft", "start_ns": 120, "end_ns": 150},
        {"name": "verify", "start_ns": 200, "end_ns": 300},
        {"name": "verify", "start_ns": 210, "end_ns": 220},
    ]
    (rank,) = analyze(build(ranges=ranges), FIXED).ranks
    windows = {
        phase.phase: phase.window_ns_per_cycle and phase.window_ns_per_cycle.p50
        for phase in rank.phases
    }
    assert windows == {"verify": 70, "sample": 30, "draft": 30, "other": 70}
    assert rank.cycles.period_ns is not None
    assert rank.cycles.period_ns.p50 == 200


def test_a_forward_that_never_closed_is_not_averaged() -> None:
    ranges = [
        {"name": "verify", "start_ns": 0, "end_ns": 50},
        {"name": "verify", "start_ns": 100, "end_ns": 150, "closed": False},
        {"name": "verify", "start_ns": 200, "end_ns": 250},
    ]
    (rank,) = analyze(build(ranges=ranges), FIXED).ranks
    assert (rank.cycles.kept, rank.cycles.dropped.edge) == (1, 2)
