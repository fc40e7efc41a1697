"""Cycles in which the recorder wrote its buffers are in no mean: the rest tells of the server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, analyzed, bucket_like, is_off, windows_of
from traceanalyzer.simulation.worlds import Load, Parallel, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds.settings import EngineName

FLUSHED = Recorder(flush_every_us=25_000, flush_us=2_500)


def naive_period_ns(world: World, recorder: Recorder) -> float:
    """From verify's first launch to its last, over the cycles between."""
    rows = world.record(recorder).recording.ranges
    starts = sorted(row.start_ns for row in rows if row.name == "verify" and row.end_ns)
    return (starts[-1] - starts[0]) / (len(starts) - 1)


@pytest.mark.parametrize("engine", ["sglang_v1", "sglang_v2", "vllm"])
def test_means_are_those_of_the_server(tmp_path: Path, engine: EngineName) -> None:
    world = World(WorldSettings(engine=engine, parallel=Parallel(tensor=2), cycles=80))
    main = world.served.bucket("verify")
    report = analyzed(world.record(FLUSHED), tmp_path)
    bucket = bucket_like(report, main.shape)
    assert is_off(bucket.mean_period_ns.value, main.period_ns) < 0.01
    for phase, window_ns in main.windows_ns.items():
        assert abs(windows_of(bucket)[phase] - window_ns) < 0.01 * main.period_ns, phase
    assert sum(rank.cycles.dropped.interrupted for rank in report.ranks) >= len(report.ranks)
    stretched = bucket.cycles * bucket.mean_period_ns.value
    assert stretched < main.cycles * main.period_ns, "flushed cycles are left out"


def test_a_verdict_of_two_flushed_captures_is_that_of_the_servers(tmp_path: Path) -> None:
    """One in three cycles of the speculating server is stretched by far more than it loses."""
    world = World(WorldSettings(engine="sglang_v1", load=Load(batch=4), cycles=80))
    often = replace(FLUSHED, flush_every_us=8_000, flush_us=3_000)
    main, speedup = world.truth.speculating.bucket("verify"), world.truth.speedup
    assert speedup is not None
    report = against_baseline(world, tmp_path, often)
    assert report.verdict is not None
    found = report.verdict.buckets[0]
    assert found.break_even_accept_len is not None
    assert found.break_even_accept_len.value == pytest.approx(
        world.truth.break_even_accept_len, rel=0.01
    )
    assert is_off(naive_period_ns(world, often), main.period_ns) > 0.1
