from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verdict.made import MS, decode_bucket, report, seed_bucket
from traceanalyzer.errors import InputError
from traceanalyzer.report import BucketShape
from traceanalyzer.verdict.baseline import Baseline, measured_baseline, told_baseline


def of(batch: int | None, graph: str = "CUDA graph") -> BucketShape:
    return BucketShape("verify", batch, batch, None, None, None, graph)


def test_steps_are_measured_by_batch_from_decode_cycles() -> None:
    baseline = measured_baseline(report(decode_bucket(11.1), decode_bucket(14.2, batch=8)))
    one, eight = baseline.at(of(1), only_shape=False), baseline.at(of(8), only_shape=False)
    assert one
    assert one.period_ns.value == 11.1 * MS
    assert eight
    assert eight.period_ns.value == 14.2 * MS
    assert "100 decode cycles of made.sqlite" in one.source
    assert baseline.at(of(2), only_shape=True) is None


def test_a_capture_that_speculates_is_no_baseline() -> None:
    with pytest.raises(InputError, match="this capture speculates") as caught:
        measured_baseline(report(decode_bucket(11.1), seed_bucket()))
    assert "speculation switched off" in str(caught.value.next_step)


def test_a_capture_without_decode_cycles_is_no_baseline() -> None:
    with pytest.raises(InputError, match="no complete decode cycle"):
        measured_baseline(report())


def test_a_step_of_unknown_batch_fits_where_only_one_batch_can_be_meant() -> None:
    baseline = measured_baseline(report(decode_bucket(11.1, batch=None)))
    assert baseline.at(of(4), only_shape=False) is None
    step = baseline.at(of(4), only_shape=True)
    assert step
    assert step.assumed
    assert "same batch" in step.assumed


def test_cycles_of_unknown_batch_take_the_only_step() -> None:
    baseline = told_baseline(["8=14.2"])
    assert baseline.at(of(None), only_shape=True) is not None
    assert told_baseline(["8=14.2", "1=11.1"]).at(of(None), only_shape=True) is None


def test_a_number_alone_never_stands_for_another_known_batch() -> None:
    assert told_baseline(["1=11.1"]).at(of(8), only_shape=True) is None


@pytest.mark.parametrize("text", ["", "fast", "0", "-3", "nan", "inf", "0=3", "x=3", "1.5=3", "8="])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(InputError, match="not a time of a decode step"):
        told_baseline([text])


def test_a_measured_step_replaces_a_told_one() -> None:
    both = told_baseline(["1=9"]).with_steps_of(measured_baseline(report(decode_bucket(11.1))))
    step = both.at(of(1), only_shape=True)
    assert step
    assert step.period_ns.value == 11.1 * MS
    assert Baseline().at(of(1), only_shape=True) is None


def test_of_two_paths_at_one_batch_the_one_launched_alike_is_taken() -> None:
    eager = replace(decode_bucket(19.0), cycles=118)
    eager = replace(eager, shape=replace(eager.shape, graph="no graph"))
    baseline = measured_baseline(report(eager, decode_bucket(11.1)))
    replayed, launched = (
        baseline.at(of(1, graph), only_shape=True) for graph in ("CUDA graph", "no graph")
    )
    assert replayed
    assert launched
    assert (replayed.period_ns.value, launched.period_ns.value) == (11.1 * MS, 19.0 * MS)
    assert "118 launched differently left out" in replayed.source
