"""Pipeline stages: micro-batches take turns, so a period of a stage is not that of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, is_off, same_buckets
from traceanalyzer.simulation.worlds import Load, Parallel, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Report

STAGES = 2
WORLD = World(WorldSettings(parallel=Parallel(pipeline=STAGES), load=Load(batch=2)))
NODES = Recorder(graph_trace="node")


def report_of(folder: Path) -> Report:
    return against_baseline(WORLD, folder, NODES)


def test_all_tokens_over_the_wall_are_what_the_report_says(tmp_path: Path) -> None:
    capture = WORLD.record(NODES)
    report = report_of(tmp_path)
    same_buckets(report, capture.figures)
    assert report.verdict is not None
    (verdict,) = report.verdict.buckets
    assert verdict.tokens_per_s is not None
    ops = capture.recording.ops
    wall_ns = max(op.end_ns for op in ops) - min(op.start_ns for op in ops)
    assert is_off(verdict.tokens_per_s.value, 1e9 * capture.figures.committed_tokens / wall_ns) < (
        0.05
    )


def test_a_request_waits_for_every_micro_batch() -> None:
    """What one request gets is a turn in so many, which one stage's period does not say."""
    capture = WORLD.record(NODES)
    main = capture.figures.bucket("verify")
    naive = main.accept_len / main.period_ns
    first = min(number for number, step in capture.run.steps.items() if step.outcomes)
    request = capture.run.steps[first].outcomes[0].request
    numbers = [
        number
        for number, step in capture.run.steps.items()
        if request in {each.request for each in step.outcomes}
    ]
    starts = {cycle.number: cycle.start_ns for cycle in capture.figures.ranks[0].cycles}
    times = [starts[number] for number in numbers]
    true = main.accept_len * (len(times) - 1) / (times[-1] - times[0])
    assert is_off(naive, true) > 0.5


def test_waiting_for_the_other_stage_is_not_called_work(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    reasons = {each.reason for group in report.skew for each in group.waiting_included}
    assert reasons == {"family"}
    assert all(not group.resolved for group in report.skew)


def test_the_verdict_is_that_of_the_untraced_server(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    assert report.verdict is not None
    (verdict,) = report.verdict.buckets
    assert verdict.speedup is not None
    assert verdict.speedup.value == pytest.approx(WORLD.truth.speedup, rel=1e-6)
