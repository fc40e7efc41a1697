from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.measured import Measured, none_if_negative
from tests.reference import Reference
from tests.strategies import MEANINGS, build, examples, traces
from traceanalyzer.errors import InputError
from traceanalyzer.phases.attribution import METHODS

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

CALL = {"start_ns": 10, "end_ns": 20, "correlation_id": 1}
OP = {"start_ns": 30, "end_ns": 40, "correlation_id": 1}


def attributed(trace: Trace) -> tuple[list[int | None], list[int | None], list[str]]:
    """Launch, range and method of each op."""
    found = Measured(trace).phased.attribution
    methods = [METHODS[code] for code in found.method]
    return none_if_negative(found.launch), none_if_negative(found.span), methods


def range_of(trace: Trace) -> int | None:
    """The range of the first op."""
    return attributed(trace)[1][0]


@examples(0.4)
@given(traces())
def test_launch_range_and_method_of_every_op_agree_with_the_reference(trace: Trace) -> None:
    reference = Reference(trace, MEANINGS)
    assert attributed(trace) == (reference.launch, reference.span, reference.method)


@examples(0.2)
@given(traces())
def test_the_phase_of_every_op_agrees_with_the_reference(trace: Trace) -> None:
    assert Measured(trace).labels() == Reference(trace, MEANINGS).label


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "contained"),
    [
        pytest.param(10, 20, True, id="both ends touch"),
        pytest.param(9, 21, True, id="inside"),
        pytest.param(11, 25, False, id="opened during the call"),
        pytest.param(5, 19, False, id="closed during the call"),
        pytest.param(30, 40, False, id="open while the op ran"),
    ],
)
def test_a_range_has_to_contain_the_whole_call(start_ns: int, end_ns: int, contained: bool) -> None:
    verify = {"name": "verify", "start_ns": start_ns, "end_ns": end_ns}
    assert range_of(build(ops=[OP], launches=[CALL], ranges=[verify])) == (0 if contained else None)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        pytest.param((0, 50), (5, 60), id="latest start, crossing"),
        pytest.param((5, 60), (5, 50), id="earliest end"),
        pytest.param((5, 50), (5, 50), id="first row"),
    ],
)
def test_the_innermost_phase_range_wins(outer: tuple[int, int], inner: tuple[int, int]) -> None:
    ranges = [
        {"name": "sample", "start_ns": inner[0], "end_ns": inner[1]},
        {"name": "verify", "start_ns": outer[0], "end_ns": outer[1], "domain": "eagle"},
    ]
    assert range_of(build(ops=[OP], launches=[CALL], ranges=ranges)) == 0


def test_ranges_without_a_phase_do_not_hide_the_phase_around_them() -> None:
    ranges = [
        {"name": "known", "start_ns": 9, "end_ns": 21},
        {"name": "draft", "start_ns": 9, "end_ns": 21, "domain": "quiet"},
        {"name": "verify", "start_ns": 0, "end_ns": 50},
        {"name": "cycle", "start_ns": 5, "end_ns": 50},
    ]
    assert range_of(build(ops=[OP], launches=[CALL], ranges=ranges)) == 2


def test_ranges_of_other_threads_and_ranges_closed_by_them_contain_nothing() -> None:
    ranges = [
        {"name": "verify", "start_ns": 0, "end_ns": 50, "thread": 1},
        {"name": "draft", "start_ns": 0, "end_ns": 50, "end_thread": 1, "style": "start_end"},
        {"name": "sample", "start_ns": 0, "end_ns": 60, "style": "start_end"},
    ]
    trace = build(ops=[OP], launches=[CALL], ranges=ranges, threads=(0, 0))
    assert range_of(trace) == 2


def test_correlation_ids_belong_to_one_process() -> None:
    ops = [OP, OP | {"process": 1}, OP | {"process": 2}]
    launches = [CALL | {"thread": 1}, CALL]
    found, _, methods = attributed(build(ops=ops, launches=launches, threads=(0, 1, 2)))
    assert found == [1, 0, None]
    assert methods[2] == "no launch row"


def test_of_several_launches_with_one_id_the_first_row_holds() -> None:
    launches = [CALL | {"start_ns": 15}, CALL, CALL | {"start_ns": 12}]
    verify = {"name": "verify", "start_ns": 12, "end_ns": 50}
    found, spans, _ = attributed(build(ops=[OP], launches=launches, ranges=[verify]))
    assert (found, spans) == ([0], [0])


def test_a_missing_id_matches_no_missing_id() -> None:
    ops, launches = [OP | {"correlation_id": None}], [CALL | {"correlation_id": None}]
    assert attributed(build(ops=ops, launches=launches))[0] == [None]


@pytest.mark.parametrize(
    ("op", "name", "method"),
    [
        ({}, "cudaLaunchKernel_v7000", "launch in range"),
        ({}, "cudaMemcpyAsync_v3020", "launch in range"),
        ({"graph_node_id": 4}, "cudaGraphLaunch_v10000", "graph launch in range"),
        ({"graph_node_id": 4}, "unknown call", "graph launch in range"),
        ({}, "hipGraphLaunch", "graph launch in range"),
        ({}, "cuGraphLaunch_ptsz", "graph launch in range"),
        ({"kind": "graph", "graph_exec_id": 3}, "cudaGraphLaunch_v10000", "whole-graph row"),
    ],
)
def test_methods_say_how_an_op_was_launched(op: dict[str, int], name: str, method: str) -> None:
    verify = {"name": "verify", "start_ns": 0, "end_ns": 50}
    launches = [CALL | {"name": name}]
    trace = build(ops=[OP | op], launches=launches, ranges=[verify])
    assert attributed(trace)[2] == [method]
    outside = build(ops=[OP | op], launches=launches)
    assert attributed(outside)[2] == ["launched outside ranges"]


def test_a_zero_length_call_on_the_border_of_two_ranges_belongs_to_the_later() -> None:
    ranges = [
        {"name": "draft", "start_ns": 0, "end_ns": 10},
        {"name": "verify", "start_ns": 10, "end_ns": 30},
    ]
    call = CALL | {"end_ns": 10}
    assert range_of(build(ops=[OP], launches=[call], ranges=ranges)) == 1


def test_ids_too_large_to_tell_apart_are_an_input_error() -> None:
    trace = build(
        ops=[OP | {"correlation_id": 2**62}],
        launches=[CALL | {"correlation_id": 2**62}],
        threads=(0, 1, 2, 3),
    )
    with pytest.raises(InputError, match="correlation ids"):
        attributed(trace)
