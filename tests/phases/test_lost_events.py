"""Replays that lack nodes, against a comparison of every two of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import build, examples
from traceanalyzer.phases.lost_events import in_short_replays

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

GRAPHS = ((1, 2, 3), (11, 12), (21,))
LOST = "Not all CUDA events might have been collected."

replays = st.lists(
    st.tuples(st.sampled_from(GRAPHS), st.integers(0, 7), st.integers(0, 1)), max_size=8
)


def noticed(trace: Trace, text: str) -> Trace:
    """The trace with a notice of the recorder's."""
    row = {"file": 0, "source": "recorder", "severity": "warning", "text": text, "count": 1}
    notices = pl.DataFrame([row], schema=trace.diagnostics.schema)
    return replace(trace, diagnostics=notices)


def short_by_hand(kept: list[tuple[int, set[int]]]) -> list[bool]:
    """Whether another replay that shares a node, on the same process, has more of them."""
    return [
        any(
            process == other and nodes & theirs and len(theirs) > len(nodes)
            for other, theirs in kept
        )
        for process, nodes in kept
    ]


@given(replays, st.booleans())
@examples(0.5)
def test_replays_with_fewer_nodes_are_found(
    runs: list[tuple[tuple[int, ...], int, int]], lossy: bool
) -> None:
    kept = [
        (process, {node for place, node in enumerate(graph) if not lost >> place & 1})
        for graph, lost, process in runs
    ]
    ops: list[dict[str, Any]] = []
    launches, launch = [], []
    for number, (process, nodes) in enumerate(kept):
        at = 100 * number
        launches.append(
            {"thread": process, "start_ns": at, "end_ns": at + 5, "correlation_id": number}
        )
        for node in sorted(nodes):
            ops.append(
                {"process": process, "correlation_id": number, "start_ns": at + node}
                | {"end_ns": at + node + 1, "graph_node_id": node}
            )
            launch.append(number)
    trace = build(ops=ops, launches=launches, threads=(0, 1))
    trace = noticed(trace, LOST) if lossy else trace
    found = in_short_replays(trace, np.array(launch, np.int64))
    short = short_by_hand(kept)
    assert found.tolist() == [lossy and short[number] for number in launch]


@pytest.mark.parametrize("text", ["Buffer flush took 3 ms.", "CUDA injection initialized."])
def test_other_notices_say_nothing_of_losses(text: str) -> None:
    ops = [
        {"process": 0, "correlation_id": number, "start_ns": 10 * number + node}
        | {"end_ns": 10 * number + node + 1, "graph_node_id": node}
        for number, nodes in enumerate(((1, 2), (1,)))
        for node in nodes
    ]
    launches = [
        {"thread": 0, "start_ns": 10 * n, "end_ns": 10 * n + 1, "correlation_id": n}
        for n in range(2)
    ]
    trace = noticed(build(ops=ops, launches=launches, threads=(0,)), text)
    assert not in_short_replays(trace, np.array([0, 0, 1])).any()
