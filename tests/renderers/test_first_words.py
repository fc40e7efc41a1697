"""What is said below the cycle table, and what is left unsaid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict.made import MS, report, seed_bucket
from traceanalyzer.renderers.first_words import first_words
from traceanalyzer.report import CollectiveWait, FreeDrafting, GraphReport, GroupSkew, RankSkew

if TYPE_CHECKING:
    from traceanalyzer.report import Report

GRAPH = GraphReport(
    ["verify"], [1], [0], 9, 100, None, int(12 * MS), int(13 * MS), int(3 * MS), 0.3, None,
    "phase at replay only", int(11 * MS), int(14 * MS), 0.9 * MS,
)  # fmt: skip


def with_graph(**changes: Any) -> Report:
    return replace(report(seed_bucket()), graphs=[replace(GRAPH, **changes)])


def test_overlap_and_exposed_launch_are_told() -> None:
    overlap, launch = first_words(with_graph())
    assert "they add up to 14.00 ms, but keep the GPU busy for 11.00 ms of the 12.00 ms" in overlap
    assert "the GPU waits 900 us a cycle for it (a call of 3.00 ms on the host)" in launch


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"ops": None}, 1),
        ({"summed_ns": int(11 * MS)}, 1),
        ({"waited_ns": 0.1 * MS}, 1),
        ({"waited_ns": None}, 1),
        ({"launch_ns": None}, 1),
        ({"span_p50_ns": int(3 * MS)}, 0),
        ({"batches": [2]}, 0),
        ({"phases": ["prefill"]}, 0),
    ],
)
def test_what_does_not_stand_out_is_left_unsaid(changes: dict[str, Any], lines: int) -> None:
    assert len(first_words(with_graph(**changes))) == lines


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (FreeDrafting(2 * MS, 1.089, 0.46 * MS, 1.11), "+8.9 % tokens/s; +11.0 % if the 460 us"),
        (FreeDrafting(2 * MS, 1.11, 0.0, 1.11), "at most +11.0 % tokens/s."),
    ],
)
def test_a_free_draft_is_bounded(found: FreeDrafting, says: str) -> None:
    (line,) = first_words(report(replace(seed_bucket(), free_drafting=found)))
    assert says in line


def group(cost_share: float, wait_ms: float, idle_share: float) -> GroupSkew:
    waits = [CollectiveWait(0, "verify", 9, 2.0, 20 * MS, 20 * MS, wait_ms * MS, MS, 30 * MS, None)]
    ranks = [
        RankSkew(0, wait_ms * MS, 0.0, 0.0, 0.0, 0.0, [], 0),
        RankSkew(1, 0.0, 1.0, MS, idle_share, 15 * MS, [], 0),
    ]
    return GroupSkew(
        ranks=[0, 1],
        tp_size=2,
        tp_size_from="marks",
        dp_rank=None,
        clock="one session",
        clock_error_ns=0,
        resolved=True,
        waiting_included=[],
        hidden_cycles=0,
        late_rank=1,
        cost_ns_per_cycle=15 * MS,
        cost_share=cost_share,
        by_rank=ranks,
        waits=waits,
    )


@pytest.mark.parametrize(
    ("skew", "says"),
    [
        (group(0.5, 19, 0.6), "transfer: the late rank, not the link. It is late for want of"),
        (group(0.5, 19, 0.2), "not the link. It is late as its kernels run longer"),
        (group(0.5, 0.5, 0.6), "1.000 ms transfer. It is late"),
    ],
)
def test_the_late_rank_is_named(skew: GroupSkew, says: str) -> None:
    (line,) = first_words(replace(report(seed_bucket()), skew=[skew]))
    assert line.startswith("Ranks wait for rank 1: at most 15.00 ms a cycle (50.0 %).")
    assert says in line


@pytest.mark.parametrize(
    "skew",
    [
        group(0.01, 19, 0.6),
        replace(group(0.5, 19, 0.6), late_rank=None),
        replace(group(0.5, 19, 0.6), waits=[]),
    ],
)
def test_ranks_in_step_are_not_mentioned(skew: GroupSkew) -> None:
    assert first_words(replace(report(seed_bucket()), skew=[skew])) == []
