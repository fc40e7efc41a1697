"""Recording costs the host time: a GPU that waits for it waits longer than it will unrecorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline
from traceanalyzer.simulation.worlds import Host, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Estimated, Report

RECORDER = Recorder(call_us=0.8, range_us=0.3)
STEADY = Host(jitter_share=0.0)
WAITING = World(WorldSettings(engine="sglang_v1", host=STEADY))
AHEAD = World(WorldSettings(engine="tensorrt_llm", host=STEADY))


def report_of(world: World, folder: Path) -> Report:
    return against_baseline(world, folder, RECORDER)


def holds(found: Estimated | None, truth: float | None) -> bool:
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert truth is not None
    return found.low <= truth <= found.high


def test_intervals_reach_down_to_the_server_that_nobody_records(tmp_path: Path) -> None:
    report, truth = report_of(WAITING, tmp_path), WAITING.truth
    assert truth.plain is not None
    bucket = report.buckets[0]
    period_ns = WAITING.served.bucket("verify").period_ns
    assert not holds(bucket.mean_period_ns, period_ns), "what was measured is another server's"
    assert report.verdict is not None
    (verdict,) = report.verdict.buckets
    assert holds(verdict.baseline_ns, truth.plain.bucket("decode").period_ns)
    assert holds(verdict.break_even_accept_len, truth.break_even_accept_len)
    assert holds(verdict.tokens_per_s, WAITING.served.bucket("verify").tokens_per_s)


def test_the_reader_is_told(tmp_path: Path) -> None:
    report = report_of(WAITING, tmp_path)
    assert report.verdict is not None
    (told,) = [text for text in report.verdict.caveats if "kept it waiting" in text]
    assert 0 < report.buckets[0].recorder_ns_per_cycle < 40_000
    assert "intervals of cycles and steps reach down by it" in told


def test_a_host_that_runs_ahead_costs_next_to_nothing(tmp_path: Path) -> None:
    report = report_of(AHEAD, tmp_path)
    bucket = report.buckets[0]
    assert bucket.recorder_ns_per_cycle < 0.005 * bucket.period_ns.mean
    assert bucket.mean_period_ns.value == pytest.approx(
        AHEAD.served.bucket("verify").period_ns, rel=1e-3
    )
