"""TensorRT-LLM's one-model drafter: one graph of all phases is no verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worlds.answers import against_baseline, bucket_like, is_off, same_buckets, windows_of
from traceanalyzer.simulation.worlds import Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

WORLD = World(WorldSettings(engine="tensorrt_llm"))
SPLIT = World(WorldSettings(engine="sglang_v2"))


def test_what_cannot_be_split_is_not_given_to_its_first_member(tmp_path: Path) -> None:
    capture = WORLD.record(Recorder(graph_trace="node"))
    main = capture.figures.bucket("verify")
    (fused,) = main.windows_ns
    true_verify_ns = SPLIT.served.bucket("verify").window_ns("verify", "sample")
    assert is_off(main.windows_ns[fused], true_verify_ns) > 0.5
    report = against_baseline(WORLD, tmp_path, Recorder(graph_trace="node"))
    same_buckets(report, capture.figures)
    assert set(windows_of(bucket_like(report, main.shape))) == {fused}
    assert report.verdict is not None
    (verdict,) = report.verdict.buckets
    assert verdict.target_ns is None
    assert verdict.target_to_decode is None
    assert verdict.speedup is not None
    assert WORLD.truth.speedup is not None
    assert is_off(verdict.speedup.value, WORLD.truth.speedup) < 1e-6
