from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nvtx_hooks.reference.tree import DraftShape, DraftState, Proposal, grow_tree

HIDDEN = 3


@st.composite
def shapes(draw: st.DrawFn) -> DraftShape:
    depth, branches = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    most = branches + (depth - 1) * branches**2
    return DraftShape(depth, branches, draw(st.integers(depth, most)))


def grown(shape: DraftShape, seed: int, certainty: float) -> tuple[Proposal, list[torch.Tensor]]:
    """A tree from random logits, and the window of each draft step."""
    made = torch.Generator().manual_seed(seed)
    batch, vocabulary = 3, 5
    windows = []

    def state(nodes: int) -> DraftState:
        logits = torch.randn(batch, nodes, vocabulary, generator=made) * certainty
        return DraftState(torch.zeros(batch, nodes, HIDDEN), logits)

    def step(
        tokens: torch.Tensor, hidden: torch.Tensor, depth: int, window: torch.Tensor
    ) -> DraftState:
        assert tokens.shape == (batch, shape.branches)
        assert hidden.shape == (batch, shape.branches, HIDDEN)
        windows.append(window)
        return state(shape.branches)

    newest = torch.tensor([7, 8, 9])
    proposal = grow_tree(shape, newest, state(1), step, torch.tensor([10, 20, 30, 40, 50]))
    assert torch.equal(proposal.tokens[:, 0], newest)
    return proposal, windows


# A certainty of 1000 makes probabilities of exactly 1: a child then ties with its parent.
@settings(deadline=None, max_examples=50)
@given(shapes(), st.integers(0, 2**31), st.sampled_from([1.0, 1000.0]))
def test_a_tree_is_one(shape: DraftShape, seed: int, certainty: float) -> None:
    proposal, windows = grown(shape, seed, certainty)
    assert proposal.tokens.shape == (3, shape.verified)
    assert len(windows) == shape.depth - 1
    for tokens, parents, depths, ancestors in zip(
        proposal.tokens.tolist(),
        proposal.parents.tolist(),
        proposal.depths.tolist(),
        proposal.ancestors.tolist(),
        strict=True,
    ):
        assert (parents[0], depths[0]) == (0, 0)
        seen = set()
        for node in range(1, shape.verified):
            parent = parents[node]
            assert parent < node
            assert depths[node] == depths[parent] + 1 <= shape.depth
            wanted = [held or other == node for other, held in enumerate(ancestors[parent])]
            assert ancestors[node] == wanted
            assert (parent, tokens[node]) not in seen
            seen.add((parent, tokens[node]))


@settings(deadline=None, max_examples=50)
@given(shapes(), st.integers(0, 2**31))
def test_each_draft_step_sees_its_own_path_only(shape: DraftShape, seed: int) -> None:
    _, windows = grown(shape, seed, certainty=1.0)
    for depth, window in enumerate(windows):
        by_depth = window.reshape(3, shape.branches, shape.depth - 1, shape.branches).sum(-1)
        assert by_depth[:, :, : depth + 1].eq(1).all()
        assert by_depth[:, :, depth + 1 :].eq(0).all()


def test_the_root_is_not_drafted() -> None:
    shape = DraftShape(3, branches=2, nodes=6)
    assert (shape.verified, shape.draft_cells, shape.candidates) == (7, 4, 10)
    chain = DraftShape(5)
    assert (chain.nodes, chain.verified, chain.draft_cells, chain.is_chain) == (5, 6, 4, True)


@pytest.mark.parametrize(
    "sizes", [(0,), (1, 0), (3, 1, 4), (3, 2, 2), (3, 2, 11)], ids=lambda sizes: str(sizes)
)
def test_impossible_shapes_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|takes"):
        DraftShape(*sizes)
