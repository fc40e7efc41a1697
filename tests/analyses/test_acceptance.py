"""Acceptance and shapes from marks, against simulated servers that know what they accepted."""

from __future__ import annotations

import json
from collections import Counter

import polars as pl
import pytest

from nvtx_hooks import vocabulary
from tests.harness import SAMPLE_TRACES
from traceanalyzer.analyses.acceptance import acceptance_of
from traceanalyzer.importers import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.trace import Trace

MARKED = ["eagle3_tp2_nodes.sqlite", "eagle3_tp2_graphs.sqlite", "eagle3_torch.json.gz"]


def truth_of_sample(name: str) -> list[dict[str, object]]:
    path = SAMPLE_TRACES / f"{name.split('.')[0]}.truth.json"
    cycles: list[dict[str, object]] = json.loads(path.read_text(encoding="utf-8"))["ranks"][0][
        "cycles"
    ]
    return cycles


@pytest.mark.parametrize("name", MARKED)
def test_accepted_drafts_are_what_the_server_counted(name: str) -> None:
    accepted = [
        number for cycle in truth_of_sample(name) for number in cycle["accepted_drafts"] or ()
    ]
    counted = Counter(accepted)
    found = acceptance_of(load(SAMPLE_TRACES / name))
    assert found is not None
    assert found.accepted_drafts_histogram == [counted[k] for k in range(max(accepted) + 1)]
    assert found.accept_len == 1 + sum(accepted) / len(accepted)


@pytest.mark.parametrize("name", MARKED)
def test_cycles_of_one_shape_are_those_the_server_ran(name: str) -> None:
    report = analyze(load(SAMPLE_TRACES / name))
    kept = [cycle for cycle in truth_of_sample(name) if cycle["status"] == "kept"]
    wanted = Counter(
        (cycle["kind"], cycle["batch_size"], cycle["verified_tokens"], cycle["draft_tokens"])
        for cycle in kept
    )
    got = Counter()
    for bucket in report.buckets:
        shape = bucket.shape
        assert shape.batch is not None
        per_request = (
            (shape.verified_tokens or 0) // shape.batch,
            (shape.draft_tokens or 0) // shape.batch,
        )
        got[shape.kind, shape.batch, *per_request] += bucket.cycles // len(report.ranks)
    assert got == wanted


def marked(marks: list[dict[str, object]]) -> Trace:
    """A trace of one thread with these marks alone."""
    texts = sorted({str(mark[key]) for mark in marks for key in ("name", "domain")})
    rows = [
        {
            "thread": 0,
            "time_ns": mark["time_ns"],
            "payload": mark["payload"],
            "name": texts.index(str(mark["name"])),
            "domain": texts.index(str(mark["domain"])),
        }
        for mark in marks
    ]
    process = {"process": 0, "file": 0, "process_id": 1, "name": None, "rank": None}
    thread = {"thread": 0, "process": 0, "thread_id": 1, "name": None}
    return Trace.checked(
        {
            "names": pl.DataFrame({"name": range(len(texts)), "text": texts}),
            "processes": pl.DataFrame([process]),
            "threads": pl.DataFrame([thread]),
            "marks": pl.DataFrame(rows),
        }
    )


def accept(cycle: int, accepted: int, flags: int = 0) -> dict[str, object]:
    payload = vocabulary.pack_accept(cycle, 1, 3, accepted, flags)
    return {"time_ns": cycle, "name": "accept", "domain": "eagle", "payload": payload}


def test_stale_rows_are_told_apart_and_not_live() -> None:
    marks = [accept(1, 3), accept(2, 1), accept(3, 2, vocabulary.Flags.STALE)]
    found = acceptance_of(marked(marks))
    assert found is not None
    assert found.accepted_drafts_histogram == [0, 1, 1, 1]
    assert found.live_accepted_drafts_histogram == [0, 1, 0, 1]
    assert (found.stale_request_cycles, found.live_request_cycles) == (1, 2)
    assert found.accept_len == 3.0


def test_rows_of_several_requests_count_as_many() -> None:
    payload = vocabulary.pack_accept_count(1, 70, 3, 2, 0)
    several = {"time_ns": 1, "name": "accept_count", "domain": "eagle", "payload": payload}
    found = acceptance_of(marked([several]))
    assert found is not None
    assert found.accepted_drafts_histogram == [0, 0, 70]


def test_overshoot_was_accepted_and_not_committed() -> None:
    payload = vocabulary.pack_overshoot(1, 1, 2)
    over = {"time_ns": 1, "name": "overshoot", "domain": "eagle", "payload": payload}
    found = acceptance_of(marked([accept(1, 3), over]))
    assert found is not None
    assert (found.committed_tokens, found.overshoot_tokens) == (2, 2)


def test_marks_of_others_and_broken_payloads_say_nothing() -> None:
    foreign = {**accept(1, 3), "domain": "other"}
    broken = {**accept(1, 3), "payload": 1 << 62}
    negative = {**accept(1, 3), "payload": -5}
    assert acceptance_of(marked([foreign, broken, negative])) is None
