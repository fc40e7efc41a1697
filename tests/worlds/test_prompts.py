"""Prompts in forwards of their own: their time is none of the decoding cycles'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, bucket_like, is_off, same_buckets
from traceanalyzer.simulation.worlds import Load, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

LOAD = Load(batch=4, prompt_tokens=(512, 1_024), output_tokens=(20, 40))
WORLD = World(WorldSettings(engine="sglang_v1", load=LOAD))


def test_tokens_over_the_wall_are_not_the_rate_of_decoding(tmp_path: Path) -> None:
    capture = WORLD.record()
    main = capture.figures.bucket("verify")
    ops = capture.recording.ops
    wall_ns = max(op.end_ns for op in ops) - min(op.start_ns for op in ops)
    naive = 1e9 * capture.figures.committed_tokens / wall_ns
    assert is_off(naive, main.tokens_per_s) > 0.1
    report = against_baseline(WORLD, tmp_path)
    same_buckets(report, capture.figures)
    (rank,) = report.ranks
    assert rank.cycles.dropped.interrupted > 0
    assert rank.cycles.prefill_stall_ns > 0
    assert report.verdict is not None
    (verdict,) = report.verdict.buckets
    assert verdict.tokens_per_s is not None
    assert verdict.tokens_per_s.value == pytest.approx(main.tokens_per_s, rel=1e-6)
    assert bucket_like(report, main.shape).cycles == main.cycles
