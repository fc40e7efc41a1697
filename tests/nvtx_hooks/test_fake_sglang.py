from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from nvtx_hooks.vocabulary import Flags, request_hash
from tests.nvtx_hooks.fakes import Process, run_fake

if TYPE_CHECKING:
    from pathlib import Path

SYNCHRONOUS = [("sglang_0_4_9", ()), ("sglang_0_5_12", ("--disable-overlap-schedule",))]
LATE = ["sglang_0_5_12", "sglang_0_5_23"]
RowSeen = tuple[int, int, int, int, int]


def rows(process: Process) -> list[RowSeen]:
    """Cycle, request, k, accepted and flags of every accept mark, in order."""
    return [
        (mark["cycle"], mark["request"], mark["k"], mark["accepted"], mark["flags"])
        for mark in process.recording.marked("accept")
    ]


def true_rows(process: Process) -> list[RowSeen]:
    """The same from the engine's own account: every row belongs to the step that launched it."""
    account = iter(process.account("row"))
    found = []
    for number, step in enumerate(process.account("step"), 1):
        if step["mode"] == "DECODE":
            for _ in range(step["requests"]):
                row = next(account)
                flags = Flags.STALE if row["stale"] else Flags.OVERSHOOT if row["overshoot"] else 0
                name = request_hash(row["rid"])
                found.append((number, name, row["k"], row["accepted"], int(flags)))
    assert next(account, None) is None
    return found


def overshoots(process: Process) -> Counter[int]:
    """Overshoot marks, tokens by request."""
    return Counter(
        {mark["request"]: mark["tokens"] for mark in process.recording.marked("overshoot")}
    )


def true_overshoots(process: Process) -> Counter[int]:
    return Counter(
        {
            request_hash(row["rid"]): row["overshoot"]
            for row in process.account("row")
            if row["overshoot"]
        }
    )


def assert_clean(process: Process) -> None:
    """No hook has read a tensor, synchronised, or failed."""
    assert process.report["violations"] == []
    assert process.report["failures"] == {}


@pytest.mark.parametrize(("version", "arguments"), SYNCHRONOUS)
def test_synchronous_worker(version: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    (scheduler,) = run_fake(version, "fake_server.py", tmp_path, *arguments)
    assert_clean(scheduler)
    recording, steps = scheduler.recording, scheduler.account("step")
    cycles = len(steps) - 1
    assert cycles > 3
    assert rows(scheduler) == true_rows(scheduler)
    assert overshoots(scheduler) == true_overshoots(scheduler)
    assert [found.payload for found in recording.of("cycle")] == list(range(2, cycles + 2))
    assert recording.count("verify") == cycles
    assert {found.inside for found in recording.of("verify")} == {("cycle",)}
    assert {found.inside for found in recording.of("draft_extend")} == {("cycle",)}
    # The cycle in which the last request ends is not extended.
    assert recording.count("draft_extend") == cycles - 1
    assert recording.count("draft.step") == 2 * cycles
    assert [(r.payload, r.inside) for r in recording.of("prefill")] == [(1, ())]
    assert [(r.payload, r.inside) for r in recording.of("draft_prefill")] == [(1, ())]
    assert sum(r.inside == ("cycle", "verify") for r in recording.of("sample")) == cycles
    assert recording.marked("prompt") == [{"cycle": 1, "requests": 3, "tokens": 30}]
    assert recording.marked("batch")[1] == {
        "cycle": 2,
        "requests": 3,
        "padded_requests": 4,
        "flags": 0,
    }
    assert recording.marked("tokens")[0] == {"cycle": 2, "drafted": 9, "verified": 12}


def test_graph_capture_is_told_apart(tmp_path: Path) -> None:
    (scheduler,) = run_fake("sglang_0_4_9", "fake_server.py", tmp_path)
    captured = [r for r in scheduler.recording.of("draft") if "capture" in r.inside]
    assert [(r.payload, r.inside) for r in captured] == [(0, ("capture",))]
    assert scheduler.recording.count("capture") == 1


def test_plain_decode_is_the_baseline(tmp_path: Path) -> None:
    (scheduler,) = run_fake(
        "sglang_0_4_9", "fake_server.py", tmp_path, "--speculative-num-steps", "0"
    )
    assert_clean(scheduler)
    recording, steps = scheduler.recording, scheduler.account("step")
    assert recording.count("decode") == recording.count("cycle") == len(steps) - 1
    assert {r.inside for r in recording.of("decode")} == {("cycle",)}
    assert [r.payload for r in recording.of("prefill")] == [1]
    assert recording.marked("tokens")[0] == {"cycle": 2, "drafted": 0, "verified": 3}
    assert recording.marked("batch")[1]["padded_requests"] == 4
    assert not recording.marked("accept")
    assert {r.name for r in recording.ranges} == {"cycle", "decode", "prefill", "sample"}


def test_idle_step_is_flagged_and_has_no_rows(tmp_path: Path) -> None:
    (scheduler,) = run_fake("sglang_0_4_9", "fake_server.py", tmp_path, "--idle-step")
    assert_clean(scheduler)
    assert scheduler.recording.marked("batch")[1] == {
        "cycle": 2,
        "requests": 0,
        "padded_requests": 0,
        "flags": Flags.IDLE,
    }
    assert rows(scheduler) == true_rows(scheduler)
    assert min(row[0] for row in rows(scheduler)) == 3


def test_exception_of_the_host_passes_and_ranges_close(tmp_path: Path) -> None:
    (scheduler,) = run_fake("sglang_0_4_9", "fake_server.py", tmp_path, "--fail-in-verify")
    assert_clean(scheduler)
    assert scheduler.account("raised") == [
        {"kind": "raised", "text": "simulated failure in verify"}
    ]
    failed = [r for r in scheduler.recording.ranges if r.payload == 2]
    assert [r.name for r in failed] == ["draft.step", "draft.step", "draft", "verify", "cycle"]
    assert all(mark["cycle"] != 2 for mark in scheduler.recording.marked("accept"))
    assert scheduler.recording.marked("accept")[0]["cycle"] == 3


@pytest.mark.parametrize("version", LATE)
def test_late_results_land_in_their_own_cycle(version: str, tmp_path: Path) -> None:
    (scheduler,) = run_fake(version, "fake_server.py", tmp_path, "--max-new-tokens", "20")
    assert_clean(scheduler)
    assert rows(scheduler) == true_rows(scheduler)
    assert overshoots(scheduler) == true_overshoots(scheduler)
    stale = [row for row in rows(scheduler) if row[4] == Flags.STALE]
    assert len(stale) == 3, "every request is verified once more after its end"
    cycles = len(scheduler.account("step")) - 1
    assert scheduler.recording.count("cycle") == cycles
    assert scheduler.recording.count("draft_extend") == cycles
    assert scheduler.recording.count("sample") == cycles + 1
    # A mark is emitted while a later cycle, or none, is open: its own payload says whose it is.
    late = [m for m in scheduler.recording.marks if m.name == "accept"]
    assert {m.inside for m in late} == {()}


def test_late_worker_without_overlap_has_no_stale_rows(tmp_path: Path) -> None:
    (scheduler,) = run_fake(
        "sglang_0_5_23", "fake_server.py", tmp_path, "--disable-overlap-schedule"
    )
    assert_clean(scheduler)
    assert rows(scheduler) == true_rows(scheduler)
    assert all(row[4] != Flags.STALE for row in rows(scheduler))


def test_cycle_without_drafts_is_a_decode(tmp_path: Path) -> None:
    (scheduler,) = run_fake("sglang_0_5_23", "fake_server.py", tmp_path, "--idle-step")
    assert_clean(scheduler)
    recording = scheduler.recording
    undrafted = {r.payload for r in recording.of("decode")}
    assert undrafted
    assert undrafted.isdisjoint({r.payload for r in recording.of("draft")})
    assert undrafted.isdisjoint({r.payload for r in recording.of("verify")})
    assert {mark["k"] for mark in recording.marked("accept") if mark["cycle"] in undrafted} == {0}
    tokens = {mark["cycle"]: mark for mark in recording.marked("tokens")}
    requests = {mark["cycle"]: mark["requests"] for mark in recording.marked("batch")}
    for cycle in undrafted:
        assert tokens[cycle] == {"cycle": cycle, "drafted": 0, "verified": requests[cycle]}


def test_one_rank_of_a_tensor_parallel_group_emits_marks(tmp_path: Path) -> None:
    both = run_fake("sglang_0_5_23", "fake_server.py", tmp_path, "--tp-size", "2")
    by_rank = {process.recording.marked("ranks")[0]["tp_rank"]: process for process in both}
    assert set(by_rank) == {0, 1}
    first, second = by_rank[0].recording, by_rank[1].recording
    assert Counter(r.name for r in first.ranges) == Counter(r.name for r in second.ranges)
    assert [r.payload for r in first.of("cycle")] == [r.payload for r in second.of("cycle")]
    assert first.marked("ranks")[0]["tp_size"] == second.marked("ranks")[0]["tp_size"] == 2
    assert {mark.name for mark in second.marks} == {"ranks"}
    assert rows(by_rank[0]) == true_rows(by_rank[0])
