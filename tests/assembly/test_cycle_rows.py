"""Cycles one by one: each as the definitions have it, whole ones only, and never too many."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import SAMPLE_TRACES
from tests.measured import Measured
from tests.reference import Reference
from tests.strategies import MEANINGS, examples, gpu_traces
from traceanalyzer import analyze, load
from traceanalyzer.analyses.buckets import cycle_buckets
from traceanalyzer.analyses.gaps import CAUSES
from traceanalyzer.assembly.cycle_rows import (
    ROWS_LISTED,
    KeptCycles,
    ListedCycles,
    chosen_cycles,
    listed_cycles,
)
from traceanalyzer.assembly.timing import Timing

if TYPE_CHECKING:
    from traceanalyzer import Report, Trace
    from traceanalyzer.report import CycleRow

Drawn = list[list[int]]


def listed(measured: Measured) -> ListedCycles:
    """The rows of a trace, each rank in one group with the others."""
    phased = measured.phased
    timing = Timing(phased.labels, CAUSES, phased.cycles, measured.time, cycle_buckets(phased))
    number = phased.spans.number[phased.cycles.forward][timing.kept()]
    ranks = phased.ranks.number
    return listed_cycles(
        timing, KeptCycles(ranks, [range(len(ranks))], number, [None] * number.size)
    )


@examples(0.15)
@given(gpu_traces())
def test_rows_are_the_kept_cycles_of_the_reference(trace: Trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    expected = []
    for number, cycle in enumerate(reference.cycles):
        if cycle.state == "kept":
            windows = {name: ns for name, ns in reference.time_of(number).windows.items() if ns}
            rank = measured.phased.ranks.number[cycle.lane]
            expected.append((rank, cycle.start_ns, cycle.end_ns - cycle.start_ns, windows))
    first_ns = min((start_ns for _, start_ns, *_ in expected), default=0)
    expected = [(rank, start_ns - first_ns, *rest) for rank, start_ns, *rest in expected]
    found = listed(measured)
    rows = [
        (
            row.rank,
            row.start_ns,
            row.period_ns,
            {name: ns for name, ns in zip(found.phases, row.windows_ns, strict=True) if ns},
        )
        for row in found.rows
    ]
    assert sorted(rows, key=lambda row: row[:3]) == sorted(expected, key=lambda row: row[:3])
    assert found.of == len(expected)
    assert {row.state for row in found.rows} <= {"kept"}
    _check_that_whole_cycles_are_on_each_rank_once(found.rows)


def _check_that_whole_cycles_are_on_each_rank_once(rows: list[CycleRow]) -> None:
    places = [(row.cycle, row.rank) for row in rows]
    assert sorted(places) == sorted(set(places))
    together = defaultdict(list)
    for row in rows:
        together[row.cycle].append(row)
    assert sorted(together) == list(range(len(together)))
    for own in together.values():
        assert len({row.number for row in own}) == 1 or not any(row.number for row in own)


@pytest.mark.parametrize("name", ["eagle3_tp2_graphs.sqlite", "eagle3_host_only.sqlite"])
def test_rows_add_up_to_their_bucket(name: str) -> None:
    report = analyze(load(SAMPLE_TRACES / name))
    assert sum(rank.cycles.kept for rank in report.ranks) == report.cycle_rows_of > 0
    for place, bucket in enumerate(report.buckets):
        rows = [row for row in report.cycle_rows if row.bucket == place]
        assert len(rows) == bucket.cycles
        assert sum(row.period_ns for row in rows) / len(rows) == pytest.approx(
            bucket.period_ns.mean
        )
        means = {phase.phase: phase.window_ns_per_cycle.mean for phase in bucket.phases}
        for column, phase in enumerate(report.cycle_phases):
            whole = sum(row.windows_ns[column] for row in rows)
            assert whole / len(rows) == pytest.approx(means.get(phase, 0.0))


def test_ranks_share_cycles_by_number() -> None:
    report = analyze(load(SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"))
    by_cycle = defaultdict(list)
    for row in report.cycle_rows:
        by_cycle[row.cycle].append((row.rank, row.number))
    numbers = {numbered[0][1] for numbered in by_cycle.values()}
    assert len(numbers) == len(by_cycle) > 1
    for numbered in by_cycle.values():
        (number,) = {number for _, number in numbered}
        assert number is not None
        assert [rank for rank, _ in numbered] == [0, 1]


@st.composite
def whole_cycles(draw: st.DrawFn) -> Drawn:
    """Periods of each whole cycle on the ranks that run it."""
    return draw(
        st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=60)
    )


def chosen(drawn: Drawn, limit: int) -> list[bool]:
    whole = np.array([cycle for cycle, periods in enumerate(drawn) for _ in periods], np.int64)
    period = np.array([period for periods in drawn for period in periods], np.int64)
    order = np.random.default_rng(3).permutation(whole.size)
    found: list[bool] = chosen_cycles(whole[order], period[order], limit).tolist()
    return found


def expected_choice(drawn: Drawn, limit: int) -> list[bool]:
    """A quarter of the room, at least one cycle, for the slowest; a quarter for the fastest."""
    rows = sum(map(len, drawn))
    if rows <= limit:
        return [True] * len(drawn)
    room = limit // max(map(len, drawn))
    by_period = sorted(range(len(drawn)), key=lambda cycle: (max(drawn[cycle]), cycle))
    slowest = by_period[::-1][: -(-room // 4)]
    fastest = by_period[: room // 4]
    others = [cycle for cycle in range(len(drawn)) if cycle not in {*slowest, *fastest}]
    more = room - len(slowest) - len(fastest)
    even = {others[place * len(others) // more] for place in range(more)}
    return [cycle in {*slowest, *fastest, *even} for cycle in range(len(drawn))]


@examples(0.3)
@given(whole_cycles(), st.integers(0, 80))
def test_the_sample_is_the_slowest_the_fastest_and_even_others(drawn: Drawn, limit: int) -> None:
    assert chosen(drawn, limit) == expected_choice(drawn, limit)


@examples(0.3)
@given(whole_cycles(), st.integers(0, 80))
def test_a_sample_fills_its_room_and_no_more(drawn: Drawn, limit: int) -> None:
    found = chosen(drawn, limit)
    rows = sum(len(periods) for periods, taken in zip(drawn, found, strict=True) if taken)
    assert rows <= limit or not rows
    if sum(map(len, drawn)) <= limit:
        assert all(found)
    else:
        assert sum(found) == limit // max(map(len, drawn))
        longest = max(max(periods) for periods in drawn)
        taken = [max(periods) for periods, kept in zip(drawn, found, strict=True) if kept]
        assert not taken or max(taken) == longest


def test_nothing_is_chosen_of_nothing() -> None:
    assert chosen([], ROWS_LISTED) == []


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load(SAMPLE_TRACES / "seed_case.sqlite")


@pytest.fixture(scope="module")
def whole(trace: Trace) -> Report:
    return analyze(trace)


def test_above_the_limit_whole_cycles_are_left_out(
    trace: Trace, whole: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = partial(listed_cycles, limit=100)
    monkeypatch.setattr("traceanalyzer.pipeline.across_ranks.listed_cycles", limited)
    report = analyze(trace)
    ranks, cycles = len(report.ranks), {row.cycle for row in report.cycle_rows}
    assert len(cycles) == 100 // ranks
    assert len(report.cycle_rows) == len(cycles) * ranks
    assert report.cycle_rows_of == whole.cycle_rows_of == len(whole.cycle_rows)
    known = {(row.rank, row.cycle): row for row in whole.cycle_rows}
    assert all(known[row.rank, row.cycle] == row for row in report.cycle_rows)
    assert max(whole.cycle_rows, key=lambda row: row.period_ns) in report.cycle_rows


def test_accepted_drafts_are_those_of_the_bucket(whole: Report) -> None:
    (acceptance,) = (bucket.acceptance for bucket in whole.buckets if bucket.acceptance)
    told = [row.accepted_drafts for row in whole.cycle_rows if row.rank == whole.ranks[0].rank]
    expected = sum(accepted * count for _, accepted, count in acceptance.counts)
    assert sum(each for each in told if each is not None) == expected > 0
