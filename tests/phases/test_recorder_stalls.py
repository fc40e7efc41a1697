"""Cycles that the recorder stretched are found on every rank of its file, and left out of means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measured import Measured
from tests.strategies import build, examples, frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.trace import Trace

CYCLE, CYCLES, LAG = 100, 10, 30
FLUSH = "CUPTI: Buffer flush"


def recorded(stalls: Sequence[tuple[int, int, int]], name: str = FLUSH) -> Trace:
    """Two ranks, 100 ns a cycle: verify is launched at 0 and runs from 30 on, draft 50 later.

    Args:
        stalls: Process, start and end of the recorder's own time.
        name: Of all of them.
    """
    ranges: list[dict[str, Any]] = []
    launches: list[dict[str, Any]] = []
    ops: list[dict[str, Any]] = []
    for rank in (0, 1):
        for number in range(2 * CYCLES):
            at = 50 * number
            phase = "draft" if number % 2 else "verify"
            ranges.append({"name": phase, "start_ns": at, "end_ns": at + 10, "thread": rank})
            call = {"start_ns": at + 1, "end_ns": at + 3, "correlation_id": number + 1}
            launches.append({**call, "thread": rank})
            op = {"start_ns": at + LAG, "end_ns": at + LAG + 20, "correlation_id": number + 1}
            ops.append({**op, "process": rank})
    trace = build(ops=ops, launches=launches, ranges=ranges, threads=(0, 1))
    names = trace.names.extend(frame("names", [{"name": trace.names.height, "text": name}]))
    rows = [
        {"process": process, "start_ns": start, "end_ns": end, "name": names.height - 1}
        for process, start, end in stalls
    ]
    return replace(trace, names=names, overheads=frame("overheads", rows))


def states(trace: Trace) -> list[str]:
    return [state for *_, state in Measured(trace).cycles()]


def hit(stalls: Sequence[tuple[int, int, int]]) -> set[int]:
    """Starts of cycles that share time with a stall, which lasts until the next call's op runs."""
    found = set()
    for _, start, end in stalls:
        later = [at + LAG for at in range(0, 50 * 2 * CYCLES, 50) if at + 1 >= end]
        until = max(end, later[0]) if later else end
        for at in range(LAG, CYCLE * CYCLES, CYCLE):
            if start < end and start < at + CYCLE and until > at:
                found.add(at)
    return found


@given(
    st.lists(
        st.tuples(st.sampled_from((0, 1)), st.integers(0, 1_050), st.integers(0, 60)), max_size=3
    )
)
@examples(0.3)
def test_stalled_cycles_are_those_of_the_loops(drawn: list[tuple[int, int, int]]) -> None:
    stalls = [(process, start, start + length) for process, start, length in drawn]
    expected = hit(stalls)
    usable = CYCLES - 1  # the last cycle of a rank has no end
    stalled = {at for at in expected if at < LAG + CYCLE * usable}
    if len(stalled) > usable / 2:
        expected = set()
    cycles = Measured(recorded(stalls)).cycles()
    assert {start for _, start, _, _, state in cycles if state == "interrupted"} == {
        start for start in expected if start < LAG + CYCLE * usable
    }
    lanes = [[row[1:3] + row[4:] for row in cycles if row[0] == lane] for lane in (0, 1)]
    assert lanes[0] == lanes[1]


@pytest.mark.parametrize("name", ["Command Buffer Full", "Lazy Function Loading", "dlopen(x)"])
def test_what_is_not_the_recorders_interrupts_nothing(name: str) -> None:
    assert "interrupted" in states(recorded([(0, 310, 330)]))
    assert "interrupted" not in states(recorded([(0, 310, 330)], name))


def test_where_most_cycles_are_stalled_none_stands_for_the_rest() -> None:
    every_cycle = [(0, 100 * number + 35, 100 * number + 40) for number in range(CYCLES)]
    assert "interrupted" not in states(recorded(every_cycle))
    assert states(recorded(every_cycle[:4])).count("interrupted") == 2 * 4
