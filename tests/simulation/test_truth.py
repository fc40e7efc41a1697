"""The truth about a recording, against SQL over its rows and against slow plain counting."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from nvtx_hooks import vocabulary
from tests.simulation.conftest import SERVERS, SMALL
from traceanalyzer.simulation import Eagle3Settings, eagle3_server, truth_of

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation import Recording, Truth
    from traceanalyzer.simulation.recording import Op
    from traceanalyzer.simulation.truth import CycleTruth

PHASE_RANGES = {
    "cycle": "other",
    "scheduler.run_batch": "other",
    "draft": "draft",
    "draft.step": "draft",
    "verify": "verify",
    "sample": "sample",
    "draft_extend": "draft_extend",
    "decode": "decode",
    "prefill": "prefill",
    "draft_prefill": "draft_prefill",
}

ATTRIBUTION = """
WITH op AS ({ops}),
launched AS (
    SELECT op.*, r.start AS call_start, r.end AS call_end, r.globalTid,
           row_number() OVER (PARTITION BY kind, op.number ORDER BY r.rowid) AS place
    FROM op LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
    ON r.correlationId = op.correlationId AND r.globalTid >> 24 = op.globalPid >> 24
    AND r.eventClass IN (0, 1)
),
phased AS (
    SELECT l.*, n.phase,
           row_number() OVER (
               PARTITION BY kind, number ORDER BY n.start DESC, n.end, n.place
           ) AS depth
    FROM launched l
    LEFT JOIN (
        SELECT e.start, e.end, e.globalTid, e.rowid AS place, p.phase
        FROM NVTX_EVENTS e
        LEFT JOIN StringIds s ON s.id = e.textId
        JOIN phases p ON p.range = coalesce(e.text, s.value)
        WHERE e.eventType IN (59, 60) AND e.endGlobalTid IS NULL
    ) n ON n.globalTid = l.globalTid AND n.start <= l.call_start AND l.call_end <= n.end
    WHERE l.place = 1
)
SELECT globalPid >> 24 & 0xFFFFFF, deviceId, coalesce(phase, 'unattributed'), kind,
       count(*), sum(end - start), count(DISTINCT CASE WHEN globalTid THEN correlationId END)
FROM phased WHERE depth = 1 GROUP BY 1, 2, 3, 4
"""

KINDS = {"kernel": "KERNEL", "memcpy": "MEMCPY", "memset": "MEMSET", "graph": "GRAPH_TRACE"}


def sums_by_sql(path: Path) -> dict[tuple[int, int, str, str], tuple[int, int]]:
    """Count and time by (process, device, phase, kind)."""
    with closing(sqlite3.connect(path)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        connection.execute("CREATE TEMP TABLE phases (range TEXT PRIMARY KEY, phase TEXT)")
        connection.executemany("INSERT INTO phases VALUES (?, ?)", PHASE_RANGES.items())
        ops = " UNION ALL ".join(
            f"SELECT '{kind}' AS kind, rowid AS number, start, end, deviceId, correlationId, "
            f"globalPid FROM CUPTI_ACTIVITY_KIND_{table}"
            for kind, table in KINDS.items()
            if f"CUPTI_ACTIVITY_KIND_{table}" in names
        )
        rows = connection.execute(ATTRIBUTION.format(ops=ops)).fetchall()
    return {tuple(row[:4]): tuple(row[4:6]) for row in rows}


def sums_by_truth(truth: Truth) -> dict[tuple[int, int, str, str], tuple[int, int]]:
    sums = {}
    for rank in truth.ranks:
        for phase, known in rank.phases.items():
            for kind, count, length in (
                ("kernel", known.kernels, known.kernel_ns),
                ("memcpy", known.memcpys, known.memcpy_ns),
                ("memset", known.memsets, known.memset_ns),
                ("graph", known.graph_rows, known.graph_row_ns),
            ):
                if count:
                    sums[rank.process_id, rank.device_id, phase, kind] = count, length
    return sums


def test_totals_are_what_sql_finds_by_the_definitions(server, server_file):
    _settings, recording = server
    assert sums_by_truth(truth_of(recording)) == sums_by_sql(server_file)


def test_totals_add_up_to_all_ops(server):
    _settings, recording = server
    ranks = truth_of(recording).ranks
    phases = [phase for rank in ranks for phase in rank.phases.values()]
    assert sum(phase.ops for phase in phases) == len(recording.ops)
    assert sum(len(rank.ops) for rank in ranks) == len(recording.ops)
    spent = sum(op.end_ns - op.start_ns for op in recording.ops)
    assert spent == sum(
        phase.kernel_ns + phase.graph_row_ns + phase.memcpy_ns + phase.memset_ns for phase in phases
    )


def test_launches_are_the_calls_that_caused_work(server):
    _settings, recording = server
    names = {(c.thread.process.process_id, c.correlation_id): c.name for c in recording.calls}
    for rank in truth_of(recording).ranks:
        for phase, known in rank.phases.items():
            called = {
                (rank.process_id, op.correlation_id) for op in rank.ops if op.phase == phase
            } & set(names)
            replays = [key for key in called if names[key].startswith("cudaGraphLaunch")]
            assert (known.launches, known.graph_launches) == (len(called), len(replays))


def test_windows_and_overlap_make_the_period(server):
    _settings, recording = server
    cycles = [cycle for rank in truth_of(recording).ranks for cycle in rank.cycles]
    assert cycles
    for cycle in cycles:
        if cycle.end_ns is not None:
            parts = sum(cycle.windows_ns.values()) + cycle.overlap_ns
            assert parts == cycle.end_ns - cycle.start_ns


def windows_by_trying_all(ops: list[Op], cycle: CycleTruth) -> tuple[dict[str, int], int]:
    """Windows of a cycle by asking every op at every border."""
    assert cycle.end_ns is not None
    times = {time for op in ops for time in (op.start_ns, op.end_ns)}
    inside = {time for time in times if cycle.start_ns < time < cycle.end_ns}
    windows: dict[str, int] = {}
    overlap_ns = 0
    for left, right in pairwise(sorted(inside | {cycle.start_ns, cycle.end_ns})):
        running = {op.phase for op in ops if op.start_ns <= left and right <= op.end_ns}
        if not running:
            running = {next(op.phase for op in ops if op.start_ns == right)}
        if len(running) > 1:
            overlap_ns += right - left
        else:
            owner = running.pop()
            windows[owner] = windows.get(owner, 0) + right - left
    return windows, overlap_ns


def test_windows_are_what_trying_everything_gives(server):
    _settings, recording = server
    truth = truth_of(recording).ranks[0]
    ops = sorted(
        (op for op in recording.ops if op.process is recording.processes[0]),
        key=lambda op: op.start_ns,
    )
    for cycle in truth.cycles[1:-1:2]:
        near = [op for op in ops if op.end_ns >= cycle.start_ns and op.start_ns <= cycle.end_ns]
        assert (cycle.windows_ns, cycle.overlap_ns) == windows_by_trying_all(near, cycle)


def test_cycles_run_from_one_target_forward_to_the_next(server):
    settings, recording = server
    for rank in truth_of(recording).ranks:
        assert len(rank.cycles) == settings.cycles
        for cycle, following in pairwise(rank.cycles):
            assert cycle.end_ns == following.start_ns
        firsts = {
            op.start_ns
            for op in rank.ops
            if op.phase in ("verify", "decode") and op.kind in ("kernel", "graph")
        }
        for cycle in rank.cycles:
            assert cycle.start_ns in firsts
            mine = [
                op.start_ns
                for op in rank.ops
                if op.iteration == cycle.number
                and op.phase in ("verify", "decode")
                and op.kind in ("kernel", "graph")
            ]
            assert cycle.start_ns == min(mine)


def test_status_says_which_cycles_can_be_averaged(server):
    settings, recording = server
    iterations = {row.number: row for row in recording.iterations}
    for rank in truth_of(recording).ranks:
        prefills = [op.start_ns for op in rank.ops if op.phase in ("prefill", "draft_prefill")]
        for cycle in rank.cycles:
            row = iterations[cycle.number]
            end_ns = cycle.end_ns
            holds = end_ns and any(cycle.start_ns <= time < end_ns for time in prefills)
            reasons = {
                "warm_up": row.warm_up,
                "dummy": row.dummy,
                "edge": end_ns is None,
                "interrupted": holds,
                "kept": True,
            }
            assert cycle.status == next(name for name, true in reasons.items() if true)
        states = [cycle.status for cycle in rank.cycles]
        assert states.count("warm_up") == settings.warm_up_cycles
        assert states.count("kept") > 2


def test_buckets_are_means_over_kept_cycles_of_one_shape(server):
    _settings, recording = server
    truth = truth_of(recording)
    kept = [cycle for rank in truth.ranks for cycle in rank.cycles if cycle.status == "kept"]
    assert sum(bucket.cycles for bucket in truth.buckets) == len(kept)
    for bucket in truth.buckets:
        shape = (bucket.kind, bucket.batch_size, bucket.draft_tokens, bucket.verified_tokens)
        own = [
            cycle
            for cycle in kept
            if shape == (cycle.kind, cycle.batch_size, cycle.draft_tokens, cycle.verified_tokens)
        ]
        assert bucket.cycles == len(own)
        spans = [cycle.end_ns - cycle.start_ns for cycle in own]
        assert bucket.period_ns == pytest.approx(sum(spans) / len(own))
        assert sum(bucket.windows_ns.values()) + bucket.overlap_ns == pytest.approx(
            bucket.period_ns
        )
        first = [cycle for cycle in truth.ranks[0].cycles if cycle in own]
        counts = [0] * (bucket.draft_tokens + 1)
        for cycle in first:
            for accepted in cycle.accepted_drafts:
                counts[accepted] += 1
        if bucket.draft_tokens:
            assert bucket.acceptance is not None
            assert list(bucket.acceptance.accepted_histogram) == counts
        else:
            assert bucket.acceptance is None


def test_other_is_inside_a_cycle_range_and_unattributed_is_not(small):
    ranks = truth_of(small).ranks
    other = [op for rank in ranks for op in rank.ops if op.phase == "other"]
    lost = [op for rank in ranks for op in rank.ops if op.phase == "unattributed"]
    assert {op.method for op in other} == {"launched outside ranges"}
    assert {op.method for op in lost} == {"launched outside ranges", "no launch row"}
    # A launch that straddles the end of `cycle` is still inside the scheduler's own range.
    assert {op.iteration is None for op in other} == {False, True}
    assert all(op.iteration is None for op in lost)


def test_without_cycle_ranges_nothing_is_other():
    ranks = truth_of(eagle3_server(SERVERS["no cycle ranges"])).ranks
    assert all("other" not in rank.phases for rank in ranks)


def test_draft_ops_carry_their_step(small):
    for rank in truth_of(small).ranks:
        replayed = [op for op in rank.ops if op.phase == "draft" and op.step is not None]
        assert {op.step for op in replayed} == set(range(SMALL.draft_tokens - 1))
        assert not any(op.step is not None for op in rank.ops if op.phase != "draft")


def unpacked(recording: Recording, name: str) -> list[dict[str, int]]:
    return [vocabulary.unpack(name, mark.payload) for mark in recording.marks if mark.name == name]


def test_marks_say_in_the_hooks_vocabulary_what_was_run(server):
    settings, recording = server
    if not settings.marks:
        pytest.skip("no marks in this one")
    iterations = recording.iterations
    flags = vocabulary.Flags
    batches = {row["cycle"]: row for row in unpacked(recording, vocabulary.BATCH)}
    tokens = {row["cycle"]: row for row in unpacked(recording, vocabulary.TOKENS)}
    assert unpacked(recording, vocabulary.ACCEPT) == [
        {
            "cycle": row.number,
            "request": request,
            "k": row.draft_tokens,
            "accepted": accepted,
            "flags": 0,
        }
        for row in iterations
        for request, accepted in zip(row.requests, row.accepted_drafts, strict=True)
        if settings.speculates
    ]
    for row in iterations:
        assert batches[row.number] == {
            "cycle": row.number,
            "requests": row.batch_size,
            "padded_requests": row.batch_size if row.replayed else 0,
            "flags": flags.WARM_UP * row.warm_up + flags.DUMMY * row.dummy,
        }
        assert tokens[row.number] == {
            "cycle": row.number,
            "drafted": row.draft_tokens * row.batch_size,
            "verified": row.verified_tokens * row.batch_size,
        }
    assert [row["tokens"] for row in unpacked(recording, vocabulary.PROMPT)] == [2048] * (
        1 + settings.cycles // settings.prefill_every
    )
    assert [(row["tp_rank"], row["tp_size"]) for row in unpacked(recording, vocabulary.RANKS)] == [
        (rank, settings.server_ranks) for rank in range(settings.ranks)
    ]


def test_ranges_speak_the_hooks_vocabulary(small):
    ours = {row.name for row in small.ranges if row.domain == vocabulary.DOMAIN}
    assert ours <= set(vocabulary.RANGES)
    assert ours >= {"cycle", "draft", "verify", "sample", "draft_extend", "prefill", "warm_up"}


def test_truth_survives_json(small):
    truth = truth_of(small)
    short, full = truth.as_json(), truth.as_json(ops=True)
    assert (
        json.loads(json.dumps(full))["ranks"][0]["ops"][0]["phase"] == truth.ranks[0].ops[0].phase
    )
    assert short["simulated"] is True
    assert "ops" not in short["ranks"][0]
    assert len(full["ranks"][0]["ops"]) == len(truth.ranks[0].ops)


def test_acceptance_is_geometric():
    settings = replace(
        Eagle3Settings.seed_case(cycles=60, ranks=1), exact=False, layers=1, batch_sizes=(32,)
    )
    rows = eagle3_server(settings).iterations
    accepted = [drafts for row in rows for drafts in row.accepted_drafts]
    assert len(accepted) == 60 * 32
    chance = settings.accept_probability
    mean = sum(chance**position for position in range(1, settings.draft_tokens + 1))
    assert sum(accepted) / len(accepted) == pytest.approx(mean, abs=0.12)
    assert max(accepted) == settings.draft_tokens
