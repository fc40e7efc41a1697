"""Timers that wait for the device around each phase: what they measure is not what was served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, is_off
from traceanalyzer.simulation.worlds import Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds.settings import EngineName

TIMED = Recorder(synchronise=True)


@pytest.mark.parametrize("engine", ["sglang_v2", "vllm", "tensorrt_llm"])
def test_timed_phases_add_up_to_another_cycle(tmp_path: Path, engine: EngineName) -> None:
    world = World(WorldSettings(engine=engine))
    main = world.served.bucket("verify")
    capture = world.record(TIMED)
    timed = [
        row.end_ns - row.start_ns
        for row in capture.recording.ranges
        if row.end_ns
        and (
            row.name in ("draft", "verify", "draft_extend") or row.name.startswith("fused(draft, v")
        )
    ]
    naive = sum(timed) / len(capture.figures.ranks[0].cycles)
    traced_ns = capture.figures.bucket("verify").period_ns
    assert max(is_off(naive, main.period_ns), is_off(traced_ns, main.period_ns)) > 0.05
    report = against_baseline(world, tmp_path, TIMED)
    assert report.verdict is not None
    assert report.verdict.outcome == "withheld"
    assert any("synchron" in text for text in report.verdict.withheld_because)


def test_how_much_shorter_it_is_without_them_is_told(tmp_path: Path) -> None:
    world = World(WorldSettings(engine="sglang_v2"))
    report = against_baseline(world, tmp_path, TIMED)
    assert report.instrumentation is not None
    traced_ns = world.record(TIMED).figures.bucket("verify").period_ns
    wanted = 1 - world.served.bucket("verify").period_ns / traced_ns
    assert report.instrumentation.host_gap_share == pytest.approx(wanted, abs=0.03)
