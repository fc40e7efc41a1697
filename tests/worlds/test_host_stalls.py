"""A host that stalls now and then: the GPU's work is not the cycle, and the median is not it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worlds.answers import against_baseline, bucket_like, is_off, same_buckets
from traceanalyzer.simulation.worlds import Host, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

HOST = Host(stall_every=9, stall_us=3_000, jitter_share=0.4)
WORLD = World(WorldSettings(host=HOST))
NODES = Recorder(graph_trace="node")


def test_the_work_of_the_gpu_is_not_the_cycle(tmp_path: Path) -> None:
    capture = WORLD.record(NODES)
    main = capture.figures.bucket("verify")
    numbers = {number for number, step in capture.run.steps.items() if step.kind == "verify"}
    decoding = [op for op in capture.recording.ops if op.iteration in numbers]
    naive = sum(op.end_ns - op.start_ns for op in decoding) / len(numbers)
    assert is_off(naive, main.period_ns) > 0.2
    report = against_baseline(WORLD, tmp_path, NODES)
    same_buckets(report, capture.figures)
    bucket = bucket_like(report, main.shape)
    assert is_off(bucket.period_ns.p50, main.period_ns) > 0.2, "the median hides stalls"
    late = {
        phase.phase: gap.ns_per_cycle
        for phase in bucket.phases
        for gap in phase.gaps
        if gap.cause == "host late"
    }
    assert max(late, key=lambda phase: late[phase]) == "draft", "which follows the stall"


def test_a_plain_step_that_waits_for_its_host_is_a_baseline_all_the_same(tmp_path: Path) -> None:
    """Stalls lie in a plain step's only window, and in draft where something is drafted."""
    report = against_baseline(WORLD, tmp_path, NODES)
    truth = WORLD.truth
    assert report.verdict is not None
    assert report.verdict.withheld_because == []
    (verdict,) = report.verdict.buckets
    assert verdict.target_to_decode is not None
    assert verdict.target_to_decode < 1, "windows alone would call this impossible"
    assert verdict.speedup is not None
    assert truth.speedup is not None
    assert is_off(verdict.speedup.value, truth.speedup) < 1e-6
