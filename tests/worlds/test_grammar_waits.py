"""A mask of allowed tokens that comes late: sampling waits for the host, and draws no kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import analyzed, bucket_like, is_off, same_buckets, windows_of
from traceanalyzer.simulation.worlds import Host, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds.settings import EngineName


@pytest.mark.parametrize("engine", ["sglang_v1", "sglang_v2", "vllm"])
def test_the_wait_is_in_the_window_of_sampling(tmp_path: Path, engine: EngineName) -> None:
    world = World(WorldSettings(engine=engine, host=Host(grammar_us=1_200)))
    capture = world.record()
    main = capture.figures.bucket("verify")
    sampling = [
        op.end_ns - op.start_ns
        for op in capture.recording.ops
        if op.phase == "sample" and op.kind == "kernel"
    ]
    naive = sum(sampling) / len(capture.figures.ranks[0].cycles)
    assert is_off(naive, main.windows_ns["sample"]) > 0.5
    report = analyzed(capture, tmp_path)
    same_buckets(report, capture.figures)
    bucket = bucket_like(report, main.shape)
    (sample,) = [phase for phase in bucket.phases if phase.phase == "sample"]
    assert windows_of(bucket)["sample"] == pytest.approx(main.windows_ns["sample"])
    causes = {gap.cause: gap.ns_per_cycle for gap in sample.gaps}
    assert max(causes, key=lambda cause: causes[cause]) == "host late"
    assert sample.gap_ns_per_cycle > 0.8 * main.windows_ns["sample"]


def test_a_lead_that_the_wait_eats_is_seen(tmp_path: Path) -> None:
    """A step ahead hides host work; a host that waits inside of the step is ahead no more."""
    free = World(WorldSettings(engine="sglang_v2"))
    bound = World(WorldSettings(engine="sglang_v2", host=Host(grammar_us=1_200)))
    report = analyzed(bound.record(), tmp_path)
    leads = {phase.phase: phase.host_lead_ns for phase in report.ranks[0].phases}
    for phase in ("sample", "verify", "draft"):
        lead = leads[phase]
        assert lead is not None
        truth = bound.served.host_lead[0, phase]
        assert (lead.p5, lead.p50) == (truth.p5, truth.p50)
    assert bound.served.host_lead[0, "sample"].p50 < 0.05 * free.served.host_lead[0, "sample"].p50
