"""What every simulated export must hold: references that resolve, and the hard cases it is for."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.simulation.conftest import SERVERS, SMALL
from traceanalyzer.errors import InputError
from traceanalyzer.simulation import Eagle3Settings, eagle3_server

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation import Recording
    from traceanalyzer.simulation.recording import Range, Thread

OP_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def values(path: Path, query: str) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def op_tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [table for table in OP_TABLES if table in tables(connection)]


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("NVTX_EVENTS", "textId"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"),
        ("ThreadNames", "nameId"),
    ],
)
def test_string_ids_resolve(server_file, table, column):
    lost = f"SELECT count(*) FROM {table} WHERE {column} NOT IN (SELECT id FROM StringIds)"
    assert values(server_file, lost) == [(0,)]


def test_each_op_has_its_launch_but_the_orphans(server, server_file):
    settings, _recording = server
    for table in op_tables(server_file):
        lost = values(
            server_file,
            f"SELECT count(*) FROM {table} o WHERE NOT EXISTS (SELECT 1 FROM "
            "CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = o.correlationId "
            "AND r.globalTid >> 24 = o.globalPid >> 24)",
        )
        orphans = settings.orphan_kernels * settings.ranks if table.endswith("KERNEL") else 0
        assert lost == [(orphans,)]


def test_processes_and_threads_are_declared(server_file):
    for table in op_tables(server_file):
        lost = (
            f"SELECT count(*) FROM {table} WHERE globalPid NOT IN (SELECT globalPid FROM PROCESSES)"
        )
        assert values(server_file, lost) == [(0,)]
    for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"):
        lost = (
            f"SELECT count(*) FROM {table} "
            "WHERE globalTid NOT IN (SELECT globalTid FROM ThreadNames)"
        )
        assert values(server_file, lost) == [(0,)]


def test_domains_are_created_by_their_own_process(server_file):
    lost = """
        SELECT count(*) FROM NVTX_EVENTS e WHERE domainId > 0 AND eventType != 75 AND NOT EXISTS (
            SELECT 1 FROM NVTX_EVENTS d WHERE d.eventType = 75 AND d.domainId = e.domainId
            AND d.globalTid >> 24 = e.globalTid >> 24)
    """
    assert values(server_file, lost) == [(0,)]


def test_no_op_call_or_range_runs_backwards(server_file):
    for table in (*op_tables(server_file), "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        assert values(server_file, f"SELECT count(*) FROM {table} WHERE end < start") == [(0,)]


def test_no_op_starts_before_the_call_that_launches_it(server):
    _settings, recording = server
    calls = {(call.thread.process, call.correlation_id): call for call in recording.calls}
    for op in recording.ops:
        if op.method != "no launch row":
            assert op.start_ns > calls[op.process, op.correlation_id].start_ns


def test_ops_of_one_stream_run_one_after_another(server):
    _settings, recording = server
    streams = defaultdict(list)
    for op in recording.ops:
        streams[op.process, op.stream_id].append(op)
    for ops in streams.values():
        ops.sort(key=lambda op: op.start_ns)
        for before, after in pairwise(ops):
            assert before.end_ns <= after.start_ns


def test_correlation_ids_are_unique_in_a_process_and_collide_between_ranks(small):
    phases = defaultdict(dict)
    for op in small.ops:
        phases[op.correlation_id].setdefault(op.process.process_id, set()).add(op.phase)
    shared = [by_process for by_process in phases.values() if len(by_process) == 2]
    misleading = [both for both in shared if len(set(map(frozenset, both.values()))) == 2]
    assert len(shared) > 0.5 * len(phases)
    assert len(misleading) > 0.1 * len(shared), "a join without the process must go wrong"


def crossing(recording: Recording, name: str) -> int:
    """API calls that overlap a border of a range of that name on their own thread."""
    count = 0
    for row in recording.ranges:
        if row.name != name or row.end_ns is None:
            continue
        for call in recording.calls:
            if call.thread is row.thread:
                count += call.start_ns < row.start_ns < call.end_ns
                count += call.start_ns < row.end_ns < call.end_ns
    return count


def test_launches_straddle_range_borders(small):
    turns = SMALL.cycles // SMALL.straddle_every * SMALL.ranks
    assert turns == 6
    for name in ("draft", "sample", "draft_extend", "cycle"):
        assert crossing(small, name) == turns


def test_nothing_straddles_when_not_asked():
    recording = eagle3_server(replace(SMALL, straddle_every=0, cycles=6))
    for name in ("draft", "verify", "sample", "draft_extend", "cycle"):
        assert crossing(recording, name) == 0


def open_at(recording: Recording, thread: Thread, time_ns: int) -> list[Range]:
    return [
        row
        for row in recording.ranges
        if row.thread is thread
        and row.style == "push_pop"
        and row.start_ns <= time_ns < (row.end_ns or recording.end_ns)
    ]


def misled_share(recording: Recording) -> float:
    """Share of verify ops whose GPU start falls into no verify range of their iteration."""
    main = {thread.process: thread for thread in reversed(recording.threads)}
    ops = [op for op in recording.ops if op.phase == "verify" and op.kind == "kernel"]
    misled = 0
    for op in ops:
        ranges = open_at(recording, main[op.process], op.start_ns)
        misled += not any(row.name == "verify" and row.payload == op.iteration for row in ranges)
    return misled / len(ops)


def test_the_gpu_runs_behind_so_that_time_overlap_misleads(small):
    assert misled_share(small) > 0.95


@pytest.mark.parametrize("lag_cycles", [0, 1, 2])
def test_lag_is_the_number_of_iterations_the_cpu_is_ahead(lag_cycles):
    recording = eagle3_server(replace(SMALL, lag_cycles=lag_cycles, prefill_every=0))
    results = {
        (row.thread.process, place): row
        for process in recording.processes
        for place, row in enumerate(
            row
            for row in recording.ranges
            if row.name == "scheduler.process_batch_result" and row.thread.process is process
        )
    }
    begun = {
        (row.thread.process, row.payload): row.start_ns
        for row in recording.ranges
        if row.name == "cycle"
    }
    numbers = [iteration.number for iteration in recording.iterations]
    for (process, place), row in results.items():
        ahead = place + lag_cycles
        if ahead + 1 < len(numbers):
            assert begun[process, numbers[ahead]] < row.start_ns
            assert begun[process, numbers[ahead + 1]] > row.end_ns


def test_replayed_nodes_share_their_launch_and_lead_back_to_the_capture(small):
    originals = {
        (node.thread.process, node.node_id): node
        for node in small.graph_nodes
        if node.original_id is None
    }
    clones = {
        (node.thread.process, node.node_id): node.original_id
        for node in small.graph_nodes
        if node.original_id is not None
    }
    replayed = defaultdict(list)
    for op in small.ops:
        if op.graph_node_id is not None:
            replayed[op.process, op.correlation_id].append(op)
    assert replayed
    for (process, _correlation_id), ops in replayed.items():
        assert len(ops) > 5
        assert len({op.graph_node_id for op in ops}) == len(ops)
        born_in = {
            row.name
            for op in ops
            for row in open_at(
                small,
                originals[process, clones[process, op.graph_node_id]].thread,
                originals[process, clones[process, op.graph_node_id]].time_ns,
            )
        }
        assert born_in == {"capture", ops[0].phase}


def test_graph_mode_writes_one_row_a_replay():
    recording = eagle3_server(SERVERS["graph rows"])
    launches = {
        (call.thread.process, call.correlation_id)
        for call in recording.calls
        if call.name.startswith("cudaGraphLaunch")
    }
    rows = [(op.process, op.correlation_id) for op in recording.ops if op.kind == "graph"]
    assert sorted(rows, key=repr) == sorted(launches, key=repr)
    assert not recording.graph_nodes


def test_whatever_was_captured_before_the_session_has_negative_times():
    recording = eagle3_server(replace(SMALL, capture_recorded=False, cycles=3))
    assert all(graph.time_ns < 0 for graph in recording.graphs)
    assert all(node.time_ns < 0 for node in recording.graph_nodes)
    assert all(domain.time_ns < 0 for domain in recording.domains)
    assert not any(row.name == "capture" for row in recording.ranges)


def test_collectives_end_together_and_early_ranks_wait():
    settings = replace(SMALL, slow_rank_share=0.2, straddle_every=0)
    recording = eagle3_server(settings)
    by_end = defaultdict(list)
    for op in recording.ops:
        if op.wait_ns is not None:
            by_end[op.end_ns, op.kernel.short].append(op)
    assert by_end
    for ops in by_end.values():
        assert len(ops) == settings.ranks
        last = max(op.start_ns for op in ops)
        assert [op.wait_ns for op in ops] == [last - op.start_ns for op in ops]
    waits = [0, 0]
    for op in recording.ops:
        waits[recording.processes.index(op.process)] += op.wait_ns or 0
    assert waits[0] > 5 * waits[1], "the quick rank waits for the slow one"


def test_request_ranges_are_closed_by_either_thread_or_never(small):
    requests = [row for row in small.ranges if row.style == "start_end"]
    assert {row.end_thread is None for row in requests} == {True, False}
    assert any(row.end_ns is None for row in requests)


def test_a_second_thread_works_while_verify_is_open(small):
    verify = [row for row in small.ranges if row.name == "verify" and row.payload]
    offloads = [row for row in small.ranges if row.name == "kv_offload"]
    assert len(offloads) == len(verify)
    for row in offloads:
        assert any(
            outer.thread.process is row.thread.process
            and outer.thread is not row.thread
            and outer.start_ns < row.start_ns < outer.end_ns
            for outer in verify
        )


def test_prefill_falls_between_iterations(small):
    cycles = [row for row in small.ranges if row.name == "cycle"]
    prefills = [row for row in small.ranges if row.name == "prefill"]
    assert len(prefills) == SMALL.ranks * (1 + SMALL.cycles // SMALL.prefill_every)
    for row in prefills:
        assert not any(
            cycle.thread is row.thread
            and cycle.start_ns < row.end_ns
            and row.start_ns < cycle.end_ns
            for cycle in cycles
        )


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"ranks": 0}, "ranks"),
        ({"draft_tokens": 256}, "draft_tokens"),
        ({"detail_ranks": 3}, "detail_ranks"),
        ({"model": "sparse"}, "model"),
        ({"gpu": "abacus"}, "gpu"),
        ({"graph_share": 1.5}, "graph_share"),
        ({"graph_mode": "nodes"}, "graph_mode"),
        ({"batch_sizes": (65,)}, "batch_sizes"),
        ({"batch_sizes": ()}, "batch_sizes"),
    ],
)
def test_impossible_settings_are_refused(change, where):
    with pytest.raises(InputError) as caught:
        Eagle3Settings(**change)
    assert caught.value.where == where


def test_a_phase_too_short_for_its_kernels_is_refused():
    with pytest.raises(InputError, match="too short for 24 kernels"):
        eagle3_server(replace(SMALL, draft_ms=0.02))
