from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from tests.measured import Measured, none_if_negative
from tests.reference import Reference
from tests.strategies import MEANINGS, build, examples, traces

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

Rows = list[dict[str, Any]]


@examples(0.4)
@given(traces())
def test_cycles_agree_with_the_reference(trace: Trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    assert measured.cycles() == [
        (cycle.lane, cycle.start_ns, cycle.end_ns, cycle.forward, cycle.state)
        for cycle in reference.cycles
    ]
    assert none_if_negative(measured.phased.cycle) == reference.cycle


class Loop:
    """A decode loop of 100 ns a cycle: a verify range with one kernel, a draft with another."""

    def __init__(self, cycles: int) -> None:
        self.ranges: Rows = []
        self.launches: Rows = []
        self.ops: Rows = []
        for cycle in range(cycles):
            self.add("verify", 100 * cycle)
            self.add("draft", 100 * cycle + 50)

    def add(self, name: str, at: int) -> None:
        """A range of 30 ns at `at` whose kernel runs for 20 ns from 10 ns on."""
        number = len(self.launches) + 1
        self.ranges.append({"name": name, "start_ns": at, "end_ns": at + 30})
        self.launches.append({"start_ns": at + 1, "end_ns": at + 3, "correlation_id": number})
        self.ops.append({"start_ns": at + 10, "end_ns": at + 30, "correlation_id": number})

    def states(self) -> list[tuple[int, int, str]]:
        """Start, end and state of each cycle."""
        trace = build(ops=self.ops, launches=self.launches, ranges=self.ranges)
        return [(start, end, state) for _, start, end, _, state in Measured(trace).cycles()]


def test_cycles_reach_from_first_op_to_first_op_and_the_last_is_an_edge() -> None:
    assert Loop(3).states() == [
        (10, 110, "kept"),
        (110, 210, "kept"),
        (210, 280, "edge"),
    ]


def test_metadata_copies_do_not_begin_a_cycle() -> None:
    loop = Loop(2)
    for kind, at in (("memcpy", 102), ("memset", 103)):
        loop.launches.append({"start_ns": 101, "end_ns": 102, "correlation_id": at})
        loop.ops.append({"start_ns": at, "end_ns": at + 2, "kind": kind, "correlation_id": at})
    assert [start for start, _, _ in loop.states()] == [10, 110]


def test_a_target_range_inside_another_is_no_second_forward() -> None:
    loop = Loop(2)
    loop.ranges.append({"name": "decode", "start_ns": 0, "end_ns": 15})
    loop.add("verify", 16)
    loop.ranges[0]["end_ns"] = loop.ranges[-1]["end_ns"]
    assert [start for start, _, _ in loop.states()] == [10, 110]


def test_the_first_op_of_a_forward_may_be_launched_in_a_target_range_inside_it() -> None:
    loop = Loop(2)
    loop.ranges.append({"name": "decode", "start_ns": 0, "end_ns": 5})
    assert [start for start, _, _ in loop.states()] == [10, 110]


def test_sampling_inside_a_forward_does_not_begin_its_cycle() -> None:
    loop = Loop(2)
    loop.add("sample", 97)
    loop.ranges[-1]["end_ns"] = 100
    loop.ranges[2] |= {"start_ns": 95, "end_ns": 135}
    assert [start for start, _, _ in loop.states()] == [10, 110]


@pytest.mark.parametrize(
    ("flag", "state"), [("warm-up", "warm_up"), ("capture", "warm_up"), ("dummy", "dummy")]
)
def test_flagged_cycles_are_not_kept(flag: str, state: str) -> None:
    loop = Loop(3)
    loop.ranges.append({"name": flag, "start_ns": 0, "end_ns": 99})
    assert [state for _, _, state in loop.states()] == [state, "kept", "edge"]


@pytest.mark.parametrize("prompt", ["prefill", "draft_prefill"])
def test_a_prefill_interrupts_the_cycle_it_falls_in(prompt: str) -> None:
    loop = Loop(3)
    loop.add(prompt, 180)
    assert [state for _, _, state in loop.states()] == ["kept", "interrupted", "edge"]


def test_a_mixed_forward_is_a_cycle_of_its_own() -> None:
    loop = Loop(3)
    loop.ranges[2]["name"] = "mixed"
    assert [state for _, _, state in loop.states()] == ["kept", "kept", "edge"]


def test_a_cycle_that_lacks_a_launch_row_is_an_edge() -> None:
    loop = Loop(3)
    del loop.launches[1]
    assert [state for _, _, state in loop.states()] == ["edge", "kept", "edge"]


def test_a_cycle_whose_range_never_closed_is_an_edge() -> None:
    loop = Loop(3)
    loop.ranges[2] |= {"closed": False}
    assert [state for _, _, state in loop.states()] == ["kept", "edge", "edge"]


def test_a_cycle_with_an_inner_range_that_never_closed_is_an_edge() -> None:
    loop = Loop(3)
    loop.ranges[1] |= {"closed": False}
    assert [state for _, _, state in loop.states()] == ["edge", "kept", "edge"]


def test_a_cycle_in_which_a_launched_op_is_missing_is_an_edge() -> None:
    loop = Loop(3)
    loop.launches.append({"start_ns": 56, "end_ns": 57, "correlation_id": 99})
    assert [state for _, _, state in loop.states()] == ["edge", "kept", "edge"]


def test_a_lost_op_spoils_every_cycle_that_its_range_worked_in() -> None:
    loop = Loop(3)
    loop.launches += [
        {"start_ns": 56, "end_ns": 57, "correlation_id": 98},
        {"start_ns": 58, "end_ns": 59, "correlation_id": 99},
    ]
    loop.ops.append({"start_ns": 140, "end_ns": 145, "correlation_id": 98})
    assert [state for _, _, state in loop.states()] == ["edge", "edge", "edge"]
    loop.ops.insert(0, loop.ops.pop())
    assert [state for _, _, state in loop.states()] == ["edge", "edge", "edge"]


def test_two_cycles_that_look_like_one_because_a_forward_lost_its_op_are_not_kept() -> None:
    loop = Loop(4)
    del loop.ops[2]
    assert loop.states() == [(10, 210, "edge"), (210, 310, "kept"), (310, 380, "edge")]


def test_a_second_launch_row_of_one_id_is_no_lost_op() -> None:
    loop = Loop(3)
    loop.launches.append(loop.launches[0] | {"start_ns": 2})
    assert [state for _, _, state in loop.states()] == ["kept", "kept", "edge"]


def test_ops_that_were_not_collected_are_in_no_cycle() -> None:
    loop = Loop(3)
    loop.add("prefill", -200)
    loop.ops[-1] |= {"start_ns": 0, "end_ns": 0}
    loop.ops[0] |= {"start_ns": -5}
    assert [state for _, _, state in loop.states()] == ["kept", "kept", "edge"]


def test_two_devices_of_one_thread_have_cycles_of_their_own() -> None:
    loop = Loop(3)
    other = [op | {"device_id": 1, "start_ns": op["start_ns"] + 5} for op in loop.ops]
    trace = build(ops=loop.ops + other, launches=loop.launches, ranges=loop.ranges)
    cycles = Measured(trace).cycles()
    assert [(lane, start) for lane, start, *_ in cycles] == [
        (0, 10),
        (0, 110),
        (0, 210),
        (1, 15),
        (1, 115),
        (1, 215),
    ]
