"""Prompt tokens mixed into forwards of running requests: such a cycle is no verify, nor a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, analyzed, bucket_like, is_off, same_buckets
from traceanalyzer.simulation.worlds import Load, World, WorldSettings
from traceanalyzer.simulation.worlds.world import step_at
from traceanalyzer.verdict.baseline import told_baseline
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds import BucketFigures, Figures

CHUNK = 128
LOAD = Load(batch=4, chunk_tokens=CHUNK, prompt_tokens=(256, 256), output_tokens=(40, 80))
WORLD = World(WorldSettings(engine="sglang_v2", load=LOAD, cycles=120))


def mixed_step_at(plain: Figures, like: BucketFigures) -> float | None:
    for each in plain.buckets:
        told = (each.shape.kind, each.shape.batch, each.shape.prompt_tokens)
        if told == ("mixed", like.shape.batch, like.shape.prompt_tokens):
            return each.period_ns
    return None


def test_the_mean_of_all_cycles_is_not_that_of_a_verify(tmp_path: Path) -> None:
    main = WORLD.served.bucket("verify")
    cycles = [each for each in WORLD.served.buckets if each.shape.kind in ("verify", "mixed")]
    count = sum(each.cycles for each in cycles)
    naive = sum(each.cycles * each.period_ns for each in cycles) / count
    assert is_off(naive, main.period_ns) > 0.05
    report = against_baseline(WORLD, tmp_path)
    same_buckets(report, WORLD.served)
    assert is_off(bucket_like(report, main.shape).mean_period_ns.value, main.period_ns) < 1e-9


def test_a_chunk_is_charged_to_the_plain_server_once(tmp_path: Path) -> None:
    """Both servers have the prompt to run: a plain step without it is no measure of that cycle."""
    truth = WORLD.truth
    assert truth.plain is not None
    fair_ns = unfair_ns = wall_ns = 0.0
    for each in truth.speculating.buckets:
        step_ns = step_at(truth.plain, each.shape.batch)
        if step_ns is None:
            continue
        length = each.committed_tokens / each.live_request_cycles
        mixed = each.shape.kind == "mixed"
        first_ns = mixed_step_at(truth.plain, each) if mixed else step_ns
        if first_ns is None:
            continue
        wall_ns += each.cycles * each.period_ns
        fair_ns += each.cycles * (first_ns + (length - 1) * step_ns)
        unfair_ns += each.cycles * length * step_ns
    assert is_off(unfair_ns, fair_ns) > 0.08
    report = against_baseline(WORLD, tmp_path)
    assert report.verdict is not None
    mixed_load = report.verdict.mixed
    assert mixed_load is not None
    assert mixed_load.speedup is not None
    assert mixed_load.speedup.value == pytest.approx(fair_ns / wall_ns, rel=0.01)


def test_without_plain_steps_of_that_kind_too_little_is_matched(tmp_path: Path) -> None:
    assert WORLD.truth.plain is not None
    step_ms = WORLD.truth.plain.bucket("decode", batch=4).period_ns / 1e6
    known = Known(baseline=told_baseline([f"4={step_ms}"]))
    report = analyzed(WORLD.record(), tmp_path, known)
    assert report.verdict is not None
    assert report.verdict.mixed is not None
    assert report.verdict.mixed.speedup is None
