"""vLLM: acceptance is counted in a process whose step numbers are not the workers'."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from nvtx_hooks import vocabulary
from tests.worlds.answers import analyzed, bucket_like, is_off, same_buckets
from traceanalyzer import analyze, load
from traceanalyzer.simulation.worlds import Load, Parallel, Speculation, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds import Capture

SPECULATION = Speculation(draft_tokens=(1, 6), accept_probability=0.8)


def world(tensor: int, *, fused: bool = False) -> World:
    return World(
        WorldSettings(
            engine="vllm",
            speculation=SPECULATION,
            load=Load(batch=2, output_tokens=(20, 40)),
            parallel=Parallel(tensor=tensor),
            fused_propose=fused,
        )
    )


def accepted_by_number(capture: Capture, drafted: int) -> float:
    """Accept length of the worker's steps that judge so many drafts, joined by step number."""
    of_step: dict[int, list[int]] = defaultdict(list)
    drafts: dict[int, int] = {}
    for mark in capture.recording.marks:
        if mark.payload is None:
            continue
        fields = vocabulary.unpack(mark.name, mark.payload)
        if mark.name == "accept":
            of_step[fields["cycle"]].append(fields["accepted"] + 1)
        elif mark.name == "tokens":
            drafts[fields["cycle"]] = fields["drafted"]
    found = [n for step, own in of_step.items() if drafts.get(step) == drafted for n in own]
    return sum(found) / len(found)


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_steps_of_two_processes_are_brought_together_on_every_rank(
    tmp_path: Path, tensor: int
) -> None:
    """One worker of a group tells its steps; the others count alike and have no marks."""
    capture = world(tensor).record()
    report = analyzed(capture, tmp_path)
    same_buckets(report, capture.figures)
    few = min(
        (each for each in capture.figures.buckets if each.shape.kind == "verify"),
        key=lambda each: each.shape.draft_tokens,
    )
    assert is_off(accepted_by_number(capture, few.shape.draft_tokens), few.accept_len) > 0.1


def test_a_scheduler_is_not_missed_on_the_gpu_and_a_worker_is(tmp_path: Path) -> None:
    trace = load(world(2).record().write(tmp_path / "capture.sqlite"))
    whole = analyze(trace)
    assert [check for check in whole.trust if check.check == "processes"] == []
    ids = dict(trace.processes.select("name", "process_id").iter_rows())
    lost = trace.processes.filter(pl.col("process_id") == ids["VLLM::Worker_TP1"])["process"]
    kept = ~pl.col("process").is_in(lost.implode())
    cut = analyze(replace(trace, ops=trace.ops.filter(kept), launches=trace.launches.filter(kept)))
    (check,) = [check for check in cut.trust if check.check == "processes"]
    assert check.text.endswith(f"have no GPU work: {ids['VLLM::Worker_TP1']}")


def test_a_propose_that_cannot_be_split_is_not_all_draft(tmp_path: Path) -> None:
    split, whole = world(1), world(1, fused=True)
    main = split.served.buckets[0]
    naive = whole.served.buckets[0].windows_ns["fused(draft, draft_extend)"]
    assert is_off(naive, main.windows_ns["draft"]) > 0.15
    report = analyzed(whole.record(), tmp_path)
    same_buckets(report, whole.served)
    phases = {phase.phase for phase in bucket_like(report, main.shape).phases}
    assert "draft" not in phases
    assert "draft_extend" not in phases


def test_a_propose_is_drafting_as_a_whole(tmp_path: Path) -> None:
    whole = world(1, fused=True)
    report = analyzed(whole.record(), tmp_path)
    bucket = bucket_like(report, whole.served.buckets[0].shape)
    drafting = {each.name: each.mean_ns_per_cycle for each in bucket.rollups}
    wanted = whole.served.buckets[0].windows_ns["fused(draft, draft_extend)"]
    assert drafting["drafting"] == pytest.approx(wanted)
