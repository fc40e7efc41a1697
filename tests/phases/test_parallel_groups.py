from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from nvtx_hooks.vocabulary import pack_ranks
from tests.strategies import build, examples, frame
from traceanalyzer.phases.parallel_groups import ParallelGroup, parallel_groups
from traceanalyzer.phases.ranks import find_ranks

if TYPE_CHECKING:
    from collections.abc import Mapping

Ranks = tuple[int, int, int, int, int, int]
"""tp rank and size, dp rank and size, pp rank and size."""


def groups(lanes: int, told: Mapping[int, Ranks], devices: int = 1) -> list[ParallelGroup]:
    trace = build(
        ops=[
            {"process": lane, "device_id": device, "start_ns": 1, "end_ns": 2}
            for lane in range(lanes)
            for device in range(devices)
        ],
        threads=tuple(range(lanes)),
    )
    names = trace.names.height
    texts = frame("names", [{"name": names, "text": "eagle"}, {"name": names + 1, "text": "ranks"}])
    marks = [
        {"time_ns": 1, "thread": lane, "domain": names, "name": names + 1}
        | {"payload": pack_ranks(*ranks)}
        for lane, ranks in told.items()
    ]
    trace = replace(trace, marks=frame("marks", marks), names=trace.names.vstack(texts))
    return parallel_groups(trace, find_ranks(trace))


def test_without_marks_every_device_is_of_one_group() -> None:
    assert groups(3, {}) == [ParallelGroup((0, 1, 2), 3, told=False, complete=True)]


def test_marks_tell_which_ranks_are_missing() -> None:
    told = {0: (0, 4, 0, 1, 0, 1), 1: (2, 4, 0, 1, 0, 1)}
    assert groups(2, told) == [ParallelGroup((0, 1), 4, told=True, complete=False)]


def test_one_process_may_speak_for_its_group() -> None:
    told = {0: (0, 2, 0, 1, 0, 1)}
    assert groups(2, told) == [ParallelGroup((0, 1), 2, told=True, complete=True)]
    assert groups(3, told) == [ParallelGroup((0, 1, 2), 2, told=True, complete=False)]


def test_a_lone_speaker_with_other_groups_beside_it_tells_nothing() -> None:
    assert not groups(2, {0: (0, 2, 0, 2, 0, 1)})[0].told


def test_a_size_that_is_not_known_tells_nothing() -> None:
    assert not groups(2, {0: (0, 0, 0, 0, 0, 0), 1: (1, 0, 0, 0, 0, 0)})[0].told


def test_a_process_with_several_devices_cannot_say_which_is_which() -> None:
    told = {0: (0, 2, 0, 1, 0, 1)}
    assert groups(1, told, devices=2) == [ParallelGroup((0, 1), 2, told=True, complete=True)]


def test_two_servers_in_one_trace_are_no_complete_group() -> None:
    told = dict.fromkeys(range(2), (0, 2, 0, 1, 0, 1))
    assert groups(2, told) == [ParallelGroup((0, 1), 2, told=True, complete=False)]


@examples(0.1)
@given(tp=st.integers(1, 3), dp=st.integers(1, 3), pp=st.integers(1, 2), seed=st.randoms())
def test_data_and_pipeline_parallel_ranks_are_groups_of_their_own(tp, dp, pp, seed) -> None:
    everyone = [(t, tp, d, dp, p, pp) for t in range(tp) for d in range(dp) for p in range(pp)]
    seed.shuffle(everyone)
    found = groups(len(everyone), dict(enumerate(everyone)))
    assert len(found) == dp * pp
    assert sorted(lane for group in found for lane in group.lanes) == list(range(len(everyone)))
    for group in found:
        assert group.complete
        assert group.dp_size == dp
        assert {everyone[lane][2] for lane in group.lanes} == {group.dp_rank or 0}
        assert len({everyone[lane][2::2] for lane in group.lanes}) == 1
