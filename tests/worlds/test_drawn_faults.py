"""Drawn worlds in which the blind trial found the tool wrong, each with what it was wrong in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, analyzed, bucket_like
from traceanalyzer.importers.acceptance.log import read_acceptance
from traceanalyzer.simulation.worlds import draw_world, log_of
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Report
    from traceanalyzer.simulation.worlds import DrawnWorld


def judged_with_log(world: DrawnWorld, folder: Path) -> Report:
    """The report with a baseline and the log of the untraced server."""
    log = folder / "server.log"
    log.write_text(log_of(world.record().run, world.settings.engine))
    plain = analyzed(world.plain.record(world.recorders.graph), folder)
    known = Known(baseline=measured_baseline(plain), readings=(read_acceptance(log),))
    return analyzed(world.record(world.recorders.graph), folder, known)


def test_long_cycles_are_not_stretched_by_flushes(tmp_path: Path) -> None:
    """One in three cycles was; draft extend was off by 17 % of itself outside its interval."""
    world = draw_world(6)
    main = world.served.bucket("verify")
    assert world.recorders.graph.flush_every_us
    bucket = bucket_like(analyzed(world.record(world.recorders.graph), tmp_path), main.shape)
    period = bucket.mean_period_ns
    assert period.low is not None
    assert period.high is not None
    assert period.low <= main.period_ns <= period.high


def test_all_cycles_together_have_an_interval_though_one_bucket_has_none(tmp_path: Path) -> None:
    world = draw_world(12)
    report = against_baseline(world, tmp_path, world.recorders.graph)
    assert report.verdict is not None
    assert any(bucket.mean_period_ns.low is None for bucket in report.buckets)
    assert report.verdict.mixed is not None
    speedup = report.verdict.mixed.speedup
    assert speedup is not None
    assert speedup.low is not None
    assert speedup.low < speedup.value


@pytest.mark.parametrize("seed", [217, 380])
def test_a_log_of_several_draft_lengths_is_no_contradiction(tmp_path: Path, seed: int) -> None:
    world = draw_world(seed)
    assert len(world.settings.speculation.draft_tokens) > 1
    report = judged_with_log(world, tmp_path)
    assert [each.text for each in report.trust if each.status == "failed"] == []
    assert report.verdict is not None
    assert report.verdict.outcome != "withheld"


@pytest.mark.parametrize("seed", [5, 58])
def test_a_verdict_that_cannot_be_given_says_what_would_give_it(tmp_path: Path, seed: int) -> None:
    world = draw_world(seed)
    assert world.settings.load.chunk_tokens
    report = against_baseline(world, tmp_path, world.recorders.graph)
    assert report.verdict is not None
    assert report.verdict.outcome == "unknown"
    assert report.verdict.missing
    assert all("record" in text for text in report.verdict.missing)
