from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import torch

from nvtx_hooks.reference.engine import Engine
from nvtx_hooks.reference.request import Request
from nvtx_hooks.reference.serving import replica_record, serve, workload
from nvtx_hooks.reference.tree import DraftShape
from tests.nvtx_hooks.reference import by_hand
from tests.nvtx_hooks.reference.engines import LOAD, SHAPES, engine, outputs, served, untrained

if TYPE_CHECKING:
    from nvtx_hooks.reference.request import StepReport
    from nvtx_hooks.reference.training import TrainedModels

REQUESTS = [arrival.request for arrival in workload(LOAD)]


@pytest.fixture(scope="module")
def plain(exact: TrainedModels) -> dict[str, tuple[list[int], str | None]]:
    return outputs(served(exact))


def test_plain_decoding_gives_the_tokens_of_a_forward_over_the_whole_text(
    exact: TrainedModels, plain: dict[str, tuple[list[int], str | None]]
) -> None:
    assert {end for _, end in plain.values()} == {"eos", "length"}
    for request in REQUESTS[:4]:
        wanted = by_hand.greedy(exact.target, request.prompt, request.max_tokens, eos_token=0)
        assert plain[request.id][0] == wanted


@pytest.mark.parametrize("graphs", ["none", "eager"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_greedy_speculation_gives_the_tokens_of_plain_decoding(
    exact: TrainedModels,
    plain: dict[str, tuple[list[int], str | None]],
    shape: DraftShape,
    graphs: str,
) -> None:
    run = served(exact, shape=shape, graphs=graphs)
    assert outputs(run) == plain
    assert {0, shape.depth} <= {n for step in cycles(run.steps) for n in step.accepted}


def cycles(steps: list[StepReport]) -> list[StepReport]:
    return [step for step in steps if step.kind == "cycle"]


def test_requests_join_and_leave_while_others_run(exact: TrainedModels) -> None:
    run = served(exact, shape=SHAPES["chain"])
    assert {step.requests for step in cycles(run.steps)} == {1, 2, 3}
    joined = [
        (before, after)
        for before, prefill, after in zip(run.steps, run.steps[1:], run.steps[2:], strict=False)
        if before.kind == "cycle" and prefill.kind == "prefill" and after.kind == "cycle"
    ]
    assert any(set(before.request_ids) & set(after.request_ids) for before, after in joined)
    assert sum(sum(step.overshoot) for step in run.steps) > 0


@pytest.mark.parametrize("shape", [DraftShape(4), DraftShape(3, branches=2, nodes=7)])
def test_what_lies_past_a_requests_end_is_dropped_and_counted(
    exact: TrainedModels, shape: DraftShape
) -> None:
    run = served(exact, shape=shape)
    limits = {request.id: request.max_tokens for request in REQUESTS}
    for generation in run.generations:
        tokens, limit = generation.tokens, limits[generation.request.id]
        assert (0 in tokens) == (generation.finish_reason == "eos")
        assert tokens.index(0) == len(tokens) - 1 if 0 in tokens else len(tokens) == limit
        judged = sum(generation.accepted) + len(generation.accepted)
        assert len(tokens) == 1 + judged - generation.overshoot


def test_a_request_may_end_with_its_prefill(exact: TrainedModels) -> None:
    serving = engine(exact, shape=SHAPES["chain"])
    serving.submit(Request("short", REQUESTS[0].prompt, max_tokens=1))
    (ended,) = serving.step().finished
    assert (ended.finish_reason, len(ended.tokens)) == ("length", 1)
    assert not serving.has_work
    assert serving.step().kind == "idle"


@pytest.mark.parametrize("shape", [DraftShape(3), DraftShape(3, branches=2, nodes=6)])
def test_verify_agrees_with_a_forward_over_each_nodes_whole_path(shape: DraftShape) -> None:
    models = untrained(vocab_size=6)
    serving = engine(models, shape=shape, eos_token=-1)
    texts = {"a": [1, 2, 3], "b": [4], "c": [0, 5, 1, 1, 2, 3, 4]}
    for name, prompt in texts.items():
        serving.submit(Request(name, tuple(prompt), max_tokens=20))
    serving.step()
    batch = serving._batch_of(serving.running)
    for _ in range(4):
        proposal = serving.draft(batch)
        scores = serving.verify(batch, proposal)
        for row, generation in enumerate(batch.generations):
            text = [*generation.request.prompt, *generation.tokens]
            for node in range(shape.verified):
                above = proposal.tokens[row][proposal.ancestors[row, node]].tolist()
                wanted = by_hand.target_logits(models.target, [*text, *above[1:]])
                torch.testing.assert_close(scores.logits[row, node], wanted)
        verdict = serving.accept(batch, proposal, scores)
        serving.draft_extend(batch, verdict, scores)
        collected = serving.collect(verdict.accepted, verdict.tokens)
        for generation, tokens in zip(batch.generations, collected, strict=True):
            generation.tokens += tokens


@pytest.mark.parametrize("shape", [DraftShape(4), DraftShape(3, branches=3, nodes=9)])
def test_the_draft_head_proposes_what_it_would_without_a_cache(
    exact: TrainedModels, shape: DraftShape
) -> None:
    serving = engine(exact, shape=shape)
    for request in REQUESTS[:2]:
        serving.submit(replace(request, max_tokens=20))
    serving.step()
    for _ in range(3):
        batch = serving._batch_of(serving.running)
        proposal = serving.draft(batch)
        for row, generation in enumerate(batch.generations):
            text = [*generation.request.prompt, *generation.tokens]
            paths = {
                tuple(proposal.tokens[row][proposal.ancestors[row, node]].tolist()[1:])
                for node in range(1, shape.verified)
            }
            models = (exact.target, exact.draft_head)
            if shape.is_chain:
                chain = by_hand.drafted_chain(*models, text, shape.depth)
                assert paths == {tuple(chain[: end + 1]) for end in range(shape.depth)}
            else:
                wanted = by_hand.drafted_tree(
                    *models, text, shape.depth, shape.branches, shape.nodes
                )
                assert paths == wanted
        serving.step()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("shape", [None, DraftShape(3), DraftShape(3, branches=2, nodes=6)])
def test_a_requests_tokens_do_not_depend_on_what_is_served_beside_it(
    exact: TrainedModels, shape: DraftShape | None, temperature: float
) -> None:
    together = outputs(served(exact, shape=shape, temperature=temperature))
    for request in REQUESTS[2:5]:
        alone = engine(exact, shape=shape, temperature=temperature, max_batch=1)
        alone.submit(request)
        while alone.has_work:
            finished = alone.step().finished
        assert finished[0].tokens == together[request.id][0]


def test_the_same_seed_gives_the_same_run(trained: TrainedModels) -> None:
    first, again, other = (
        serve(
            engine(trained, shape=SHAPES["chain"], temperature=1.0),
            workload(replace(LOAD, seed=seed)),
        )
        for seed in (5, 5, 6)
    )
    steps = [replica_record(run, rank=0, k=3)["steps"] for run in (first, again)]
    assert steps[0] == steps[1]
    assert outputs(first) == outputs(again) != outputs(other)


def test_calls_are_counted_as_made(exact: TrainedModels) -> None:
    shape = SHAPES["tree"]
    run = served(exact, shape=shape)
    rounds = len(cycles(run.steps))
    prefills = len(run.steps) - rounds
    assert run.calls == Counter(
        {
            "prefill": prefills,
            "draft_prefill": prefills,
            "sample": prefills + rounds,
            "draft.step": (shape.depth - 1) * rounds,
            **dict.fromkeys(("cycle", "draft", "verify", "draft_extend"), rounds),
        }
    )
    plain = served(exact)
    decodes = sum(step.kind == "decode" for step in plain.steps)
    prefills = len(plain.steps) - decodes
    assert plain.calls == Counter(
        {"prefill": prefills, "sample": prefills + decodes, "cycle": decodes, "decode": decodes}
    )


def test_a_finished_requests_slot_is_used_again(exact: TrainedModels) -> None:
    run = served(exact, shape=SHAPES["chain"])
    slots = [generation.slot for generation in run.generations]
    assert set(slots) == {0, 1, 2}
    assert len(slots) == LOAD.requests


def test_one_step_follows_another_without_gaps_in_the_cache(exact: TrainedModels) -> None:
    serving = engine(exact, shape=SHAPES["tree"])
    serving.submit(replace(REQUESTS[0], max_tokens=20))
    lengths = []
    while serving.has_work:
        report = serving.step()
        lengths.append(int(serving._states.lengths[0]))
        if report.kind == "cycle":
            assert lengths[-1] - lengths[-2] == report.accepted[0] + 1
    assert all(before < after for before, after in pairwise(lengths))


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (Request("empty", (), 4), "need a token each"),
        (Request("nothing", (1,), 0), "need a token each"),
        (Request("long", (1,) * 40, 9), "the context is 48"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(
    exact: TrainedModels, request_: Request, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        engine(exact).submit(request_)


def test_speculation_needs_a_draft_head(exact: TrainedModels) -> None:
    settings = engine(exact, shape=SHAPES["chain"]).settings
    with pytest.raises(ValueError, match="draft head"):
        Engine(exact.target, None, settings)
    plain = Engine(exact.target, None, replace(settings, shape=None))
    plain.submit(REQUESTS[0])
    assert plain.step().kind == "prefill"
