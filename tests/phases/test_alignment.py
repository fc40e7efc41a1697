"""A scheduler and its workers that number their steps apart, against the numbers by design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nvtx_hooks.vocabulary import pack_accept, pack_signature
from tests.strategies import RULES, build, examples
from traceanalyzer.phases.alignment import Alignment, align_steps, signed_steps, translated
from traceanalyzer.phases.spans import classify_ranges

if TYPE_CHECKING:
    from typing import Any

    from hypothesis.strategies import DrawFn


@dataclass(frozen=True)
class Run:
    """Steps of a scheduler (process 0) and a worker (process 1).

    Attributes:
        requests: Of each step: its signature.
        ahead: Steps the scheduler is ahead of the worker.
        own_first: Number of the worker's first recorded step; None when it carries the
            scheduler's.
        scheduler_from: First step in the recording on the scheduler's side.
        worker_from: The same on the worker's side.
    """

    requests: tuple[int, ...]
    ahead: int = 0
    own_first: int | None = None
    scheduler_from: int = 0
    worker_from: int = 0

    def worker_number(self, step: int) -> int:
        return 101 + step if self.own_first is None else self.own_first + step - self.worker_from

    def aligned(self, *, mangled: int = 0) -> Alignment:
        """Align the recorded steps; the first `mangled` worker steps show another signature."""
        ranges: list[dict[str, Any]] = []
        for step, requests in enumerate(self.requests):
            if step >= self.scheduler_from:
                ranges += self._step(0, 101 + step, 1000 * step, requests)
            if step >= self.worker_from:
                at = 1000 * (step + self.ahead) + 300
                seen = requests + 500 * (step < self.worker_from + mangled)
                ranges += self._step(1, self.worker_number(step), at, seen)
        accept = f"eagle:accept:{pack_accept(101, 1, 3, 1, 0)}"
        ranges.append({"start_ns": 5, "end_ns": 5, "style": "annotation", "name": accept})
        trace = build(ranges=ranges, threads=(0, 1))
        return align_steps(trace, signed_steps(trace, classify_ranges(trace, RULES)))

    def _step(self, thread: int, number: int, at: int, requests: int) -> list[dict[str, Any]]:
        signature = pack_signature(requests, 4 * requests, 3 * requests)
        around = {"name": "cycle", "domain": "eagle", "payload": number, "thread": thread}
        mark = {"name": f"eagle:signature:{signature}", "style": "annotation", "thread": thread}
        times = {"start_ns": at, "end_ns": at + 100}
        return [around | times, mark | {"start_ns": at + 50, "end_ns": at + 50}]

    def wanted(self) -> list[tuple[int, int]]:
        steps = range(max(self.scheduler_from, self.worker_from), len(self.requests))
        return [(self.worker_number(step), 101 + step) for step in steps]


def pairs(found: Alignment) -> list[tuple[int, int]]:
    return (
        found.numbers.filter(pl.col("speaker_number") > 0).select("number", "speaker_number").rows()
    )


@st.composite
def runs(draw: DrawFn) -> Run:
    requests = draw(st.lists(st.integers(1, 400), min_size=12, max_size=40, unique=True))
    return Run(
        tuple(requests),
        ahead=draw(st.integers(0, 2)),
        own_first=draw(st.integers(1, 300)),
        scheduler_from=draw(st.integers(0, 5)),
        worker_from=draw(st.integers(0, 5)),
    )


@given(runs())
@examples(0.3)
def test_a_worker_that_counts_for_itself_is_brought_to_the_schedulers_numbers(run: Run) -> None:
    found = run.aligned()
    if run.own_first == 101 + run.worker_from:  # it counts as the scheduler does, by chance
        return
    assert pairs(found) == run.wanted()
    assert not found.failed


@given(runs())
@examples(0.1)
def test_numbers_that_came_along_are_left_alone(run: Run) -> None:
    carried = Run(run.requests, run.ahead, None, 0, run.worker_from)
    found = carried.aligned()
    assert found.numbers.is_empty()
    assert found.matched == found.steps == len(run.requests) - run.worker_from


def test_in_a_steady_load_the_time_of_scheduling_tells() -> None:
    run = Run((4,) * 30, own_first=104)
    assert pairs(run.aligned()) == run.wanted()


def test_too_many_differing_signatures_align_nothing() -> None:
    run = Run(tuple(range(1, 31)), own_first=7)
    found = run.aligned(mangled=20)
    assert found.failed
    assert pairs(found) == []
    assert len(pairs(run.aligned(mangled=2))) == 28


def test_cycles_get_the_schedulers_number_or_none() -> None:
    run = Run(tuple(range(1, 31)), own_first=7, scheduler_from=3)
    cycles = pl.DataFrame(
        {"process": [0, 1, 1, 1], "number": [110, 7, 10, 11]},
        schema={"process": pl.Int32, "number": pl.Int64},
    )
    assert translated(cycles, run.aligned())["number"].to_list() == [110, -1, 104, 105]


def test_without_a_lone_speaker_there_is_nothing_to_align() -> None:
    trace = build()
    found = align_steps(trace, signed_steps(trace, classify_ranges(trace, RULES)))
    assert (found.steps, found.failed) == (0, False)
