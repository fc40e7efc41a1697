"""A recording that begins and ends in the middle of a run: what is cut is no short cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nvtx_hooks import vocabulary
from tests.worlds.answers import analyzed, bucket_like, is_off
from traceanalyzer.simulation.worlds import Load, Parallel, Recorder, World, WorldSettings
from traceanalyzer.simulation.worlds.engines import WORKER_AHEAD

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds import Capture
    from traceanalyzer.simulation.worlds.settings import EngineName

LOAD = Load(batch=2, output_tokens=(200, 300))


def world(engine: EngineName, tensor: int = 1) -> World:
    return World(WorldSettings(engine=engine, load=LOAD, parallel=Parallel(tensor=tensor)))


def window_of(served: World, cycles: int) -> tuple[float, float]:
    """From halfway through one cycle to a third of the way through a later one, us."""
    borders = [cycle.start_ns for cycle in served.served.ranks[0].cycles]
    begin, end = 20, 20 + cycles
    first = (borders[begin] + borders[begin + 1]) / 2
    last = borders[end] + (borders[end + 1] - borders[end]) / 3
    return first / 1e3, last / 1e3


@pytest.mark.parametrize("engine", ["sglang_v1", "sglang_v2", "vllm", "tensorrt_llm"])
@pytest.mark.parametrize("tensor", [1, 2])
def test_cycles_that_are_whole_are_the_servers(
    tmp_path: Path, engine: EngineName, tensor: int
) -> None:
    served = world(engine, tensor)
    window_us = window_of(served, 12)
    capture = served.record(Recorder(window_us=window_us))
    capture.recording.check()
    report = analyzed(capture, tmp_path)
    true = {
        (place, cycle.number): cycle
        for place, rank in enumerate(capture.figures.ranks)
        for cycle in rank.cycles
    }
    ahead = WORKER_AHEAD if engine == "vllm" else 0  # rows have the scheduler's numbers
    numbers = [ahead + row.number for row in report.cycle_rows if row.number is not None]
    assert len(numbers) >= 8
    for row in report.cycle_rows:
        assert row.number is not None
        cycle = true[row.rank, ahead + row.number]
        assert cycle.end_ns is not None
        assert is_off(row.period_ns, cycle.end_ns - cycle.start_ns) < 1e-9
    main = capture.figures.bucket("verify")
    found = bucket_like(report, main.shape).acceptance
    assert found is not None
    told = [number for number in set(numbers) if number in numbers_told(capture, engine)]
    live = [each for number in told for each in capture.run.steps[number].outcomes]
    assert (found.cycles, found.request_cycles) == (len(told), len(live))
    assert found.committed_tokens == sum(each.committed for each in live)


def numbers_told(capture: Capture, engine: EngineName) -> set[int]:
    """The worker's steps whose accepted drafts are in the recording."""
    ahead = WORKER_AHEAD if engine == "vllm" else 0
    return {
        ahead + vocabulary.unpack(mark.name, mark.payload)["cycle"]
        for mark in capture.recording.marks
        if mark.name == "accept" and mark.payload is not None
    }


@pytest.mark.parametrize("engine", ["sglang_v1", "sglang_v2"])
def test_the_window_over_its_verifies_is_no_period(engine: EngineName) -> None:
    served = world(engine)
    first_us, last_us = window_of(served, 6)
    recording = served.record(Recorder(window_us=(first_us, last_us))).recording
    verifies = sum(row.name == "verify" for row in recording.ranges)
    naive = 1e3 * (last_us - first_us) / verifies
    assert is_off(naive, served.served.bucket("verify").period_ns) > 0.02
