"""N-gram drafting: no draft kernels, and yet a window that the GPU stands still for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, bucket_like, is_off, same_buckets, windows_of
from traceanalyzer.simulation.worlds import Load, Speculation, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds.settings import EngineName

SPECULATION = Speculation(method="ngram", ngram_us=80.0)


@pytest.mark.parametrize("engine", ["sglang_v1", "vllm"])
def test_drafts_without_kernels_are_not_free(tmp_path: Path, engine: EngineName) -> None:
    world = World(WorldSettings(engine=engine, speculation=SPECULATION, load=Load(batch=4)))
    truth = world.truth
    main = truth.speculating.bucket("verify")
    kernels_ns = sum(
        op.end_ns - op.start_ns
        for op in world.record().recording.ops
        if op.phase == "draft" and op.kind != "memcpy"
    )
    assert kernels_ns == 0, "by its kernels drafting costs nothing"
    without = World(world.settings.without_speculation())
    assert main.period_ns > without.served.bucket("decode").period_ns
    report = against_baseline(world, tmp_path)
    same_buckets(report, truth.speculating)
    bucket = bucket_like(report, main.shape)
    idle_ns = sum(phase.gap_ns_per_cycle for phase in bucket.phases)
    assert idle_ns > 0.2 * main.period_ns
    if engine == "sglang_v1":
        assert windows_of(bucket)["draft"] == pytest.approx(main.windows_ns["draft"])
        drafting = {each.name: each.share_of_period for each in bucket.rollups}["drafting"]
        assert drafting == pytest.approx(main.windows_ns["draft"] / main.period_ns)
        assert report.verdict is not None
        (verdict,) = report.verdict.buckets
        assert verdict.speedup is not None
        assert verdict.free_drafting_speedup is not None
        assert is_off(verdict.free_drafting_speedup, verdict.speedup.value) > 0.2
