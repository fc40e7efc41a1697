from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from tests.measured import FIXED, Measured
from tests.reference import CAUSES, Reference, is_prompt, nearest_rank, nonzero, union_ns
from tests.strategies import MEANINGS, build, examples, gpu_traces
from traceanalyzer.analyses.phase_time import phase_totals
from traceanalyzer.pipeline import analyze

if TYPE_CHECKING:
    from traceanalyzer.report import PhaseReport, RankReport, Spread
    from traceanalyzer.trace import Trace


@examples(0.4)
@given(gpu_traces())
def test_time_in_every_cycle_agrees_with_the_reference(trace: Trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    for number in range(len(reference.cycles)):
        expected = reference.time_of(number)
        assert measured.windows(number) == nonzero(expected.windows)
        assert int(measured.time.overlap[number]) == expected.overlap


@examples(0.2)
@given(gpu_traces())
def test_totals_of_every_phase_agree_with_the_reference(trace: Trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    totals = phase_totals(measured.phased, measured.active)
    assert measured.by_lane_and_phase(totals) == reference.totals()


_QUANTILES = ("mean", "p50", "p5", "p95", "p99")


def _spread(values: list[int]) -> tuple[Any, ...] | None:
    if not values:
        return None
    ranks = (nearest_rank(values, percent) for percent in (50, 5, 95, 99))
    return (pytest.approx(fmean(values)), *ranks)


def _numbers(spread: Spread | None) -> tuple[Any, ...] | None:
    return None if spread is None else tuple(getattr(spread, name) for name in _QUANTILES)


@examples(0.12)
@given(gpu_traces())
def test_the_report_says_what_the_reference_says(trace: Trace) -> None:
    reference = Reference(trace, MEANINGS)
    for lane, rank in enumerate(analyze(trace, FIXED).ranks):
        _check_cycles(rank, reference, lane)
        totals = reference.totals()
        phases = [phase for lane_of, phase in totals if lane_of == lane]
        assert sorted(phase.phase for phase in rank.phases) == sorted(phases)
        for phase in rank.phases:
            _check_phase(phase, reference, lane)


def _check_cycles(rank: RankReport, reference: Reference, lane: int) -> None:
    cycles = [cycle for cycle in reference.cycles if cycle.lane == lane]
    states = Counter(cycle.state for cycle in cycles)
    dropped = rank.cycles.dropped
    found = {
        "kept": rank.cycles.kept,
        "warm_up": dropped.warm_up,
        "edge": dropped.edge,
        "interrupted": dropped.interrupted,
        "dummy": dropped.dummy,
    }
    assert nonzero(found) == states
    periods = [cycle.end_ns - cycle.start_ns for cycle in cycles if cycle.state == "kept"]
    assert _numbers(rank.cycles.period_ns) == _spread(periods)
    assert rank.cycles.prefill_stall_ns == sum(
        ns
        for number, cycle in enumerate(reference.cycles)
        if cycle.lane == lane and cycle.state == "interrupted"
        for phase, ns in reference.time_of(number).windows.items()
        if phase not in ("other", "unattributed") and is_prompt(phase)
    )


def _check_phase(phase: PhaseReport, reference: Reference, lane: int) -> None:
    kept = [
        reference.time_of(number)
        for number, cycle in enumerate(reference.cycles)
        if cycle.lane == lane and cycle.state == "kept"
    ]
    totals = reference.totals()[lane, phase.phase]
    assert {name: getattr(phase, name) for name in totals} == totals
    windows = [time.windows.get(phase.phase, 0) for time in kept]
    assert _numbers(phase.window_ns_per_cycle) == _spread(windows)
    whole = reference.gaps_of(lane)
    causes = [cause for cause in CAUSES if whole.get((phase.phase, cause))]
    assert [(gap.cause, gap.ns) for gap in phase.gaps] == [
        (cause, whole[phase.phase, cause]) for cause in causes
    ]
    means = [
        fmean(time.gaps.get((phase.phase, cause), 0) for time in kept) if kept else 0.0
        for cause in causes
    ]
    assert [gap.ns_per_cycle for gap in phase.gaps] == pytest.approx(means)
    together = sum(means)
    assert [gap.share for gap in phase.gaps] == pytest.approx(
        [mean / together if together else 0.0 for mean in means]
    )
    leads = reference.host_leads().get((lane, phase.phase))
    found = phase.host_lead_ns
    assert (found and (found.p5, found.p50)) == (
        leads and (nearest_rank(leads, 5), nearest_rank(leads, 50))
    )


def _phases_of(trace: Trace) -> dict[str, dict[str, int]]:
    measured = Measured(trace)
    totals = measured.by_lane_and_phase(phase_totals(measured.phased, measured.active))
    return {phase: row for (_, phase), row in totals.items()}


Rows = list[dict[str, Any]]

RANGES: Rows = [
    {"name": "draft", "start_ns": 0, "end_ns": 10},
    {"name": "verify", "start_ns": 10, "end_ns": 20},
]
LAUNCHES: Rows = [
    {"start_ns": 1, "end_ns": 2, "correlation_id": 1},
    {"start_ns": 11, "end_ns": 12, "correlation_id": 2, "name": "cudaGraphLaunch"},
]


def test_phases_that_run_together_share_overlap_and_keep_the_rest_to_themselves() -> None:
    ops = [
        {"start_ns": 100, "end_ns": 140, "correlation_id": 1},
        {"start_ns": 130, "end_ns": 170, "correlation_id": 2, "stream_id": 13},
        {"start_ns": 160, "end_ns": 170, "correlation_id": 2, "stream_id": 14},
    ]
    totals = _phases_of(build(ops=ops, launches=LAUNCHES, ranges=RANGES))
    assert (totals["draft"]["launches"], totals["draft"]["graph_launches"]) == (1, 0)
    assert (totals["draft"]["busy_ns"], totals["draft"]["exclusive_ns"]) == (40, 30)
    assert (totals["verify"]["summed_ns"], totals["verify"]["busy_ns"]) == (50, 40)
    assert (totals["verify"]["exclusive_ns"], totals["verify"]["overlap_ns"]) == (30, 10)
    assert (totals["verify"]["launches"], totals["verify"]["graph_launches"]) == (1, 1)


def test_ops_without_times_and_of_zero_length_are_counted_and_take_no_time() -> None:
    ops = [
        {"start_ns": 0, "end_ns": 0, "correlation_id": 1},
        {"start_ns": 50, "end_ns": 50, "correlation_id": 1},
    ]
    draft = _phases_of(build(ops=ops, launches=LAUNCHES, ranges=RANGES))["draft"]
    assert (draft["ops"], draft["kernels"], draft["summed_ns"], draft["busy_ns"]) == (2, 2, 0, 0)


def test_whole_graph_rows_are_not_kernels() -> None:
    ops = [{"start_ns": 50, "end_ns": 80, "kind": "graph", "correlation_id": 2}]
    verify = _phases_of(build(ops=ops, launches=LAUNCHES, ranges=RANGES))["verify"]
    assert (verify["kernels"], verify["kernel_ns"]) == (0, 0)
    assert (verify["graph_rows"], verify["graph_row_ns"], verify["busy_ns"]) == (1, 30, 30)


def test_prefill_stall_is_the_prompt_work_and_not_the_forward_that_may_hold_some() -> None:
    ranges: Rows = []
    launches: Rows = []
    ops: Rows = []
    for number, name in enumerate(("forward", "prefill", "forward")):
        at = 100 * number
        ranges.append({"name": name, "start_ns": at, "end_ns": at + 50})
        launches.append({"start_ns": at, "end_ns": at + 1, "correlation_id": number})
        ops.append({"start_ns": at + 10, "end_ns": at + 90, "correlation_id": number})
    report = analyze(build(ops=ops, launches=launches, ranges=ranges), FIXED)
    assert report.ranks[0].cycles.dropped.interrupted == 1
    assert report.ranks[0].cycles.prefill_stall_ns == 100


def test_no_phase_is_busier_than_its_device() -> None:
    ops = [
        {"start_ns": start, "end_ns": start + 50, "correlation_id": 1 + start // 10 % 2}
        for start in range(0, 200, 10)
    ]
    totals = _phases_of(build(ops=ops, launches=LAUNCHES, ranges=RANGES))
    device = union_ns((op["start_ns"], op["end_ns"]) for op in ops)
    assert all(row["busy_ns"] <= device < row["summed_ns"] for row in totals.values())
