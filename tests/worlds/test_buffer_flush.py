"""A recorder that stops the host to write its buffers: cycles look longer than they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import analyzed, bucket_like, complaints, is_off
from traceanalyzer.simulation.worlds import Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

WORLD = World(WorldSettings(engine="sglang_v1"))
MOST_UNTOLD = 0.05


@pytest.mark.parametrize("every_us", [8_000.0, 25_000.0, 60_000.0])
def test_what_flushes_add_is_told_or_small(tmp_path: Path, every_us: float) -> None:
    main = WORLD.served.bucket("verify")
    capture = WORLD.record(Recorder(flush_every_us=every_us, flush_us=2_500))
    report = analyzed(capture, tmp_path)
    mean_ns = bucket_like(report, main.shape).mean_period_ns.value
    told = [check for check in report.trust if check.check == "profiler overhead"]
    if is_off(mean_ns, main.period_ns) > MOST_UNTOLD:
        assert told, complaints(report)
        assert all("untraced" in check.text for check in told)


def test_a_mean_over_flushed_cycles_is_wrong(tmp_path: Path) -> None:
    main = WORLD.served.bucket("verify")
    capture = WORLD.record(Recorder(flush_every_us=8_000, flush_us=2_500))
    starts = sorted(
        row.start_ns for row in capture.recording.ranges if row.name == "verify" and row.end_ns
    )
    naive = (starts[-1] - starts[0]) / (len(starts) - 1)
    assert is_off(naive, main.period_ns) > 0.1
    report = analyzed(capture, tmp_path)
    assert any(text.startswith("profiler_overhead:") for text in complaints(report))
    assert is_off(bucket_like(report, main.shape).period_ns.p50, main.period_ns) < 0.01
