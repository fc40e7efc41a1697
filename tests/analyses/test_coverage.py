from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given

from tests.measured import FIXED, Measured
from tests.reference import COVERED, METHODS, Reference, union_ns
from tests.strategies import MEANINGS, build, examples, gpu_traces
from traceanalyzer.analyses.coverage import coverage_ledger
from traceanalyzer.pipeline import analyze

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


def ledger(trace: Trace) -> dict[tuple[int, str], tuple[int, int]]:
    """Busy ns and ops by lane and method."""
    measured = Measured(trace)
    rows = coverage_ledger(measured.phased, measured.order).rows(named=True)
    return {(row["lane"], row["method"]): (row["busy_ns"], row["ops"]) for row in rows}


@examples(0.2)
@given(gpu_traces())
def test_coverage_by_method_agrees_with_the_reference(trace: Trace) -> None:
    reference = Reference(trace, MEANINGS)
    found = ledger(trace)
    assert found == reference.coverage()
    for lane in range(len(reference.lanes)):
        union = union_ns(
            (op["start_ns"], op["end_ns"])
            for op, of_lane in zip(reference.ops, reference.lane, strict=True)
            if of_lane == lane
        )
        assert sum(found[lane, method][0] for method in METHODS) == union


def test_of_ops_that_overlap_the_earlier_keeps_the_time() -> None:
    ops = [
        {"start_ns": 10, "end_ns": 30, "correlation_id": 99},
        {"start_ns": 20, "end_ns": 60, "correlation_id": 1},
        {"start_ns": 25, "end_ns": 50, "correlation_id": 2, "stream_id": 13},
    ]
    launches = [
        {"start_ns": 1, "end_ns": 2, "correlation_id": 1},
        {"start_ns": 200, "end_ns": 201, "correlation_id": 2},
    ]
    verify = {"name": "verify", "start_ns": 0, "end_ns": 5}
    found = ledger(build(ops=ops, launches=launches, ranges=[verify]))
    assert found[0, "no launch row"] == (20, 1)
    assert found[0, "launch in range"] == (30, 1)
    assert found[0, "launched outside ranges"] == (0, 1)


def test_the_report_adds_up_to_one_and_counts_what_was_not_collected() -> None:
    ops = [
        {"start_ns": 10, "end_ns": 40, "correlation_id": 1},
        {"start_ns": 40, "end_ns": 50, "correlation_id": 99},
        {"start_ns": 0, "end_ns": 0, "correlation_id": 1},
    ]
    launches = [{"start_ns": 1, "end_ns": 2, "correlation_id": 1}]
    verify = {"name": "verify", "start_ns": 0, "end_ns": 5}
    coverage = analyze(build(ops=ops, launches=launches, ranges=[verify]), FIXED).coverage
    assert coverage is not None
    assert (coverage.busy_ns, coverage.covered_share, coverage.not_collected) == (40, 0.75, 1)
    assert sum(method.share for method in coverage.by_method) == 1
    assert sum(method.share for method in coverage.by_method if method.method in COVERED) == 0.75
