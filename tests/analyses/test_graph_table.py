"""Graphs by identity: against plain loops over every op, and on simulated servers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from tests.measured import Measured
from tests.reference import Reference, is_graph_call, nearest_rank
from tests.strategies import MEANINGS, RULES, build, examples, gpu_traces
from traceanalyzer.analyses.graph_table import graph_table, graphs_of
from traceanalyzer.importers import load
from traceanalyzer.phases.rules import Rules
from traceanalyzer.pipeline import analyze
from traceanalyzer.simulation import FLAVOURS, Eagle3Settings, eagle3_server, write_nsys_sqlite

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Report
    from traceanalyzer.trace import Trace


@dataclass(frozen=True)
class Replay:
    """One replay by the loops below."""

    lane: int
    identity: tuple[object, ...]
    whole: bool
    ops: int
    first_ns: int
    span_ns: int
    busy_ns: int
    summed_ns: int
    phases: frozenset[str]
    launch_ns: int | None
    waited_ns: int | None
    row: int


def replays(trace: Trace) -> list[Replay]:
    """Every replay, found by trying all rows."""
    reference = Reference(trace, MEANINGS)
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for op, row in enumerate(reference.ops):
        launch = reference.launch[op]
        whole = row["kind"] == "graph"
        called = launch is not None and is_graph_call(reference.launches[launch]["text"])
        if not reference.collected[op]:
            continue
        if launch is None and whole:
            groups[reference.lane[op], -1 - op].append(op)
        elif launch is not None and (whole or called or row["graph_node_id"] is not None):
            groups[reference.lane[op], launch].append(op)
    return [
        _replay(reference, lane, None if launch < 0 else launch, ops)
        for (lane, launch), ops in groups.items()
    ]


def _replay(reference: Reference, lane: int, launch: int | None, ops: list[int]) -> Replay:
    rows = [reference.ops[op] for op in ops]
    first = min(row["start_ns"] for row in rows)
    launch_ns = waited_ns = None
    if launch is not None:
        call = reference.launches[launch]
        launch_ns = call["end_ns"] - call["start_ns"]
        idle_since = _idle_since(reference, lane, first)
        waited_ns = max(0, min(first, call["end_ns"]) - max(idle_since, call["start_ns"]))
    return Replay(
        lane,
        _identity(rows),
        any(row["kind"] == "graph" for row in rows),
        len(ops),
        first,
        max(row["end_ns"] for row in rows) - first,
        _covered_ns(rows),
        sum(row["end_ns"] - row["start_ns"] for row in rows),
        frozenset(reference.label[op] for op in ops),
        launch_ns,
        waited_ns,
        min(ops),
    )


def _covered_ns(rows: list[dict[str, Any]]) -> int:
    """Time in which any of the ops runs, from border to border."""
    borders = sorted({row[side] for row in rows for side in ("start_ns", "end_ns")})
    return sum(
        later - earlier
        for earlier, later in pairwise(borders)
        if any(row["start_ns"] <= earlier and later <= row["end_ns"] for row in rows)
    )


def _idle_since(reference: Reference, lane: int, at_ns: int) -> int:
    """When the last op that took time ended; before the first one, when the first cycle began."""
    ends = [
        row["end_ns"]
        for op, row in enumerate(reference.ops)
        if reference.lane[op] == lane and row["start_ns"] < min(row["end_ns"], at_ns)
    ]
    begun = [cycle.start_ns for cycle in reference.cycles if cycle.lane == lane]
    passes = any(
        row["start_ns"] < row["end_ns"]
        for op, row in enumerate(reference.ops)
        if reference.lane[op] == lane
    ) or any(cycle.start_ns < cycle.end_ns for cycle in reference.cycles if cycle.lane == lane)
    # Where all is over in the instant in which it begins, no idle time is seen.
    return min(at_ns, max(ends) if ends else min(begun if passes else [], default=at_ns))


def _identity(rows: list[dict[str, Any]]) -> tuple[object, ...]:
    for column in ("graph_exec_id", "graph_id", "graph_node_id"):
        ids = [row[column] for row in rows if row[column] is not None]
        if ids:
            return column, frozenset(ids)
    return ("names", frozenset(row["text"] for row in rows))


@examples(0.3)
@given(gpu_traces())
def test_graphs_are_those_found_by_trying_all_rows(trace: Trace) -> None:
    measured = Measured(trace, RULES)
    bucket = np.full(measured.phased.cycles.spans.size, -1)
    table = graph_table(graphs_of(measured.phased, measured.idle), bucket)
    by_graph: dict[tuple[object, ...], list[Replay]] = defaultdict(list)
    for replay in replays(trace):
        by_graph[replay.lane, replay.whole, *replay.identity].append(replay)
    # On one lane each identity is a graph; several lanes' graphs of one form are merged.
    forms: dict[tuple[object, ...], list[list[Replay]]] = defaultdict(list)
    for (lane, *_), own in sorted(
        by_graph.items(), key=lambda item: min((each.first_ns, each.row) for each in item[1])
    ):
        phases = frozenset().union(*(each.phases for each in own))
        form = (any(each.whole for each in own), max(each.ops for each in own), phases)
        place = sum(group[0].lane == lane for group in forms[form, lane])
        forms[form, lane].append(own)
        forms["merged", form, place].append(own)
    expected = sorted(
        _expected(key[1], groups) for key, groups in forms.items() if key[0] == "merged"
    )
    labels = measured.phased.labels
    found = sorted(
        (
            row["whole_graph"],
            row["ops"],
            sorted(label for place, label in enumerate(labels) if row["labels"] >> place & 1),
            row["lanes"],
            row["launches"],
            _or_minus_one(row["period_ns"]),
            row["span_p50_ns"],
            row["span_p99_ns"],
            row["busy_p50_ns"],
            row["summed_p50_ns"],
            _or_minus_one(row["launch_p50_ns"]),
            -1.0 if row["waited_share"] is None else row["waited_share"],
            -1.0 if row["waited_ns"] is None else row["waited_ns"],
        )
        for row in table.iter_rows(named=True)
    )
    assert found == expected


def _or_minus_one(value: int | None) -> int:
    return -1 if value is None else value


def _expected(form: Any, groups: list[list[Replay]]) -> tuple[Any, ...]:
    whole, ops, phases = form
    every = [each for group in groups for each in group]
    periods = []
    for group in groups:
        starts = sorted(each.first_ns for each in group)
        periods += [later - earlier for earlier, later in pairwise(starts)]
    called = [each.launch_ns for each in every if each.launch_ns is not None]
    waited = sum(each.waited_ns for each in every if each.waited_ns is not None)
    return (
        whole,
        ops,
        sorted(phases),
        sorted({each.lane for each in every}),
        len(every),
        nearest_rank(periods, 50) if periods else -1,
        nearest_rank([each.span_ns for each in every], 50),
        nearest_rank([each.span_ns for each in every], 99),
        nearest_rank([each.busy_ns for each in every], 50),
        nearest_rank([each.summed_ns for each in every], 50),
        nearest_rank(called, 50) if called else -1,
        waited / sum(called) if sum(called) else -1.0,
        waited / len(called) if called else -1.0,
    )


def report_of(settings: Eagle3Settings, path: Path) -> Report:
    write_nsys_sqlite(eagle3_server(settings), path, FLAVOURS["2025.5"])
    return analyze(load(path))


INSIDE = replace(
    Eagle3Settings.small(),
    cycles=20,
    prefill_every=0,
    straddle_every=0,
    batch_sizes=(1, 4),
    inner_ranges=True,
)


def test_a_server_has_a_graph_a_phase_and_batch_size(tmp_path: Path) -> None:
    report = report_of(INSIDE, tmp_path / "trace.sqlite")
    found = {(tuple(graph.phases), tuple(graph.batches)): graph for graph in report.graphs}
    assert set(found) == {
        ((phase,), (batch,)) for phase in ("draft", "verify", "draft_extend") for batch in (1, 4)
    }
    verify = found[("verify",), (1,)]
    assert (verify.ranks, verify.launches, verify.blocks) == ([0, 1], 24, INSIDE.layers)
    assert {graph.inside for graph in report.graphs} == {"capture-time range"}
    assert [graph.span_p50_ns * graph.launches for graph in report.graphs[:2]] == sorted(
        (graph.span_p50_ns * graph.launches for graph in report.graphs), reverse=True
    )[:2]


@pytest.mark.parametrize(
    ("changed", "inside"),
    [
        ({"capture_recorded": False}, "phase at replay only"),
        ({"graph_mode": "graph"}, "whole-graph row"),
    ],
)
def test_graphs_say_how_far_one_can_see_into_them(
    changed: dict[str, Any], inside: str, tmp_path: Path
) -> None:
    report = report_of(replace(INSIDE, **changed), tmp_path / "trace.sqlite")
    assert {graph.inside for graph in report.graphs} == {inside}
    assert not [parts for parts in report.parts if parts.phase != "prefill"]
    assert {graph.ops is None for graph in report.graphs} == {inside == "whole-graph row"}


def test_graphs_need_no_ranges(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    write_nsys_sqlite(eagle3_server(INSIDE), path, FLAVOURS["2022.4"])
    trace = load(path)
    bare = analyze(replace(trace, ranges=trace.ranges.clear(), marks=trace.marks.clear()))
    with_ranges = analyze(trace)
    # The schema of 2022 has no graph ids: graphs are told apart by their nodes.
    assert len(bare.graphs) == 6

    def figures(report: Report) -> list[tuple[object, ...]]:
        return [
            (each.launches, each.ops, each.period_ns, each.span_p99_ns, each.launch_ns)
            for each in report.graphs
        ]

    assert figures(bare) == figures(with_ranges)


def test_the_gpu_waits_for_a_launch_while_it_is_idle() -> None:
    launch = {"name": "cudaGraphLaunch_v10000", "correlation_id": 1}
    trace = build(
        ops=[
            {"start_ns": 0, "end_ns": 110, "stream_id": 7},
            {"start_ns": 160, "end_ns": 200, "correlation_id": 1, "graph_node_id": 5},
            {"start_ns": 200, "end_ns": 230, "correlation_id": 1, "graph_node_id": 6},
        ],
        launches=[{"start_ns": 50, "end_ns": 150, **launch}],
    )
    (graph,) = analyze(trace).graphs
    assert (graph.span_p50_ns, graph.ops, graph.launch_ns) == (70, 2, 100)
    assert graph.waited_share == 0.4  # from 110 to 150 of 50 to 150


def test_truth_of_draft_steps_and_layers(tmp_path: Path) -> None:
    settings = replace(INSIDE, ranks=1, jitter_share=0.0, batch_sizes=(1,))
    recording = eagle3_server(settings)
    write_nsys_sqlite(recording, tmp_path / "trace.sqlite", FLAVOURS["2025.5"])
    report = analyze(load(tmp_path / "trace.sqlite"))
    parts = {(each.phase, each.part): each for each in report.parts}
    assert set(parts) == {
        ("draft", "draft step"),
        ("draft", "layer"),
        ("draft_extend", "layer"),
        ("verify", "layer"),
    }
    last = max(op.iteration for op in recording.ops if op.iteration is not None)
    for (phase, part), found in parts.items():
        for each in found.parts:
            # Without jitter or collectives on other streams every cycle takes the same time.
            times = {
                iteration: sum(
                    op.end_ns - op.start_ns
                    for op in recording.ops
                    if op.iteration == iteration
                    and op.phase == phase
                    and each.number == (op.step if part == "draft step" else op.layer)
                )
                for iteration in range(last - 4, last - 1)
            }
            assert each.busy_ns_per_cycle.p50 == pytest.approx(times[last - 3], rel=0.02)
    assert [each.number for each in parts["verify", "layer"].parts] == [0, 1]
    assert [each.number for each in parts["draft", "draft step"].parts] == [0, 1]
    assert sum(each.share for each in parts["verify", "layer"].parts) == pytest.approx(1)


def test_shipped_rules_know_the_fused_range(tmp_path: Path) -> None:
    report = report_of(replace(INSIDE, fused=True, ranks=1), tmp_path / "trace.sqlite")
    assert Rules.shipped()
    assert {tuple(graph.phases) for graph in report.graphs} == {
        ("draft", "verify", "sample", "draft_extend")
    }
    assert report.coverage is not None
    shares = {method.method: method.share for method in report.coverage.by_method}
    assert shares["capture-time range"] > 0.5
    bucket = report.buckets[0]
    windows = {phase.phase for phase in bucket.phases}
    assert {"draft", "verify", "sample", "draft_extend"} <= windows
