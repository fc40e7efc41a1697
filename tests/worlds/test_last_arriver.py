"""A collective spins until its last rank arrives: its length is not what the transfer costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import analyzed, is_off
from traceanalyzer.simulation.worlds import Parallel, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

PARALLEL = Parallel(tensor=2, slow_rank_share=0.08, late_launch_us=20)
WORLD = World(WorldSettings(engine="sglang_v2", parallel=PARALLEL))
CAPTURE = WORLD.record(Recorder(graph_trace="node"))
PHASES = ("draft", "verify", "draft_extend")


def length_ns(process: int, phase: str) -> float:
    """Mean length of a phase's all-reduce on one rank: what a kernel table shows."""
    lengths = [
        op.end_ns - op.start_ns
        for op in CAPTURE.recording.ops
        if op.process.process_id == process
        and op.phase == phase
        and op.kernel
        and "AllReduce" in op.kernel.demangled
    ]
    return sum(lengths) / len(lengths)


@pytest.mark.parametrize("phase", PHASES)
def test_the_length_of_a_collective_is_mostly_waiting(tmp_path: Path, phase: str) -> None:
    first, last = (process.process_id for process in CAPTURE.recording.processes)
    transfer_ns = length_ns(last, phase)  # whoever comes last waits for nobody
    assert is_off(length_ns(first, phase), transfer_ns) > 0.15
    (group,) = analyzed(CAPTURE, tmp_path).skew
    told = {(row.rank, row.phase): row for row in group.waits}
    for rank in (0, 1):
        wanted = CAPTURE.figures.collective_wait_ns[rank, phase]
        assert told[rank, phase].wait_ns_per_cycle == pytest.approx(wanted, abs=1.0)
    early = told[0, phase]
    assert early.transfer_ns_per_cycle is not None
    each_ns = early.transfer_ns_per_cycle / early.collectives_per_cycle
    assert is_off(each_ns, transfer_ns) < 0.01
    assert group.late_rank == 1


def test_what_lateness_costs_is_what_a_server_without_it_saves(tmp_path: Path) -> None:
    even = World(WorldSettings(engine="sglang_v2", parallel=Parallel(tensor=2)))
    saved_ns = WORLD.served.bucket("verify").period_ns - even.served.bucket("verify").period_ns
    (group,) = analyzed(CAPTURE, tmp_path).skew
    assert group.cost_ns_per_cycle is not None
    assert group.cost_ns_per_cycle == pytest.approx(saved_ns, rel=0.2)
