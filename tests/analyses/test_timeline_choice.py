"""A large timeline shows whole windows in detail, and says so; it is never thinned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.analyses.test_timeline_lanes import lanes_of
from tests.harness import SAMPLE_TRACES
from tests.strategies import RULES, build
from traceanalyzer.analyses.timeline_lanes.choice import in_cycles, in_window, within_limit
from traceanalyzer.errors import InputError
from traceanalyzer.importers import load
from traceanalyzer.phases.cycles import KEPT
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.rules import Rules

if TYPE_CHECKING:
    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes

OVERVIEW = ("cycles", "phases")


@pytest.fixture(scope="module")
def lanes() -> TimelineLanes:
    trace = load([SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"])
    return lanes_of(settle_phases(trace, Rules.shipped()))


def rows(lanes: TimelineLanes) -> list[tuple[str, int, str, int, int]]:
    """Kind, group, title, start and end of every span."""
    spans = lanes.spans
    return [
        (lane.kind, lane.group, lane.title, int(spans.start_ns[row]), int(spans.end_ns[row]))
        for lane in lanes.lanes
        for row in range(lane.first, lane.end)
    ]


def test_a_window_keeps_all_that_overlaps_it_and_the_whole_overview(lanes: TimelineLanes) -> None:
    length = lanes.end_ns - lanes.origin_ns
    start, end = lanes.origin_ns + length // 3, lanes.origin_ns + length // 2
    part = in_window(lanes, length // 3, length // 2)
    kept = rows(part)
    assert [row for row in kept if row[0] in OVERVIEW] == [
        row for row in rows(lanes) if row[0] in OVERVIEW
    ]
    on_gpu = [row for row in kept if row[0] in ("stream", "collectives")]
    assert on_gpu == [
        row
        for row in rows(lanes)
        if row[0] in ("stream", "collectives") and row[3] < end and row[4] > start
    ]
    assert part.shown_ns == ((start, end),)
    assert "in the window asked for" in part.notes[0]


def test_a_window_keeps_the_launches_of_its_cycles(lanes: TimelineLanes) -> None:
    part = in_cycles(lanes, 5, 5)
    spans = part.spans

    def ids(*kinds: str) -> set[int]:
        chosen = [lane for lane in part.lanes if lane.kind in kinds and lane.group == 0]
        return {
            int(spans.correlation[row])
            for lane in chosen
            for row in range(lane.first, lane.end)
            if spans.cycle[row] == 4 and spans.correlation[row] >= 0
        }

    assert ids("stream")
    assert ids("stream") <= ids("calls", "graph launches")


def test_cycles_are_chosen_whole(lanes: TimelineLanes) -> None:
    part = in_cycles(lanes, 4, 6)
    facts = lanes.cycles
    assert part.shown_ns == ((int(facts.start_ns[3]), int(facts.end_ns[5])),)
    assert "of cycles 4 to 6" in part.notes[0]
    assert part.cycles is facts


@pytest.mark.parametrize(("first", "last"), [(0, 3), (5, 4), (12, 13), (13, 13)])
def test_cycles_that_are_not_there(lanes: TimelineLanes, first: int, last: int) -> None:
    with pytest.raises(InputError, match=f"12 cycles, not {first} to {last}"):
        in_cycles(lanes, first, last)


def test_a_window_outside_the_trace(lanes: TimelineLanes) -> None:
    with pytest.raises(InputError, match="nothing in this window"):
        in_window(lanes, 10**15, 2 * 10**15)


def test_a_timeline_within_the_limit_stays_whole(lanes: TimelineLanes) -> None:
    assert within_limit(lanes, lanes.spans.size) is lanes


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_above_the_limit_whole_cycles_are_shown(lanes: TimelineLanes, share: float) -> None:
    limit = int(lanes.spans.size * share)
    part = within_limit(lanes, limit)
    assert part.spans.size <= limit
    assert part.shown_ns
    facts = lanes.cycles
    own = [row for row in range(12) if facts.state[row] == KEPT]
    whole = [
        row
        for row in own
        if any(a <= facts.start_ns[row] and facts.end_ns[row] <= b for a, b in part.shown_ns)
    ]
    covered = sum(b - a for a, b in part.shown_ns)
    assert covered == sum(int(facts.end_ns[row] - facts.start_ns[row]) for row in whole)
    assert own[0] in whole, "the first"
    shown = {row for row in rows(part) if row[0] == "stream"}
    for row in rows(lanes):
        if row[0] == "stream" and any(a <= row[3] < b for a, b in part.shown_ns):
            assert row in shown
    assert f"of {len(whole)} of 12 cycles" in part.notes[0]
    assert f"{part.spans.size:,} of {lanes.spans.size:,} spans" in part.notes[0]


def test_the_slowest_cycle_is_among_those_chosen(lanes: TimelineLanes) -> None:
    part = within_limit(lanes, int(lanes.spans.size * 0.5))
    facts = lanes.cycles
    period = {row: facts.end_ns[row] - facts.start_ns[row] for row in range(12)}
    slowest = max((row for row in range(12) if facts.state[row] == KEPT), key=period.__getitem__)
    assert part.shown_ns is not None
    assert any(a <= facts.start_ns[slowest] < b for a, b in part.shown_ns)


def test_one_cycle_that_is_too_large(lanes: TimelineLanes) -> None:
    with pytest.raises(InputError, match="not even one cycle"):
        within_limit(lanes, 500)


def test_a_window_that_is_too_large(lanes: TimelineLanes) -> None:
    part = in_window(lanes, 0, lanes.end_ns - lanes.origin_ns)
    with pytest.raises(InputError, match="more than the limit of 1,000"):
        within_limit(part, 1_000)


def test_a_large_timeline_without_cycles_is_refused() -> None:
    trace = build(ops=[{"start_ns": 10 * i, "end_ns": 10 * i + 5} for i in range(1, 9)])
    with pytest.raises(InputError, match="--window") as caught:
        within_limit(lanes_of(settle_phases(trace, RULES)), 5)
    assert "limit of 5" in str(caught.value)
