from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.measured import waits_of
from tests.strategies import build
from traceanalyzer.analyses.idle_ranks import idle_cycles
from traceanalyzer.phases.parallel_groups import parallel_groups
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.rules import Rules
from traceanalyzer.pipeline import analyze
from traceanalyzer.renderers.skew_text import skew_lines

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.trace import Trace


def server(idle_rounds: int) -> Trace:
    """Two ranks of four cycles; the second runs padding in the first so many."""
    ops: list[dict[str, Any]] = []
    launches, ranges = [], []
    for lane in range(2):
        for cycle in range(1, 5):
            host, number = 100 * cycle, len(ops)
            around = {"thread": lane, "start_ns": host, "end_ns": host + 50}
            if lane == 1 and cycle <= idle_rounds:
                ranges.append({"name": "step[IDLE bs=0 toks=0]", **around})
            ranges.append({"name": "verify", "domain": "eagle", "payload": cycle, **around})
            call = {"start_ns": host + 5, "end_ns": host + 9, "correlation_id": number}
            launches.append({"thread": lane, **call})
            ops.append(
                {"process": lane, "correlation_id": number, "start_ns": host + 60}
                | {"end_ns": host + 90}
            )
    return build(ops=ops, launches=launches, ranges=ranges, threads=(0, 1))


def phased(idle_rounds: int) -> PhasedTrace:
    return settle_phases(server(idle_rounds), Rules.shipped())


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_cycles_that_run_padding_only_are_counted_by_rank(rounds: int) -> None:
    assert idle_cycles(phased(rounds)).tolist() == [0, rounds]


def test_ranks_that_idle_are_told() -> None:
    (group,) = analyze(server(3)).skew
    assert [rank.idle_cycles for rank in group.by_rank] == [0, 3]
    (line,) = skew_lines(analyze(server(3)))
    assert line.startswith("Rank 1 ran padding only, in 3 cycles")


def test_without_collectives_or_idle_ranks_nothing_is_said() -> None:
    assert analyze(server(0)).skew == []
    trace = phased(0)
    (group,) = parallel_groups(trace.trace, trace.ranks)
    assert waits_of(trace, group).ops.height == 0
