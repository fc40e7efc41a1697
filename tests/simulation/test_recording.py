"""Recordings built by hand: what the writers make of each row, and what is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.errors import InputError
from traceanalyzer.simulation import Recording, truth_of, write_nsys_sqlite
from traceanalyzer.simulation.kernel_names import FILL
from traceanalyzer.simulation.recording import (
    ApiCall,
    Domain,
    Mark,
    Op,
    Process,
    Range,
    Thread,
)

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = Process(7, "one"), Process(8, "two")


def hand_made() -> tuple[Recording, Thread, Thread]:
    recording = Recording("made by hand", processes=[ONE, TWO])
    return recording, recording.thread(ONE, 70, "main"), recording.thread(ONE, 71, "other")


def nvtx(recording: Recording, path: Path, columns: str) -> list[tuple[object, ...]]:
    write_nsys_sqlite(recording, path)
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT {columns} FROM NVTX_EVENTS ORDER BY start").fetchall()


def test_start_end_ranges_number_their_handles_and_name_another_thread(tmp_path):
    recording, main, other = hand_made()
    recording.ranges += [
        Range(main, 10, 20, "same", style="start_end"),
        Range(main, 11, 30, "across", style="start_end", end_thread=other),
        Range(main, 12, 25, "pushed"),
    ]
    gid = 1 << 48 | 7 << 24
    assert nvtx(recording, tmp_path / "t", "eventType, rangeId, globalTid, endGlobalTid") == [
        (60, 1, gid | 70, None),
        (60, 2, gid | 70, gid | 71),
        (59, None, gid | 70, None),
    ]


def test_a_range_that_never_ended_ends_with_the_session(tmp_path):
    recording, main, _other = hand_made()
    recording.ranges += [Range(main, 10, None, "open"), Range(main, 11, 5_000, "closed")]
    assert nvtx(recording, tmp_path / "t", "end") == [(recording.end_ns,), (5_000,)]


def test_texts_are_registered_or_plain(tmp_path):
    recording, main, _other = hand_made()
    recording.ranges += [
        Range(main, 10, 20, "registered"),
        Range(main, 11, 20, "plain", registered=False),
    ]
    assert nvtx(recording, tmp_path / "t", "text, textId IS NULL") == [(None, 0), ("plain", 1)]


def test_domain_ids_count_up_in_each_process(tmp_path):
    recording, main, _other = hand_made()
    second = recording.thread(TWO, 80, "main")
    recording.domains += [
        Domain(main, 1, "NCCL"),
        Domain(main, 2, "eagle"),
        Domain(second, 3, "eagle"),
    ]
    recording.ranges += [
        Range(main, 10, 20, "a", "eagle", payload=5),
        Range(second, 11, 20, "b", "eagle"),
        Range(second, 12, 20, "c"),
    ]
    recording.marks.append(Mark(main, 13, "m", "NCCL", payload=1 << 62))
    assert nvtx(recording, tmp_path / "t", "eventType, domainId, text, int64Value") == [
        (75, 1, "NCCL", None),
        (75, 2, "eagle", None),
        (75, 1, "eagle", None),
        (59, 2, None, 5),
        (59, 1, None, None),
        (59, 0, None, None),
        (34, 1, None, 1 << 62),
    ]


def launch(recording: Recording, thread: Thread, correlation_id: int, *, phase: str) -> None:
    start_ns = 100 * correlation_id
    recording.calls.append(
        ApiCall(thread, start_ns, start_ns + 5, "cudaLaunchKernel_v7000", correlation_id)
    )
    recording.ops.append(
        Op(
            "kernel",
            thread.process,
            7,
            start_ns + 10,
            start_ns + 40,
            correlation_id,
            phase,
            "launch in range",
            kernel=FILL,
        )
    )


def test_truth_keeps_processes_apart():
    recording, main, _other = hand_made()
    second = recording.thread(TWO, 80, "main")
    launch(recording, main, 1, phase="draft")
    launch(recording, second, 1, phase="sample")
    launch(recording, second, 2, phase="sample")
    found = {
        (rank.process_id, name): (phase.kernels, phase.kernel_ns, phase.launches)
        for rank in truth_of(recording).ranks
        for name, phase in rank.phases.items()
    }
    assert found == {(7, "draft"): (1, 30, 1), (8, "sample"): (2, 60, 2)}


def test_refuses_a_span_that_runs_backwards(tmp_path):
    recording, main, _other = hand_made()
    recording.ranges.append(Range(main, 10, 9, "backwards"))
    with pytest.raises(InputError, match="ends before it starts"):
        write_nsys_sqlite(recording, tmp_path / "t")


def test_refuses_a_domain_that_its_process_never_created(tmp_path):
    recording, main, _other = hand_made()
    recording.domains.append(Domain(recording.thread(TWO, 80, "main"), 1, "eagle"))
    recording.ranges.append(Range(main, 10, 20, "a", "eagle"))
    with pytest.raises(InputError, match="no such domain"):
        write_nsys_sqlite(recording, tmp_path / "t")


def test_refuses_one_correlation_id_for_two_calls_of_a_process(tmp_path):
    recording, main, other = hand_made()
    launch(recording, main, 1, phase="draft")
    launch(recording, other, 1, phase="draft")
    with pytest.raises(InputError, match="correlation id 1 is used by 2 API calls"):
        write_nsys_sqlite(recording, tmp_path / "t")


def test_refuses_an_op_whose_launch_is_missing(tmp_path):
    recording, main, _other = hand_made()
    launch(recording, main, 1, phase="draft")
    recording.calls.clear()
    with pytest.raises(InputError, match="launch row and method disagree"):
        write_nsys_sqlite(recording, tmp_path / "t")
