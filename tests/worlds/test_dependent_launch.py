"""Kernels that start before their predecessor ends: lengths add up to more than the time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.worlds.answers import analyzed, is_off, same_buckets
from traceanalyzer.simulation.worlds import Costs, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

COSTS = Costs(dependent_launch_us=3.0)
WORLD = World(WorldSettings(engine="sglang_v2", costs=COSTS))
NODES = Recorder(graph_trace="node")


def test_lengths_of_overlapped_kernels_add_up_to_too_much(tmp_path: Path) -> None:
    capture = WORLD.record(NODES)
    report = analyzed(capture, tmp_path)
    same_buckets(report, capture.figures)
    true_ns = capture.figures.bucket("verify").window_ns("draft")
    drafts = {row.payload for row in capture.recording.ranges if row.name == "draft"}
    launches = {
        call.correlation_id
        for row in capture.recording.ranges
        if row.name == "draft"
        for call in capture.recording.calls
        if row.end_ns and row.start_ns <= call.start_ns and call.end_ns <= row.end_ns
    }
    summed = sum(
        op.end_ns - op.start_ns for op in capture.recording.ops if op.correlation_id in launches
    )
    assert is_off(summed / len(drafts), true_ns) > 0.05
    (draft,) = [phase for phase in report.buckets[0].phases if phase.phase == "draft"]
    busy_ns = sum(each.busy_ns_per_cycle for each in draft.classes)
    assert is_off(busy_ns + draft.gap_ns_per_cycle, true_ns) < 1e-6
    (total,) = [phase for phase in report.ranks[0].phases if phase.phase == "draft"]
    assert total.summed_ns > total.busy_ns, "the sum is told beside, not instead"


def test_an_early_start_costs_nothing(tmp_path: Path) -> None:
    plain = World(replace(WORLD.settings, costs=replace(COSTS, dependent_launch_us=0.0)))
    early, late = WORLD.served.bucket("verify"), plain.served.bucket("verify")
    assert early.period_ns < late.period_ns, "what it saves is the gap between kernels"
