from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from nvtx_hooks.vocabulary import Flags, request_hash
from tests.nvtx_hooks.fakes import Process, run_fake

if TYPE_CHECKING:
    from pathlib import Path

    from tests.nvtx_hooks.recorded import Range, Recording

OWN = "TensorRT-LLM: "
WHOLE_CYCLE = "fused(draft, verify, sample, draft_extend)"
SETUPS = {
    "two models": ("tensorrt_llm_1_2", "--with-drafter", "--disable-overlap"),
    "two models, overlap": ("tensorrt_llm_1_2", "--with-drafter"),
    "static loop": ("tensorrt_llm_1_2", "--with-drafter", "--disable-overlap", "--static"),
    "one model": ("tensorrt_llm_1_2", "--mode", "EAGLE3_ONE_MODEL", "--disable-overlap"),
    "one model, overlap": ("tensorrt_llm_1_2", "--mode", "EAGLE3_ONE_MODEL"),
    "0.20": ("tensorrt_llm_0_20", "--depth-name", "max_draft_tokens", "--disable-overlap"),
    "0.20, one model": (
        *("tensorrt_llm_0_20", "--depth-name", "max_draft_tokens"),
        *("--mode", "EAGLE3_ONE_MODEL"),
    ),
}

LATE = {"two models, overlap", "one model, overlap", "0.20, one model"}
"""Those that take a step's tokens over when the next one runs."""


def workers(folder: Path, version: str, *arguments: str) -> list[Process]:
    """The worker processes after a run, by rank."""
    processes = run_fake(version, "fake_tensorrt_llm.py", folder, *arguments)
    for process in processes:
        assert process.report["violations"] == []
        assert process.report["failures"] == {}
    return sorted(processes, key=lambda worker: int(worker.account("executor")[0]["rank"]))


def ours(recording: Recording) -> list[Range]:
    """Ranges of the hooks, in the order they closed."""
    return [found for found in recording.ranges if not found.name.startswith(OWN)]


@pytest.mark.parametrize("setup", list(SETUPS))
def test_every_step_and_every_row_is_the_engines_own(setup: str, tmp_path: Path) -> None:
    (worker,) = workers(tmp_path, *SETUPS[setup])
    recording, steps = worker.recording, worker.account("step")
    numbers = range(1, len(steps) + 1)
    assert [m["cycle"] for m in recording.marked("batch")] == list(numbers)
    assert [m["requests"] for m in recording.marked("batch")] == [
        step["contexts"] + step["generating"] for step in steps
    ]
    assert [(m["cycle"], m["drafted"], m["verified"]) for m in recording.marked("tokens")] == [
        (number, step["drafted"], step["drafted"] + step["generating"])
        for number, step in zip(numbers, steps, strict=True)
        if step["generating"]
    ]
    assert [(m["cycle"], m["tokens"]) for m in recording.marked("prompt")] == [
        (number, step["prompt"])
        for number, step in zip(numbers, steps, strict=True)
        if step["prompt"]
    ]
    rows, lost = [], []
    account = iter(worker.account("row"))
    for number, step in zip(numbers, steps, strict=True):
        for row in (next(account, None) for _ in range(step["drafted"] // 3)):
            if row is None:
                break
            name = request_hash(row["rid"])
            flags = Flags.STALE if row["stale"] else Flags.OVERSHOOT if row["overshoot"] else 0
            rows.append((number, name, row["k"], row["accepted"], flags))
            if row["overshoot"]:
                lost.append((number, name, row["overshoot"]))
    assert next(account, None) is None
    assert [tuple(mark.values()) for mark in recording.marked("accept")] == rows
    assert [tuple(mark.values()) for mark in recording.marked("overshoot")] == lost
    assert bool(lost) == setup.startswith("one model")
    assert any(row[4] == Flags.STALE for row in rows) == (setup in LATE)


@pytest.mark.parametrize("setup", [name for name in SETUPS if "one model" not in name])
def test_draft_forwards_are_told_apart_by_their_order(setup: str, tmp_path: Path) -> None:
    (worker,) = workers(tmp_path, *SETUPS[setup])
    names = Counter(found.name for found in ours(worker.recording))
    verified = sum(bool(step["drafted"]) for step in worker.account("step"))
    assert names["cycle"] == names["verify"] == verified
    assert names["prefill"] == 1
    assert names["sample"] == len(worker.account("step"))
    if setup == "static loop":
        assert names["fused(draft, draft_prefill)"] == 1
        assert names["fused(draft, draft_extend)"] == verified - 1
        assert names["draft.step"] == names["draft"] == 0
        return
    assert names["draft_prefill"] == 1
    assert names["draft_extend"] == verified - 1
    assert names["draft.step"] == 2 * verified
    assert names["draft"] >= 3 * verified


def test_the_innermost_range_with_a_phase_is_never_the_engines_own(tmp_path: Path) -> None:
    """Its forward ranges cannot tell phases apart, so that ours have to be inside them."""
    (worker,) = workers(tmp_path, *SETUPS["two models"])
    around = {"verify": "[Executor] _forward_step", "draft_extend": "forward_draft_model"}
    around["draft.step"] = "forward_draft_model"
    for name, own in around.items():
        found = worker.recording.of(name)
        assert found
        assert all(r.inside[-1].startswith(f"{OWN}{own}") for r in found), name
    graphs = [r for r in worker.recording.ranges if r.name == f"{OWN}_forward_step" and r.inside]
    inner = {next(n for n in reversed(r.inside) if not n.startswith(OWN)) for r in graphs}
    phases = {"verify", "prefill", "draft_extend", "draft_prefill", "draft.step"}
    assert inner == phases | {"capture", "warm_up"}


@pytest.mark.parametrize("setup", ["one model", "0.20, one model"])
def test_one_model_stays_fused(setup: str, tmp_path: Path) -> None:
    (worker,) = workers(tmp_path, *SETUPS[setup])
    names = Counter(found.name for found in ours(worker.recording))
    steps = worker.account("step")
    assert names[WHOLE_CYCLE] == names["cycle"] == sum(bool(step["drafted"]) for step in steps)
    assert names["fused(draft, prefill, draft_prefill)"] == 1
    assert not names.keys() & {"verify", "draft", "draft_extend", "draft.step"}


def test_plain_decode_is_the_baseline(tmp_path: Path) -> None:
    (worker,) = workers(tmp_path, "tensorrt_llm_1_2", "--mode", "NONE", "--draft-len", "0")
    assert not worker.recording.marked("accept")
    names = Counter(found.name for found in ours(worker.recording))
    decodes = len(worker.account("step")) - 1
    assert names["cycle"] == names["decode"] == decodes
    assert names["sample"] == decodes + 1
    assert worker.recording.marked("tokens")[0] == {"cycle": 2, "drafted": 0, "verified": 3}


@pytest.mark.parametrize("setup", ["two models", "0.20"])
def test_drafts_carry_the_number_of_the_step_before(setup: str, tmp_path: Path) -> None:
    """The engine drafts at the head of an iteration: a cycle runs from forward to forward."""
    (worker,) = workers(tmp_path, *SETUPS[setup])
    recording = worker.recording
    verified = [r.payload for r in recording.of("verify")]
    assert verified == list(range(2, 2 + len(verified)))
    assert [r.payload for r in recording.of("cycle")] == verified
    assert [r.payload for r in recording.of("draft_prefill")] == [1]
    assert [r.payload for r in recording.of("draft_extend")] == verified[:-1]


def test_graphs_are_padded_and_their_capture_is_marked(tmp_path: Path) -> None:
    for setup in ("two models", "0.20"):
        folder = tmp_path / re.sub(r"\W", "", setup)
        folder.mkdir()
        (worker,) = workers(folder, *SETUPS[setup])
        marks = worker.recording.marked("batch")
        expected = {1: 1, 2: 2, 3: 4}
        padded = [mark for mark in marks if mark["padded_requests"]]
        assert len(padded) == len(marks) - 1
        assert all(m["padded_requests"] == expected[m["requests"]] for m in padded)
        captured = worker.recording.of("capture")
        assert captured
        assert all(r.inside for r in captured)


def test_late_results_of_finished_requests_are_stale(tmp_path: Path) -> None:
    (worker,) = workers(tmp_path, *SETUPS["two models, overlap"])
    stale = [m for m in worker.recording.marked("accept") if m["flags"] & Flags.STALE]
    assert len(stale) == sum(row["stale"] for row in worker.account("row")) > 0
    assert {mark["accepted"] for mark in stale} == {0}


def test_one_rank_of_a_group_emits_marks(tmp_path: Path) -> None:
    first, second = workers(tmp_path, *SETUPS["two models"], "--tp-size", "2")
    names = [[(r.name, r.payload) for r in worker.recording.ranges] for worker in (first, second)]
    assert names[0] == names[1]
    assert first.recording.marked("accept")
    assert {mark.name for mark in second.recording.marks} == {"ranks"}
    ranks = [worker.recording.marked("ranks")[0] for worker in (first, second)]
    assert [(r["tp_rank"], r["tp_size"], r["dp_size"]) for r in ranks] == [(0, 2, 1), (1, 2, 1)]


def test_attention_data_parallel_ranks_stand_alone_and_can_be_idle(tmp_path: Path) -> None:
    setup = (*SETUPS["one model"], "--tp-size", "2", "--attention-dp")
    busy, idle = workers(tmp_path, *setup)
    assert busy.recording.marked("accept")
    (batch,) = idle.recording.marked("batch")
    assert (batch["requests"], batch["flags"]) == (1, Flags.IDLE)
    assert not idle.recording.marked("accept")
    assert not idle.recording.marked("tokens")[0]["drafted"]
    ranks = [worker.recording.marked("ranks")[0] for worker in (busy, idle)]
    assert [(r["tp_rank"], r["dp_rank"], r["dp_size"]) for r in ranks] == [(0, 0, 2), (0, 1, 2)]


@pytest.mark.parametrize("setup", ["two models", "0.20"])
def test_hooked_targets_of_a_version(setup: str, tmp_path: Path) -> None:
    (worker,) = workers(tmp_path, *SETUPS[setup])
    hooked = {name.rpartition(":")[2] for name in worker.report["hooked"]}
    always = {"__init__", "_forward_step", "_sample_async", "_update_requests", "_handle_responses"}
    assert {f"PyExecutor.{name}" for name in always} <= hooked
    assert "PyTorchModelEngine.forward" in hooked
    older = {"PyExecutor._prepare_draft_tokens", "DecodingCUDAGraphRunner.run"}
    newer = {"ModelDrafter.prepare_draft_tokens", "CUDAGraphRunner.replay"}
    there, absent = (older, newer) if setup == "0.20" else (newer, older)
    assert there <= hooked
    assert not absent & hooked
