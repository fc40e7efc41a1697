from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.measured import Measured
from tests.reference import Reference, nearest_rank
from tests.strategies import MEANINGS, build, examples, gpu_traces
from traceanalyzer.analyses.launch_lead import host_lead

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


def leads(trace: Trace) -> dict[tuple[int, str], tuple[int, int]]:
    """p5 and p50 by lane and phase."""
    measured = Measured(trace)
    rows = measured.by_lane_and_phase(host_lead(measured.phased, measured.order))
    return {key: (row["p5_ns"], row["p50_ns"]) for key, row in rows.items()}


@examples(0.2)
@given(gpu_traces())
def test_host_lead_agrees_with_the_reference(trace: Trace) -> None:
    expected = Reference(trace, MEANINGS).host_leads()
    assert leads(trace) == {
        key: (nearest_rank(values, 5), nearest_rank(values, 50)) for key, values in expected.items()
    }


def test_a_replay_counts_once_by_its_first_op() -> None:
    ops = [
        {"start_ns": start, "end_ns": start + 5, "correlation_id": 1, "graph_node_id": start}
        for start in (70, 60, 80)
    ]
    launches = [{"start_ns": 10, "end_ns": 20, "correlation_id": 1, "name": "cudaGraphLaunch"}]
    verify = {"name": "verify", "start_ns": 0, "end_ns": 50}
    assert leads(build(ops=ops, launches=launches, ranges=[verify])) == {(0, "verify"): (50, 50)}


@pytest.mark.parametrize(
    ("count", "p5", "p50"), [(1, 0, 0), (2, 0, 0), (3, 0, 1), (4, 0, 1), (20, 0, 9), (21, 1, 10)]
)
def test_quantiles_are_the_nearest_ranks(count: int, p5: int, p50: int) -> None:
    ops = [{"start_ns": 100 + i, "end_ns": 200, "correlation_id": i} for i in range(count)]
    launches = [{"start_ns": 100, "end_ns": 100, "correlation_id": i} for i in range(count)]
    verify = {"name": "verify", "start_ns": 0, "end_ns": 150}
    trace = build(ops=ops, launches=launches, ranges=[verify])
    assert leads(trace) == {(0, "verify"): (p5, p50)}


def test_ops_without_times_or_launches_have_no_lead() -> None:
    ops = [
        {"start_ns": 0, "end_ns": 0, "correlation_id": 1},
        {"start_ns": 30, "end_ns": 40, "correlation_id": 2},
    ]
    launches = [{"start_ns": 10, "end_ns": 20, "correlation_id": 1}]
    assert leads(build(ops=ops, launches=launches)) == {}
