from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from tests.measured import Measured
from tests.reference import Reference, nonzero
from tests.strategies import MEANINGS, build, examples, gpu_traces

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


@examples(0.4)
@given(gpu_traces())
def test_gaps_and_their_causes_agree_with_the_reference(trace: Trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    for lane in range(len(reference.lanes)):
        assert measured.gaps_of(lane) == nonzero(reference.gaps_of(lane))
    for number in range(len(reference.cycles)):
        assert measured.gaps_in(number) == nonzero(reference.time_of(number).gaps)


# A draft kernel runs from 20 to 40; a verify kernel ends the gap after it at 100.

RANGES = [
    {"name": "draft", "start_ns": 0, "end_ns": 10},
    {"name": "verify", "start_ns": 10, "end_ns": 95},
]
DRAFT = {"start_ns": 20, "end_ns": 40, "correlation_id": 1}
VERIFY = {"start_ns": 100, "end_ns": 120, "correlation_id": 2}


def gaps(
    *,
    verify_call_ns: int = 30,
    calls: list[dict[str, Any]] | None = None,
    ops: list[dict[str, Any]] | None = None,
    **tables: Any,
) -> dict[tuple[str, str], int]:
    """Gaps of the device when verify is launched at an instant, with more calls and ops."""
    launches = [
        {"start_ns": 5, "end_ns": 6, "correlation_id": 1},
        {"start_ns": verify_call_ns, "end_ns": verify_call_ns + 1, "correlation_id": 2},
        *(calls or []),
    ]
    trace = build(
        ops=[DRAFT, VERIFY, *(ops or [])],
        launches=launches,
        ranges=RANGES,
        threads=(0, 0, 1),
        **tables,
    )
    return Measured(trace).gaps_of(0)


@pytest.mark.parametrize(
    ("verify_call_ns", "cause"),
    [(39, "launch latency"), (40, "host late"), (90, "host late")],
)
def test_a_gap_is_the_hosts_when_the_call_began_after_the_device_went_idle(
    verify_call_ns: int, cause: str
) -> None:
    assert gaps(verify_call_ns=verify_call_ns) == {("verify", cause): 60}


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        ({"name": "cudaStreamSynchronize_v3020"}, "synchronisation"),
        ({"name": "cudaDeviceSynchronize"}, "synchronisation"),
        ({"name": "cuEventSynchronize"}, "synchronisation"),
        ({"name": "cudaStreamSynchronize_ptsz_v7000"}, "synchronisation"),
        ({"name": "cudaMemcpy_v3020"}, "synchronisation"),
        ({"name": "cuMemcpyDtoH_v2"}, "synchronisation"),
        ({"name": "cudaMemcpyAsync_v3020"}, "host late"),
        ({"name": "cudaStreamSynchronize", "thread": 1}, "host late"),
        ({"name": "cudaStreamSynchronize", "end_ns": 39}, "host late"),
        ({"name": "cudaStreamSynchronize", "end_ns": 40}, "synchronisation"),
        ({"name": "cudaStreamSynchronize", "start_ns": 41}, "host late"),
    ],
)
def test_a_late_call_was_held_up_when_its_thread_waited_as_the_device_went_idle(
    call: dict[str, Any], cause: str
) -> None:
    waiting = {"start_ns": 20, "end_ns": 80} | call
    assert gaps(verify_call_ns=90, calls=[waiting]) == {("verify", cause): 60}


@pytest.mark.parametrize(
    ("wait", "cause"),
    [
        ({}, "dependency"),
        ({"device_id": 0}, "dependency"),
        ({"device_id": 1}, "launch latency"),
        ({"stream_id": 13}, "launch latency"),
        ({"process": 1}, "launch latency"),
        ({"kind": "event"}, "launch latency"),
        ({"start_ns": 31}, "launch latency"),
        ({"start_ns": 5}, "launch latency"),
        ({"start_ns": 6}, "dependency"),
    ],
)
def test_a_stream_told_to_wait_between_its_two_launches_depends_on_another(
    wait: dict[str, Any], cause: str
) -> None:
    elsewhere = [
        {"start_ns": 500, "end_ns": 510, "device_id": 1},
        {"start_ns": 500, "end_ns": 510, "process": 1},
    ]
    record = {"start_ns": 20, "stream_id": 7} | wait
    assert gaps(syncs=[record], ops=elsewhere) == {("verify", cause): 60}


def test_an_op_that_was_not_collected_is_not_what_a_stream_ran_before() -> None:
    call = {"start_ns": 29, "end_ns": 29, "correlation_id": 3}
    lost = {"start_ns": 0, "end_ns": 0, "correlation_id": 3, "stream_id": 13}
    ended = {"start_ns": 100, "end_ns": 110, "correlation_id": 2, "stream_id": 13}
    trace = build(
        ops=[DRAFT, ended, lost],
        launches=[
            {"start_ns": 5, "end_ns": 6, "correlation_id": 1},
            {"start_ns": 30, "end_ns": 31, "correlation_id": 2},
            call,
        ],
        ranges=RANGES,
        syncs=[{"start_ns": 20, "stream_id": 13}],
    )
    assert Measured(trace).gaps_of(0) == {("verify", "dependency"): 60}


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_graph_waits_for_its_own_other_branch(shuffled: bool) -> None:
    branch = {"start_ns": 20, "end_ns": 40, "correlation_id": 2, "stream_id": 13}
    twin = {"start_ns": 30, "end_ns": 40, "correlation_id": 1, "stream_id": 14}
    more = [twin, branch] if shuffled else [branch, twin]
    assert gaps(verify_call_ns=15, ops=more) == {("verify", "dependency"): 60}


def test_the_next_node_of_one_stream_does_not_wait_for_another() -> None:
    before = {"start_ns": 40, "end_ns": 50, "correlation_id": 2}
    assert gaps(verify_call_ns=15, ops=[before]) == {("verify", "launch latency"): 50}


def test_without_a_launch_row_the_cause_is_unknown() -> None:
    orphan = {"start_ns": 90, "end_ns": 95, "correlation_id": 77}
    assert gaps(ops=[orphan]) == {
        ("unattributed", "unknown"): 50,
        ("verify", "launch latency"): 5,
    }


def test_a_gap_goes_to_the_lower_of_the_phases_that_start_together() -> None:
    call = {"start_ns": 7, "end_ns": 8, "correlation_id": 3}
    together = {"start_ns": 100, "end_ns": 130, "correlation_id": 3, "stream_id": 13}
    assert gaps(calls=[call], ops=[together]) == {("draft", "launch latency"): 60}


def test_an_op_of_zero_length_ends_no_gap_and_belongs_to_none() -> None:
    nothing = {"start_ns": 70, "end_ns": 70, "correlation_id": 1, "stream_id": 13}
    assert gaps(ops=[nothing]) == {("verify", "launch latency"): 60}


def test_nothing_runs_before_the_first_op_or_after_the_last() -> None:
    assert sum(gaps().values()) == 60
