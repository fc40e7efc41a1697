"""Requests that come and go: batches differ, graphs are padded, and no single ratio is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, bucket_like, is_off, same_buckets
from traceanalyzer.simulation.worlds import Cost, Costs, Load, World, WorldSettings
from traceanalyzer.simulation.worlds.world import step_at

if TYPE_CHECKING:
    from pathlib import Path

COSTS = Costs(attention=Cost(12.0, 0.6, 6.0), up=Cost(30.0, 1.2), down=Cost(24.0, 1.0))
LOAD = Load(batch=16, arrivals_per_s=200, prompt_tokens=(16, 48), output_tokens=(20, 60))
WORLD = World(WorldSettings(engine="sglang_v2", costs=COSTS, load=LOAD, cycles=160))
ENOUGH = 5


def test_each_batch_is_compared_with_its_own_plain_step(tmp_path: Path) -> None:
    truth = WORLD.truth
    assert truth.plain is not None
    report = against_baseline(WORLD, tmp_path)
    same_buckets(report, WORLD.served)
    assert report.verdict is not None
    compared = 0
    for own in truth.speculating.buckets:
        step_ns = step_at(truth.plain, own.shape.batch)
        if own.shape.kind != "verify" or own.cycles < ENOUGH or step_ns is None:
            continue
        place = report.buckets.index(bucket_like(report, own.shape))
        (verdict,) = [each for each in report.verdict.buckets if each.bucket == place]
        assert verdict.speedup is not None
        wanted = own.accept_len * step_ns / own.period_ns
        assert verdict.speedup.value == pytest.approx(wanted, rel=1e-6), own.shape
        compared += 1
    assert compared > 1


def test_one_speed_up_over_mixed_batches_is_wrong(tmp_path: Path) -> None:
    truth = WORLD.truth
    assert truth.plain is not None
    verifies = [each for each in truth.speculating.buckets if each.shape.kind == "verify"]
    steps = [each for each in truth.plain.buckets if each.shape.kind == "decode"]
    tokens = sum(each.committed_tokens for each in verifies)
    wall_ns = sum(each.cycles * each.period_ns for each in verifies)
    plain_tokens = sum(each.committed_tokens for each in steps)
    plain_ns = sum(each.cycles * each.period_ns for each in steps)
    naive = (tokens / wall_ns) / (plain_tokens / plain_ns)
    matched = [
        (each, step_ns)
        for each in verifies
        if (step_ns := step_at(truth.plain, each.shape.batch)) is not None
    ]
    fair_ns = sum(
        each.committed_tokens * step_ns / (each.live_request_cycles / each.cycles)
        for each, step_ns in matched
    )
    wanted = fair_ns / sum(each.cycles * each.period_ns for each, _step_ns in matched)
    assert is_off(naive, wanted) > 0.08
    report = against_baseline(WORLD, tmp_path)
    assert report.verdict is not None
    mixed = report.verdict.mixed
    assert mixed is not None
    if mixed.speedup is None:
        assert mixed.matched_share < 0.8
    else:
        assert mixed.speedup.value == pytest.approx(wanted, rel=1e-6)


def test_tokens_are_those_of_requests_not_of_the_padded_graph() -> None:
    padded = [each for each in WORLD.served.buckets if each.shape.padded_batch > each.shape.batch]
    assert padded
    for each in padded:
        naive = each.accept_len * each.shape.padded_batch / each.period_ns
        true = each.committed_tokens / each.cycles / each.period_ns
        assert is_off(naive, true) > 0.05
