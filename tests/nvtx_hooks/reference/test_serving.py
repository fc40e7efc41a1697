from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nvtx_hooks.reference import serving
from nvtx_hooks.reference.serving import WorkloadSettings, workload
from tests.nvtx_hooks.reference.engines import LOAD, SHAPES, engine, served

if TYPE_CHECKING:
    from nvtx_hooks.reference.request import StepReport
    from nvtx_hooks.reference.training import TrainedModels
    from nvtx_hooks.reference.tree import DraftShape


@pytest.mark.parametrize("shape", [None, SHAPES["chain"], SHAPES["tree"]])
def test_counts_add_up(trained: TrainedModels, shape: DraftShape | None) -> None:
    run = served(trained, shape=shape)
    k = shape.depth if shape else 0
    record = serving.replica_record(run, rank=0, k=k)
    report = serving.report([record, record], k, settings={})
    sums, requests = report["totals"], record["requests"]
    assert sums["committed"] == sums["accepted"] + sums["request_cycles"] - sums["overshoot"]
    assert sums["committed"] == sums["verified"] - sums["rejected"] - sums["overshoot"]
    assert sums["verified"] == sums["drafted"] + sums["request_cycles"]
    assert sums["first_tokens"] == 2 * len(requests) == 2 * LOAD.requests
    assert sums["tokens"] == 2 * sum(len(request["tokens"]) for request in requests)
    assert sums["tokens"] == sums["committed"] + sums["first_tokens"]
    assert sums["accept_len"] == pytest.approx(sums["committed"] / sums["request_cycles"])
    assert sums["cycles"] + sums["decodes"] == 2 * record["calls"]["cycle"]
    assert sums["overshoot"] == 2 * sum(request["overshoot"] for request in requests)
    histogram = [2 * sum(column) for column in zip(*by_request(requests), strict=True)]
    assert histogram == sums["accepted_histogram"]
    if shape:
        assert sum(histogram) == sums["request_cycles"]
        assert sum(n * count for n, count in enumerate(histogram)) == sums["accepted"]
    assert json.loads(json.dumps(report)) == report


def by_request(requests: list[dict[str, list[int]]]) -> list[list[int]]:
    for request in requests:
        counts = Counter(request["accepted"])
        assert request["accepted_histogram"] == [
            counts[n] for n in range(len(request["accepted_histogram"]))
        ]
    return [request["accepted_histogram"] for request in requests]


def test_steps_hold_what_requests_hold(trained: TrainedModels) -> None:
    record = serving.replica_record(served(trained, shape=SHAPES["chain"]), rank=3, k=3)
    by_step: dict[str, list[int]] = {}
    for step in record["steps"]:
        assert step["requests"] == len(step["request_ids"])
        if step["kind"] == "cycle":
            for name, accepted in zip(step["request_ids"], step["accepted"], strict=True):
                by_step.setdefault(name, []).append(accepted)
    for request in record["requests"]:
        assert by_step.get(request["id"], []) == request["accepted"]
    assert record["rank"] == 3
    names = [request["id"] for request in record["requests"]]
    assert names == sorted(names)


def test_a_request_is_let_in_at_its_step_when_there_is_room(
    trained: TrainedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrivals = workload(replace(LOAD, requests=5, at_once=1, longest_pause=40))
    serving_engine = engine(trained, shape=SHAPES["chain"])
    step, reports = serving_engine.step, []

    def kept() -> StepReport:
        reports.append(step())
        return reports[-1]

    monkeypatch.setattr(serving_engine, "step", kept)
    run = serving.serve(serving_engine, arrivals)
    assert [report for report in reports if report.kind != "idle"] == run.steps != reports
    let_in = {
        name: number
        for number, report in enumerate(reports)
        if report.kind == "prefill"
        for name in report.request_ids
    }
    assert let_in == {arrival.request.id: arrival.step for arrival in arrivals}


def test_replicas_share_the_requests_of_one() -> None:
    settings = WorkloadSettings(requests=7, at_once=3, seed=9)
    whole = workload(settings)
    parts = [workload(settings, rank, size=3) for rank in range(3)]
    assert [len(part) for part in parts] == [3, 2, 2]
    assert {arrival for part in parts for arrival in part} == set(whole)
    assert [arrival.step for arrival in whole[:3]] == [0, 0, 0]
    assert {arrival.request.max_tokens for arrival in whole} <= set(range(24, 49))
    more = workload(replace(settings, at_once=7))
    assert [arrival.request for arrival in more] == [arrival.request for arrival in whole]
