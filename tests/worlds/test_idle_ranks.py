"""Data-parallel attention: a rank without requests runs along, and its cycles are nobody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, analyzed, is_off, same_buckets
from traceanalyzer.simulation.worlds import Load, Parallel, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

WORLD = World(WorldSettings(parallel=Parallel(data=2), load=Load(batch=2)))
CAPTURE = WORLD.record(Recorder(graph_trace="node"))


def idle_numbers() -> set[int]:
    return {
        number
        for number, step in CAPTURE.run.steps.items()
        if (own := step.of_rank.get(1)) is not None and own.idle
    }


def test_cycles_on_padding_are_counted_and_not_averaged(tmp_path: Path) -> None:
    assert len(idle_numbers()) > 5
    report = against_baseline(WORLD, tmp_path, Recorder(graph_trace="node"))
    same_buckets(report, CAPTURE.figures)
    assert {bucket.shape.batch for bucket in report.buckets} == {2}
    full, resting = report.ranks
    assert full.cycles.dropped.dummy == 0
    assert resting.cycles.dropped.dummy == len(idle_numbers())
    skews = {rank.rank: rank.idle_cycles for group in report.skew for rank in group.by_rank}
    assert skews == {0: 0, 1: len(idle_numbers())}
    assert report.verdict is not None
    assert len(report.verdict.buckets) == 1
    assert report.verdict.missing == []


def test_tokens_over_all_ranks_cycles_are_too_few() -> None:
    main = CAPTURE.figures.bucket("verify")
    cycles = sum(len(rank.cycles) for rank in CAPTURE.figures.ranks)
    naive = CAPTURE.figures.committed_tokens / cycles
    true = main.committed_tokens / main.cycles
    assert is_off(naive, true) > 0.05


def test_every_idle_flag_reaches_the_cycle_that_it_is_of() -> None:
    """A rank's mark says nothing of the other rank's cycle of the same number."""
    for rank in (0, 1):
        for number, step in CAPTURE.run.steps.items():
            own = step.of_rank.get(rank)
            if own is not None:
                assert own.idle == (rank == 1 and number in idle_numbers())


@pytest.mark.parametrize("data", [2, 4])
def test_ranks_with_requests_of_their_own_count_theirs(tmp_path: Path, data: int) -> None:
    world = World(WorldSettings(parallel=Parallel(data=data), load=Load(batch=1), cycles=40))
    capture = world.record()
    report = analyzed(capture, tmp_path)
    same_buckets(report, capture.figures)
    assert report.acceptance is not None
    assert report.acceptance.accept_len == pytest.approx(capture.figures.accept_len)
