"""Ranks that do other work have doubts of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import analyzed, bucket_like
from traceanalyzer.simulation.worlds import draw_world

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("seed", [28, 353])
def test_windows_of_one_stage_have_an_interval(tmp_path: Path, seed: int) -> None:
    """Only the last stage of a pipeline samples; the first one's zeros told a width of 0."""
    world = draw_world(seed)
    assert world.settings.parallel.pipeline > 1
    report = analyzed(world.record(world.recorders.graph), tmp_path)
    bucket = bucket_like(report, world.served.bucket("verify").shape)
    (sample,) = (each for each in bucket.phases if each.phase == "sample")
    assert sample.window_ns.low is not None
    assert sample.window_ns.high is not None
    assert sample.window_ns.high - sample.window_ns.low > 1e-3 * sample.window_ns.value
