"""Sampled acceptance against the distribution it must have: the target's own.

Each row of a batch is one trial, so a test is a few calls over tens of thousands of trials.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch

from nvtx_hooks.reference import acceptance, sampling
from nvtx_hooks.reference.request import Request
from nvtx_hooks.reference.tree import DraftShape, DraftState, Proposal, grow_chain, grow_tree
from tests.nvtx_hooks.reference import by_hand
from tests.nvtx_hooks.reference.engines import Untrained, engine, untrained
from tests.nvtx_hooks.reference.statistics import misfit

VOCABULARY = 4
TRIALS = 40_000
SEEDS = torch.arange(TRIALS) * 7919 + 1
DEPTH = 2
WRONG = 8.0
"""A misfit that no right sampler ever shows: a sampler that is off must exceed it."""


def tables(seed: int) -> dict[tuple[int, ...], torch.Tensor]:
    """A distribution over the next token after every text of up to DEPTH tokens."""
    made = torch.Generator().manual_seed(seed)
    return {
        before: torch.softmax(torch.randn(VOCABULARY, generator=made, dtype=torch.float64), -1)
        for length in range(DEPTH + 1)
        for before in product(range(VOCABULARY), repeat=length)
    }


TARGET = tables(1)
DRAFT = tables(2)


def after(table: dict[tuple[int, ...], torch.Tensor], texts: torch.Tensor) -> torch.Tensor:
    """The table's row [..., VOCABULARY] after each text [..., length]."""
    length = texts.shape[-1]
    rows = torch.stack([table[t] for t in product(range(VOCABULARY), repeat=length)])
    places = torch.zeros(texts.shape[:-1], dtype=torch.int64)
    for token in range(length):
        places = places * VOCABULARY + texts[..., token]
    return rows[places]


def draws(first: int, count: int) -> torch.Tensor:
    return sampling.uniform(SEEDS, torch.zeros_like(SEEDS), first, count)


def joint(table: dict[tuple[int, ...], torch.Tensor]) -> torch.Tensor:
    """Probability of each text of DEPTH + 1 tokens."""
    return torch.stack(
        [
            table[()][text[0]] * table[text[:1]][text[1]] * table[text[:2]][text[2]]
            for text in product(range(VOCABULARY), repeat=DEPTH + 1)
        ]
    )


def committed_texts(proposal: Proposal, judgement: acceptance.Judgement) -> torch.Tensor:
    """Counts of texts of DEPTH + 1 tokens: the committed ones, then plain draws."""
    verdict = acceptance.settle(proposal, judgement, torch.zeros(TRIALS, dtype=torch.int64), DEPTH)
    texts = verdict.tokens.clone()
    for place in range(1, DEPTH + 1):
        drawn = sampling.choose(after(TARGET, texts[:, :place]), draws(5000 + place, 1)[:, 0])
        texts[:, place] = torch.where(place <= verdict.accepted, texts[:, place], drawn)
    places = (texts * torch.tensor([VOCABULARY**2, VOCABULARY, 1])).sum(-1)
    return torch.bincount(places, minlength=VOCABULARY**3)


def chain() -> Proposal:
    def pick(logits: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
        weights = after(DRAFT, texts[0])
        token = sampling.choose(weights, draws(sampling.DRAFT_DRAWS + depth, 1)[:, 0])
        texts[0] = torch.cat((texts[0], token[:, None]), dim=1)
        return token, weights

    texts = [torch.empty(TRIALS, 0, dtype=torch.int64)]
    nothing = DraftState(torch.zeros(TRIALS, 1, 1), torch.zeros(TRIALS, 1, 1))
    return grow_chain(
        DraftShape(DEPTH), torch.zeros(TRIALS, dtype=torch.int64), nothing, lambda *_: nothing, pick
    )


def tree(branches: int, nodes: int) -> Proposal:
    """A tree from the draft's tables; where hidden states would be, it carries the text."""

    def step(
        tokens: torch.Tensor, hidden: torch.Tensor, depth: int, window: torch.Tensor
    ) -> DraftState:
        texts = torch.cat((hidden[..., :depth], tokens[..., None]), dim=-1)
        padded = torch.nn.functional.pad(texts, (0, DEPTH - depth - 1))
        return DraftState(padded, after(DRAFT, texts).log())

    root = DraftState(
        torch.zeros(TRIALS, 1, DEPTH, dtype=torch.int64),
        DRAFT[()].log().expand(TRIALS, 1, -1),
    )
    last_tokens = torch.zeros(TRIALS, dtype=torch.int64)
    return grow_tree(
        DraftShape(DEPTH, branches, nodes), last_tokens, root, step, torch.arange(VOCABULARY)
    )


def target_rows(proposal: Proposal) -> torch.Tensor:
    """The target's probabilities [TRIALS, n, VOCABULARY] after each node."""
    rows = []
    for node in range(proposal.tokens.shape[1]):
        # Trees are the same in every trial, and chains are as deep as the node's number.
        above = proposal.ancestors[0, node].nonzero()[1:, 0]
        rows.append(after(TARGET, proposal.tokens[:, above]))
    return torch.stack(rows, dim=1)


def judged(proposal: Proposal) -> acceptance.Judgement:
    reject = (
        acceptance.reject_chain if proposal.draft_probabilities.numel() else acceptance.reject_tree
    )
    nodes = proposal.tokens.shape[1]
    bonus = draws(sampling.BONUS_DRAW, 1)[:, 0]
    return reject(target_rows(proposal), proposal, draws(sampling.ACCEPT_DRAWS, nodes), bonus)


PROPOSALS = {
    "chain": chain,
    "tree": lambda: tree(branches=2, nodes=5),
    "every child": lambda: tree(branches=VOCABULARY, nodes=VOCABULARY + VOCABULARY**2),
}


@pytest.mark.parametrize("propose", PROPOSALS.values(), ids=PROPOSALS)
def test_what_is_committed_is_distributed_as_the_targets_own_text(propose: object) -> None:
    proposal = propose()  # type: ignore[operator]
    counts = committed_texts(proposal, judged(proposal))
    assert misfit(counts, joint(TARGET)) < 4
    assert misfit(counts, joint(DRAFT)) > WRONG


def test_drafts_are_accepted_as_often_as_the_distributions_overlap() -> None:
    proposal = chain()
    first = (judged(proposal).last > 0).double().mean()
    # Leviathan et al., corollary 3.6: the sum over tokens of min(p, q).
    assert first == pytest.approx(float(torch.minimum(TARGET[()], DRAFT[()]).sum()), abs=0.01)
    proposal = tree(branches=2, nodes=5)
    first = (judged(proposal).last > 0).double().mean()
    # A point mass overlaps with p by p(x): siblings add up.
    wanted = TARGET[()][DRAFT[()].topk(2).indices].sum()
    assert first == pytest.approx(float(wanted), abs=0.01)


def test_a_draft_that_is_the_target_is_always_accepted() -> None:
    proposal = chain()
    same = Proposal(*proposal[:4], target_rows(proposal)[:, :-1])
    assert (judged(same).last == DEPTH).all()


@pytest.fixture(scope="module")
def tiny() -> Untrained:
    return untrained(VOCABULARY, seed=3, sharpness=1.0)


@pytest.fixture(scope="module")
def by_enumeration(tiny: Untrained) -> torch.Tensor:
    return by_hand.sequence_probabilities(tiny.target, [1, 2], length=4, temperature=0.9)


@pytest.mark.parametrize(
    "shape",
    [None, DraftShape(2), DraftShape(2, branches=2, nodes=5)],
    ids=["plain", "chain", "tree"],
)
def test_the_engine_samples_texts_as_often_as_the_target_gives_them(
    tiny: Untrained, by_enumeration: torch.Tensor, shape: DraftShape | None
) -> None:
    serving = engine(tiny, shape=shape, temperature=0.9, eos_token=-1, max_batch=1000, context=6)
    for number in range(3000):
        serving.submit(Request(str(number), (1, 2), max_tokens=4, seed=number))
    counts, accepted = torch.zeros(VOCABULARY**4), set()
    while serving.has_work:
        report = serving.step()
        accepted |= set(report.accepted)
        for generation in report.finished:
            a, b, c, d = generation.tokens
            counts[((a * VOCABULARY + b) * VOCABULARY + c) * VOCABULARY + d] += 1
    assert counts.sum() == 3000
    assert misfit(counts, by_enumeration) < 4
    assert accepted == ({0, 1, 2} if shape else {0})
    cooler = by_hand.sequence_probabilities(tiny.target, [1, 2], length=4, temperature=0.6)
    assert misfit(counts, cooler) > WRONG


def test_greedy_acceptance_walks_the_one_right_path() -> None:
    # 0 -> 1, 2; 1 -> 3; 2 -> 4, 5
    parents = torch.tensor([[0, 0, 0, 1, 2, 2]])
    ancestors = torch.eye(6, dtype=torch.bool)[None].clone()
    for node in range(1, 6):
        ancestors[0, node] |= ancestors[0, parents[0, node]]
    proposal = Proposal(
        tokens=torch.tensor([[9, 1, 2, 3, 4, 5]]),
        parents=parents,
        depths=ancestors.sum(-1) - 1,
        ancestors=ancestors,
        draft_probabilities=torch.empty(1, 0, 0),
    )

    def settled(chosen: list[int]) -> tuple[int, list[int], list[int]]:
        logits = torch.nn.functional.one_hot(torch.tensor([chosen]), 10).double()
        judgement = acceptance.accept_greedy(logits, proposal)
        verdict = acceptance.settle(proposal, judgement, torch.tensor([0]), depth=2)
        return int(verdict.accepted), verdict.path[0].tolist(), verdict.tokens[0].tolist()

    assert settled([2, 3, 5, 0, 0, 8]) == (2, [0, 2, 5], [2, 5, 8])
    assert settled([2, 3, 7, 0, 0, 8]) == (1, [0, 2, 0], [2, 7, 7])
    # Node 3 has the right token after the wrong parent.
    assert settled([6, 3, 5, 0, 0, 8]) == (0, [0, 0, 0], [6, 6, 6])
