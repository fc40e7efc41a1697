"""Where replayed kernels were born: against simulated truth, and against trying every row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import build, examples, frame
from traceanalyzer.importers import load
from traceanalyzer.phases.lineage import origins_of_ops
from traceanalyzer.phases.phased import PhasedTrace, settle_phases
from traceanalyzer.phases.rules import Rules
from traceanalyzer.simulation import FLAVOURS, Eagle3Settings, eagle3_server, write_nsys_sqlite

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.recording import Op, Recording
    from traceanalyzer.trace import Trace

INSIDE = replace(
    Eagle3Settings.small(), cycles=8, prefill_every=0, straddle_every=0, inner_ranges=True
)
SERVERS = {
    "one graph a phase": INSIDE,
    "three clones": replace(INSIDE, graph_clones=2),
    "batch sizes": replace(INSIDE, batch_sizes=(1, 4), cycles=18, decode_every=5, ranks=1),
    "captured again": replace(INSIDE, recapture_every=3, draft_tokens=4, verified_tokens=0),
    "before the recording": replace(INSIDE, precapture=True),
    "fused": replace(INSIDE, fused=True),
    "fused, captured again": replace(INSIDE, fused=True, recapture_every=4, batch_sizes=(1, 2)),
    "bare names": replace(INSIDE, domain=None, registered=False, ranks=1),
    "experts": replace(INSIDE, model="mla_moe", ranks=1),
}


def settled(recording: Recording, path: Path, flavour: str) -> PhasedTrace:
    write_nsys_sqlite(recording, path, FLAVOURS[flavour])
    return settle_phases(load(path), Rules.shipped())


def by_op(recording: Recording, trace: Trace) -> list[Op]:
    """The simulated op of each row of a trace."""
    ids = trace.processes["process_id"].to_list()
    known = {
        (op.process.process_id, op.stream_id, op.start_ns, op.kind): op for op in recording.ops
    }
    rows = trace.ops.select("process", "stream_id", "start_ns", "kind").rows()
    return [known[ids[process], *rest] for process, *rest in rows]


@pytest.mark.parametrize("name", SERVERS)
def test_every_replayed_op_has_its_true_step_layer_and_phase(name: str, tmp_path: Path) -> None:
    recording = eagle3_server(SERVERS[name])
    flavour = list(FLAVOURS)[
        list(SERVERS).index(name) % 2
    ]  # nodes have a table of their own or not
    phased = settled(recording, tmp_path / "trace.sqlite", flavour)
    truth = by_op(recording, phased.trace)
    replayed = [row for row, op in enumerate(truth) if op.graph_node_id is not None]
    assert len(replayed) > 100
    places = phased.places
    none_is_minus_one = {
        row: tuple(-1 if value is None else value for value in (truth[row].step, truth[row].layer))
        for row in replayed
    }
    found = {row: (int(places.step[row]), int(places.layer[row])) for row in replayed}
    assert found == none_is_minus_one
    steps = {step for step, _ in found.values()}
    assert steps == {-1, *range(SERVERS[name].draft_tokens - 1)}
    assert [phased.labels[phased.label[row]] for row in range(len(truth))] == [
        op.phase for op in truth
    ]


def test_ranges_tell_the_parts_of_a_fused_graph_and_the_ledger_says_so(tmp_path: Path) -> None:
    recording = eagle3_server(SERVERS["fused"])
    phased = settled(recording, tmp_path / "trace.sqlite", "2025.5")
    truth = by_op(recording, phased.trace)
    from traceanalyzer.phases.attribution import METHODS

    assert [METHODS[code] for code in phased.attribution.method] == [op.method for op in truth]
    assert {op.method for op in truth} >= {"capture-time range", "launch in range"}
    first = {
        (op.process.process_id, op.iteration): op.start_ns
        for op in reversed(recording.ops)
        if op.phase == "verify"
    }
    assert sorted(phased.cycles.spans.start_ns.tolist()) == sorted(first.values())


@pytest.mark.parametrize(
    "settings",
    [
        replace(INSIDE, capture_recorded=False),
        replace(INSIDE, capture_recorded=False, fused=True),
        replace(INSIDE, graph_mode="graph", fused=True),
    ],
    ids=["no ranges at birth", "fused, no ranges at birth", "whole-graph rows"],
)
def test_without_ranges_at_birth_nothing_is_claimed(
    settings: Eagle3Settings, tmp_path: Path
) -> None:
    recording = eagle3_server(settings)
    phased = settled(recording, tmp_path / "trace.sqlite", "2025.5")
    truth = by_op(recording, phased.trace)
    replayed = [row for row, op in enumerate(truth) if op.graph_id is not None]
    assert replayed
    assert set(phased.places.step[replayed]) == {-1}
    assert set(phased.places.layer[replayed]) == {-1}
    assert [phased.labels[code] for code in phased.label] == [op.phase for op in truth]


def test_without_creations_nothing_is_claimed(tmp_path: Path) -> None:
    recording = eagle3_server(SERVERS["fused"])
    recording.graph_nodes.clear()
    phased = settled(recording, tmp_path / "trace.sqlite", "2025.5")
    assert not phased.places.born.any()
    assert set(phased.places.step[phased.trace.ops["graph_node_id"].is_not_null().to_numpy()]) == {
        -1
    }
    assert "fused(draft, verify, sample, draft_extend)" in phased.labels
    used = {phased.labels[code] for code in phased.label}
    assert not used & {"verify", "sample", "draft_extend"}


# Chains, against trying every row.


def origin_by_trying(nodes: list[dict[str, Any]], process: int, node: int, at_ns: int) -> int:
    """Row of the captured node behind a node that is used at an instant, -1 for none."""
    seen: set[int] = set()
    while True:
        found = [
            row
            for row, made in enumerate(nodes)
            if (made["process"], made["node_id"]) == (process, node) and made["time_ns"] <= at_ns
        ]
        if not found:
            return -1
        row = max(found, key=lambda row: (nodes[row]["time_ns"], row))
        if row in seen:
            return -1
        seen.add(row)
        if nodes[row]["original_id"] is None:
            return row
        node, at_ns = nodes[row]["original_id"], nodes[row]["time_ns"]


_few = st.integers(1, 5)
_creations = st.lists(
    st.fixed_dictionaries(
        {
            "process": st.integers(0, 1),
            "node_id": _few,
            "original_id": st.none() | _few,
            "time_ns": st.integers(-6, 6),
        }
    ),
    max_size=14,
)
_uses = st.lists(
    st.tuples(st.integers(0, 1), st.none() | _few, st.integers(-4, 9)), min_size=1, max_size=8
)


@examples(0.6)
@given(_creations, _uses)
def test_origins_are_those_found_by_trying(
    nodes: list[dict[str, Any]], uses: list[tuple[int, int | None, int]]
) -> None:
    launches = [
        {"start_ns": at_ns, "end_ns": at_ns + 1, "thread": process, "correlation_id": place}
        for place, (process, _, at_ns) in enumerate(uses)
    ]
    ops = [
        {
            "start_ns": at_ns + 2,
            "end_ns": at_ns + 3,
            "process": process,
            "graph_node_id": node,
            "correlation_id": place,
        }
        for place, (process, node, at_ns) in enumerate(uses)
    ]
    trace = replace(
        build(ops=ops, launches=launches, threads=(0, 1)), graph_nodes=frame("graph_nodes", nodes)
    )
    found = origins_of_ops(trace, np.arange(len(uses)))
    expected = [
        -1 if node is None else origin_by_trying(nodes, process, node, at_ns)
        for process, node, at_ns in uses
    ]
    assert found.tolist() == expected
    unlaunched = origins_of_ops(trace, np.full(len(uses), -1))
    assert unlaunched.tolist() == [
        -1 if node is None else origin_by_trying(nodes, process, node, at_ns + 2)
        for process, node, at_ns in uses
    ]


def test_a_long_chain_and_a_circle() -> None:
    length = 700
    chain = [
        {
            "process": 0,
            "node_id": place + 1,
            "original_id": place or None,
            "time_ns": place,
        }
        for place in range(length)
    ]
    circle = [
        {
            "process": 0,
            "node_id": 9_000 + place,
            "original_id": 9_000 + (place + 1) % 3,
            "time_ns": 5,
        }
        for place in range(3)
    ]
    ops = [
        {"start_ns": 10_000, "end_ns": 10_001, "graph_node_id": node, "process": 0}
        for node in (length, 9_001, 8_000)
    ]
    trace = replace(build(ops=ops), graph_nodes=frame("graph_nodes", [*circle, *chain]))
    assert origins_of_ops(trace, np.full(3, -1)).tolist() == [3, -1, -1]


def test_node_rows_of_unknown_processes_are_left_out(tmp_path: Path) -> None:
    recording = eagle3_server(replace(INSIDE, ranks=1))
    write_nsys_sqlite(recording, tmp_path / "trace.sqlite")
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(tmp_path / "trace.sqlite")) as database:
        database.execute("UPDATE CUDA_GRAPH_EVENTS SET globalTid = globalTid + (1 << 30)")
        database.commit()
    assert load(tmp_path / "trace.sqlite").graph_nodes.height == 0


def test_times_before_the_recording_are_kept(tmp_path: Path) -> None:
    recording = eagle3_server(SERVERS["before the recording"])
    write_nsys_sqlite(recording, tmp_path / "trace.sqlite")
    nodes = load(tmp_path / "trace.sqlite").graph_nodes
    assert nodes.height == len(recording.graph_nodes)
    assert nodes.select((pl.col("time_ns") < 0).all()).item()
    assert nodes["thread"].null_count() == 0
