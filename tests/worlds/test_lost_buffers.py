"""Buffers of kernel records that never arrived: what is left of a cycle is no short cycle."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import analyzed, complaints, is_off
from traceanalyzer.simulation.worlds import Load, Parallel, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds.settings import GraphTrace

WORLD = World(WorldSettings(engine="sglang_v2"))
STAGES = World(WorldSettings(parallel=Parallel(pipeline=2), load=Load(batch=2)))


@pytest.mark.parametrize("graph_trace", ["graph", "node"])
def test_kept_cycles_are_whole_and_the_loss_is_told(
    tmp_path: Path, graph_trace: GraphTrace
) -> None:
    capture = WORLD.record(Recorder(graph_trace=graph_trace, lost_buffers=4))
    report = analyzed(capture, tmp_path)
    assert any(text.startswith("buffers_lost:") for text in complaints(report))
    true_ns = {
        cycle.number: cycle.end_ns - cycle.start_ns
        for cycle in capture.figures.ranks[0].cycles
        if cycle.end_ns is not None
    }
    assert report.cycle_rows
    # A copy before the forward may be among what is lost; its absence changes no border.
    for row in report.cycle_rows:
        assert row.number is not None
        assert is_off(row.period_ns, true_ns[row.number]) < 1e-9, row.number


def test_kernel_time_over_counted_cycles_is_wrong() -> None:
    whole = WORLD.record(Recorder(graph_trace="node"))
    lossy = WORLD.record(Recorder(graph_trace="node", lost_buffers=4))

    def busy_per_range(ops_of: list[tuple[int, int]], ranges: int) -> float:
        return sum(end - start for start, end in ops_of) / ranges

    ranges = sum(row.name == "verify" for row in lossy.recording.ranges)
    true = busy_per_range([(op.start_ns, op.end_ns) for op in whole.recording.ops], ranges)
    naive = busy_per_range([(op.start_ns, op.end_ns) for op in lossy.recording.ops], ranges)
    assert is_off(naive, true) > 0.05


def test_a_stage_that_lost_little_does_not_speak_for_the_others(tmp_path: Path) -> None:
    """Only the last stage drafts: with half of the first one's cycles gone, a mean leans to it."""
    capture = STAGES.record(Recorder(lost_buffers=24))
    report = analyzed(capture, tmp_path)
    true_ns = STAGES.served.bucket("verify").windows_ns["draft"]
    draft = report.cycle_phases.index("draft")
    naive = mean(row.windows_ns[draft] for row in report.cycle_rows)
    assert is_off(naive, true_ns) > 0.1
    (found,) = [each for each in report.buckets[0].phases if each.phase == "draft"]
    assert is_off(found.window_ns.value, true_ns) < 0.01
