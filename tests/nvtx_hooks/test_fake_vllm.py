from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from nvtx_hooks.vocabulary import Flags, request_hash
from tests.nvtx_hooks.fakes import Process, run_fake

if TYPE_CHECKING:
    from pathlib import Path


def engine(version: str, folder: Path, *arguments: str) -> tuple[Process, list[Process]]:
    """The engine core's process and its workers' after a run."""
    processes = run_fake(version, "fake_vllm.py", folder, *arguments)
    for process in processes:
        assert process.report["violations"] == []
        assert process.report["failures"] == {}
    (core,) = [process for process in processes if process.account("engine core")]
    workers = [process for process in processes if process.account("worker")]
    workers.sort(key=lambda worker: int(worker.account("worker")[0]["rank"]))
    return core, workers


def assert_rows_are_true(core: Process) -> None:
    """Every row and every overshoot is the engine's own, in the step that launched it."""
    account = iter(core.account("row"))
    expected, lost = [], []
    for number, step in enumerate(core.account("step"), 1):
        for _ in range(step["drafted"] // 3):
            row = next(account)
            flags = Flags.STALE if row["stale"] else Flags.OVERSHOOT if row["overshoot"] else 0
            name = request_hash(row["rid"])
            expected.append(
                {
                    "cycle": number,
                    "request": name,
                    "k": row["k"],
                    "accepted": row["accepted"],
                    "flags": flags,
                }
            )
            if row["overshoot"]:
                lost.append({"cycle": number, "request": name, "tokens": row["overshoot"]})
    assert next(account, None) is None
    assert core.recording.marked("accept") == expected
    assert core.recording.marked("overshoot") == lost


def test_scheduler_and_worker_in_two_processes(tmp_path: Path) -> None:
    core, (worker,) = engine("vllm_0_11", tmp_path)
    assert_rows_are_true(core)
    live = [mark for mark in core.recording.marked("accept") if not mark["flags"] & Flags.STALE]
    stats = core.account("stats")
    assert len(live) == len(stats)
    assert sum(mark["accepted"] for mark in live) == sum(line["accepted"] for line in stats)
    assert sum(mark["k"] for mark in live) == sum(line["drafted"] for line in stats)
    assert not core.recording.marked("batch")
    assert not worker.recording.marked("accept")
    # The number is the scheduler's on both sides, and the signatures say the same.
    scheduled = [r.payload for r in core.recording.of("schedule")]
    assert [r.payload for r in worker.recording.of("verify")] == scheduled[1:]
    assert [r.payload for r in worker.recording.of("cycle")] == scheduled[1:]
    assert worker.recording.marked("signature") == core.recording.marked("signature")
    assert worker.recording.marked("batch")[1] == {
        "cycle": 2,
        "requests": 3,
        "padded_requests": 4,
        "flags": 0,
    }
    assert worker.recording.marked("tokens")[0] == {"cycle": 2, "drafted": 9, "verified": 12}
    assert worker.recording.marked("prompt") == [{"cycle": 1, "requests": 3, "tokens": 39}]


def test_forwards_of_one_proposal_are_told_apart(tmp_path: Path) -> None:
    _, (worker,) = engine("vllm_0_11", tmp_path)
    recording = worker.recording
    steps = len(worker.account("executed"))
    assert recording.count("draft_prefill") == 1
    assert recording.count("draft_extend") == steps - 1
    assert recording.count("draft") == steps
    assert recording.count("draft.step") == 2 * steps
    assert {r.inside[-1] for r in recording.of("draft.step")} == {"draft"}
    assert all("draft" not in r.inside for r in recording.of("draft_extend"))
    second = [r.name for r in recording.ranges if r.payload == 2]
    assert second == [
        "verify",
        "sample",
        "draft_extend",
        "draft.step",
        "draft.step",
        "draft",
        "cycle",
    ]
    # The prefill has a number but is no cycle.
    assert next(r.name for r in recording.ranges if r.payload == 1) == "prefill"
    assert all(r.inside == () for r in recording.ranges if r.payload == 1 and r.name == "prefill")


def test_dummy_runs_have_no_number(tmp_path: Path) -> None:
    _, (worker,) = engine("vllm_0_11", tmp_path)
    dummies = [r for r in worker.recording.ranges if r.payload == 0]
    assert [(r.name, r.inside) for r in dummies] == [
        ("dummy", ("warm_up",)),
        ("warm_up", ()),
        ("dummy", ("capture",)),
        ("capture", ()),
    ]


def test_mixed_batches_and_one_draft(tmp_path: Path) -> None:
    core, (worker,) = engine("vllm_0_11", tmp_path, "--prompt-chunk", "10")
    assert_rows_are_true(core)
    assert worker.recording.count("mixed") > 0
    mixed = {r.payload for r in worker.recording.of("mixed")}
    for cycle in mixed:
        tokens = [m for m in worker.recording.marked("tokens") if m["cycle"] == cycle]
        prompt = [m for m in worker.recording.marked("prompt") if m["cycle"] == cycle]
        (step,) = [s for n, s in enumerate(core.account("step"), 1) if n == cycle]
        assert tokens[0]["verified"] + prompt[0]["tokens"] == step["tokens"]
        assert tokens[0]["drafted"] == step["drafted"]


def test_plain_decode_is_the_baseline(tmp_path: Path) -> None:
    core, (worker,) = engine("vllm_0_11", tmp_path, "--num-speculative-tokens", "0")
    assert not core.recording.marked("accept")
    names = Counter(r.name for r in worker.recording.ranges if r.payload > 1)
    steps = len(worker.account("executed")) - 1
    assert names == {"cycle": steps, "decode": steps, "sample": steps}
    assert worker.recording.marked("tokens")[0] == {"cycle": 2, "drafted": 0, "verified": 3}


def test_aborted_request_is_stale(tmp_path: Path) -> None:
    core, _ = engine("vllm_0_11", tmp_path, "--abort")
    assert_rows_are_true(core)
    assert [m["flags"] for m in core.recording.marked("accept")].count(Flags.STALE) == 1


def test_exception_of_the_host_ends_the_cycle(tmp_path: Path) -> None:
    _, (worker,) = engine("vllm_0_11", tmp_path, "--fail-once")
    assert len(worker.account("raised")) == 1
    first = [r.name for r in worker.recording.ranges if r.payload == 1]
    assert first[:3] == ["prefill", "prefill", "sample"]


def test_workers_of_one_group_agree_and_one_emits_marks(tmp_path: Path) -> None:
    _, workers = engine("vllm_0_11", tmp_path, "--tensor-parallel-size", "2")
    first, second = (worker.recording for worker in workers)
    assert [(r.name, r.payload) for r in first.ranges] == [
        (r.name, r.payload) for r in second.ranges
    ]
    assert {mark.name for mark in first.marks} == {
        "ranks",
        "batch",
        "tokens",
        "prompt",
        "signature",
    }
    assert {mark.name for mark in second.marks} == {"ranks"}
    assert [r.marked("ranks")[0]["tp_rank"] for r in (first, second)] == [0, 1]


@pytest.mark.parametrize("graphs", [False, True])
def test_second_runner_one_step_ahead(graphs: bool, tmp_path: Path) -> None:
    arguments = ("--use-graphs",) if graphs else ()
    core, (worker,) = engine("vllm_0_33", tmp_path, "--max-tokens", "20", *arguments)
    assert worker.recording is core.recording or worker.truth == core.truth
    assert_rows_are_true(core)
    recording = core.recording
    assert sum(m["flags"] == Flags.STALE for m in recording.marked("accept")) == 3
    steps = len(core.account("executed"))
    assert recording.count("verify") == recording.count("cycle") == steps - 1
    live = [r for r in recording.ranges if r.payload]
    names = Counter(r.name for r in live)
    assert names["draft_extend"] == steps - 1
    assert names["draft"] == steps
    assert names["draft.step"] == (0 if graphs else 2 * steps)
    assert [r.payload for r in recording.of("cycle")] == list(range(2, steps + 1))
    # Both sides of a step are in one process here, so each signature comes twice.
    signatures = recording.marked("signature")
    assert signatures[::2] == signatures[1::2]


def test_steps_are_named_while_a_graph_is_captured(tmp_path: Path) -> None:
    core, _ = engine("vllm_0_33", tmp_path)
    captured = [(r.name, r.inside) for r in core.recording.ranges if "capture" in r.inside]
    assert captured == [
        ("draft_extend", ("capture",)),
        ("draft.step", ("capture", "draft")),
        ("draft", ("capture",)),
    ]
