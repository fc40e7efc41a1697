from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from nvtx_hooks.vocabulary import pack_batch, pack_tokens
from tests.measured import Measured
from tests.reference import Reference
from tests.strategies import MEANINGS, build, examples, gpu_traces
from traceanalyzer.analyses.buckets import cycle_buckets

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


@examples(0.15)
@given(gpu_traces())
def test_cycles_share_a_bucket_exactly_when_they_have_one_shape(trace: Trace) -> None:
    reference = Reference(trace, MEANINGS)
    table = cycle_buckets(Measured(trace).phased)
    keys = reference.bucket_keys()
    assert table.select("kind", "batch").rows() == [(kind, batch) for kind, batch, _ in keys]
    assert table["graph"].eq("no graph").to_list() == [graph is None for *_, graph in keys]
    bucket = table["bucket"].to_list()
    for one, other in combinations(range(len(keys)), 2):
        if reference.cycles[one].lane == reference.cycles[other].lane:
            assert (bucket[one] == bucket[other]) == (keys[one] == keys[other])


def buckets(replays: list[list[dict[str, Any]]], *, names: list[str] | None = None) -> list[int]:
    """Buckets of cycles of 100 ns, each a verify range whose graph launch ran these ops."""
    ops, launches, ranges = [], [], []
    for cycle, replay in enumerate(replays):
        at = 100 * cycle
        name = names[cycle] if names else "verify"
        ranges.append({"name": name, "start_ns": at, "end_ns": at + 50})
        launches.append(
            {"start_ns": at, "end_ns": at + 1, "correlation_id": cycle, "name": "cudaGraphLaunch"}
        )
        for place, row in enumerate(replay):
            times = {"start_ns": at + 10 + place, "end_ns": at + 11 + place}
            ops.append(times | {"correlation_id": cycle} | row)
    table = cycle_buckets(Measured(build(ops=ops, launches=launches, ranges=ranges)).phased)
    return table["bucket"].to_list()


def nodes(*ids: int) -> list[dict[str, Any]]:
    return [{"graph_node_id": node} for node in ids]


def test_a_graph_is_known_by_the_set_of_its_nodes() -> None:
    assert buckets([nodes(1, 4), nodes(4, 1), nodes(1, 4, 5), nodes(1, 4)]) == [0, 0, 1, 0]


def test_two_graphs_whose_node_ids_have_one_sum_are_two_graphs() -> None:
    assert buckets([nodes(1, 4), nodes(2, 3)]) == [0, 1]


@pytest.mark.parametrize("column", ["graph_id", "graph_exec_id"])
def test_a_whole_graph_row_is_known_by_its_graph(column: str) -> None:
    rows = [[{"kind": "graph", column: graph}] for graph in (8, 9, 8)]
    assert buckets(rows) == [0, 1, 0]


def test_a_graph_and_a_node_that_share_a_number_are_not_the_same() -> None:
    assert buckets([[{"graph_node_id": 7, "graph_id": 1}], nodes(1)]) == [0, 1]


def test_a_whole_graph_row_without_ids_is_a_graph_all_the_same() -> None:
    assert buckets([[{"kind": "graph"}], [{}], [{"kind": "graph"}]]) == [0, 1, 0]


@pytest.mark.parametrize("column", ["graph_id", "graph_exec_id"])
def test_ids_of_one_number_and_different_kinds_are_different_graphs(column: str) -> None:
    assert buckets([[{"kind": "graph", column: 1}], nodes(1)]) == [0, 1]


def test_of_several_graphs_in_one_forward_the_order_does_not_matter() -> None:
    one, other = ({"kind": "graph", "graph_exec_id": graph} for graph in (8, 9))
    assert buckets([[one, other], [other, one], [one]]) == [0, 0, 1]


def test_batch_and_kind_part_cycles_without_graphs() -> None:
    names = ["verify", "verify bs=4", "decode", "verify bs=4", "verify"]
    assert buckets([[{}]] * 5, names=names) == [0, 1, 2, 1, 0]


def test_ranks_that_replay_their_own_copies_of_a_graph_share_a_bucket() -> None:
    ops, launches, ranges = [], [], []
    for process in (0, 1):
        for cycle, graph in enumerate((5, 6, 5)):
            at = 100 * cycle
            ranges.append({"name": "verify", "start_ns": at, "end_ns": at + 9, "thread": process})
            launches.append(
                {"start_ns": at, "end_ns": at, "correlation_id": cycle, "thread": process}
            )
            ops.append(
                {
                    "start_ns": at + 10,
                    "end_ns": at + 20,
                    "correlation_id": cycle,
                    "process": process,
                    "graph_node_id": 1000 * process + graph,
                }
            )
    trace = build(ops=ops, launches=launches, ranges=ranges, threads=(0, 1))
    assert cycle_buckets(Measured(trace).phased)["bucket"].to_list() == [0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("told", [True, False])
def test_where_marks_tell_the_shape_it_matters_only_whether_a_graph_was_replayed(
    *, told: bool
) -> None:
    replays = [[{"kind": "graph", "graph_exec_id": 8}], nodes(1, 2), nodes(1, 2, 3), [{}]]
    ops, launches, ranges = [], [], []
    for cycle, replay in enumerate(replays, start=1):
        at = 100 * cycle
        times = {"start_ns": at, "end_ns": at + 50}
        ranges.append(times | {"name": "verify", "payload": cycle, "domain": "eagle"})
        payloads = {"batch": pack_batch(cycle, 2, 4, 0), "tokens": pack_tokens(cycle, 10, 12)}
        ranges += [
            {"start_ns": at, "end_ns": at, "style": "annotation", "name": f"eagle:{mark}:{number}"}
            for mark, number in payloads.items()
            if told
        ]
        launches.append(times | {"correlation_id": cycle, "end_ns": at + 1})
        for place, row in enumerate(replay):
            start = {"start_ns": at + 10 + place, "end_ns": at + 11 + place}
            ops.append(start | {"correlation_id": cycle} | row)
    table = cycle_buckets(Measured(build(ops=ops, launches=launches, ranges=ranges)).phased)
    assert table["bucket"].to_list() == ([0, 0, 0, 1] if told else [0, 1, 2, 3])
    if told:
        assert table.row(0, named=True) | {"bucket": 0} == {
            "bucket": 0,
            "kind": "verify",
            "batch": 2,
            "padded_batch": 4,
            "verified_tokens": 12,
            "draft_tokens": 10,
            "prompt_tokens": None,
            "graph": "CUDA graph",
        }
