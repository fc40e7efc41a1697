"""What one round of drafting proposes, as a tree of tokens: its shape, and how it grows.

A chain is a tree with one branch. Trees grow as in EAGLE-2 (Li et al., arXiv 2406.16858, section
4): at each depth the most probable nodes are extended, and the best of all nodes are kept. Shapes
are fixed, so the target verifies the same number of tokens in every cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import torch

if TYPE_CHECKING:
    from torch import Tensor

_RANK_PENALTY: Final = 1e-4
"""Taken from the log-probability of every node, so that a child which the draft is certain of
still ranks below its parent and is never kept without it."""


@dataclass(frozen=True, slots=True)
class DraftShape:
    """How much is drafted in a cycle.

    Attributes:
        depth: Longest run that can be accepted: k.
        branches: Nodes extended at each depth, and children of each; 1 is a chain.
        nodes: Drafted tokens that the target verifies for one request.
    """

    depth: int
    branches: int = 1
    nodes: int = 0

    def __post_init__(self) -> None:
        if self.depth < 1 or self.branches < 1:
            raise ValueError("depth and branches have to be at least 1")
        if self.nodes == 0:
            object.__setattr__(self, "nodes", self.depth)
        if not self.depth <= self.nodes <= self.candidates:
            raise ValueError(
                f"{self.nodes} nodes: depth {self.depth} with {self.branches} branches takes "
                f"{self.depth} to {self.candidates}"
            )

    @property
    def candidates(self) -> int:
        """Nodes among which the best are kept."""
        return self.branches + (self.depth - 1) * self.branches**2

    @property
    def is_chain(self) -> bool:
        """Whether no node has a sibling."""
        return self.branches == 1

    @property
    def verified(self) -> int:
        """Tokens of one request in the target's forward: the nodes and their root."""
        return self.nodes + 1

    @property
    def draft_cells(self) -> int:
        """Cells of the draft's cache that one round fills."""
        return (self.depth - 1) * self.branches


class Proposal(NamedTuple):
    """Drafted tokens of a batch; node 0 is the last committed token, parents precede children.

    Attributes:
        tokens: Int64 [B, n].
        parents: Int64 [B, n]; the root is its own parent.
        depths: Int64 [B, n]; the root's is 0.
        ancestors: Bool [B, n, n]: whether node j is node i or stands above it.
        draft_probabilities: Float64 [B, depth, vocab_size] that each token of a sampled chain was
            drawn from; [B, 0, 0] where tokens were not drawn.
    """

    tokens: Tensor
    parents: Tensor
    depths: Tensor
    ancestors: Tensor
    draft_probabilities: Tensor


class DraftState(NamedTuple):
    """What the draft head leaves for the next token.

    Attributes:
        hidden: [B, K, hidden_size].
        logits: [B, K, draft_vocab_size].
    """

    hidden: Tensor
    logits: Tensor


class Step(Protocol):
    """One forward of the draft head over the K newest nodes."""

    def __call__(self, tokens: Tensor, hidden: Tensor, depth: int, window: Tensor) -> DraftState:
        """Run the nodes.

        Args:
            tokens: Int64 [B, K].
            hidden: [B, K, hidden_size] of their parents.
            depth: Forwards of this round before this one.
            window: Bool [B, K, draft_cells] (or [1, ...]): the round's cells each node sees.
        """


class Pick(Protocol):
    """How a chain's next token is chosen."""

    def __call__(self, logits: Tensor, depth: int) -> tuple[Tensor, Tensor | None]:
        """Choose from logits [B, draft_vocab_size].

        Returns:
            The target's token, int64 [B], and the probabilities [B, vocab_size] that it was drawn
            from, if it was drawn.
        """


def grow_chain(
    shape: DraftShape, last_tokens: Tensor, state: DraftState, step: Step, pick: Pick
) -> Proposal:
    """Draft `shape.depth` tokens one after the other.

    Args:
        shape: A chain's.
        last_tokens: Int64 [B], the last committed token of each request.
        state: What the draft head left after it, K = 1.
        step: Runs the draft head; called depth - 1 times, since the first token comes from
            `state`.
        pick: Chooses tokens.
    """
    device = last_tokens.device
    tokens, drawn_from = [last_tokens], []
    window = torch.ones(
        1, max(shape.draft_cells, 1), shape.draft_cells, dtype=torch.bool, device=device
    ).tril()
    for depth in range(shape.depth):
        token, weights = pick(state.logits[:, 0], depth)
        tokens.append(token)
        if weights is not None:
            drawn_from.append(weights)
        if depth < shape.depth - 1:
            state = step(token[:, None], state.hidden, depth, window[:, depth : depth + 1])
    batch, nodes = last_tokens.shape[0], torch.arange(shape.verified, device=device)
    return Proposal(
        tokens=torch.stack(tokens, dim=1),
        parents=(nodes - 1).clamp(min=0).expand(batch, -1),
        depths=nodes.expand(batch, -1),
        ancestors=(nodes[:, None] >= nodes).expand(batch, -1, -1),
        draft_probabilities=torch.stack(drawn_from, dim=1)
        if drawn_from
        else torch.empty(batch, 0, 0, dtype=torch.float64, device=device),
    )


class _Candidates(NamedTuple):
    """Nodes of one depth; `parents` counts through all depths, -1 being the root."""

    scores: Tensor
    tokens: Tensor
    parents: Tensor


def grow_tree(
    shape: DraftShape,
    last_tokens: Tensor,
    state: DraftState,
    step: Step,
    target_tokens: Tensor,
    temperature: float = 1.0,
) -> Proposal:
    """Draft a tree: `shape.branches` nodes extended at each depth, the best `shape.nodes` kept.

    Which tokens are proposed follows from the draft's probabilities alone and not from any draw,
    which is what `acceptance.reject_tree` needs.

    Args:
        shape: The tree's.
        last_tokens: As in `grow_chain`.
        state: As in `grow_chain`.
        step: As in `grow_chain`, with K = branches.
        target_tokens: `DraftHead.target_tokens`.
        temperature: Of the draft's probabilities.
    """
    branches, batch, device = shape.branches, last_tokens.shape[0], last_tokens.device
    root_score = torch.zeros(batch, 1, device=device)
    root = torch.full((batch, 1), -1, device=device)
    grown = [_children(state.logits, root_score, root, branches, target_tokens, temperature)]
    frontier = grown[0]
    numbers = torch.arange(branches, device=device).expand(batch, -1)
    hidden = state.hidden.expand(-1, branches, -1)
    window = _own_cells(shape, 0, device).expand(batch, -1, -1)
    for depth in range(shape.depth - 1):
        state = step(frontier.tokens, hidden, depth, window)
        children = _children(
            state.logits, frontier.scores, numbers, branches, target_tokens, temperature
        )
        grown.append(children)
        if depth == shape.depth - 2:
            break
        scores, picked = children.scores.topk(branches, dim=1)
        parents = picked // branches
        hidden = _pick_rows(state.hidden, parents)
        window = _pick_rows(window, parents) | _own_cells(shape, depth + 1, device)
        numbers = picked + (branches + depth * branches**2)
        frontier = _Candidates(scores, children.tokens.gather(1, picked), parents)
    return _keep_best(shape, last_tokens, grown)


def _children(
    logits: Tensor,
    scores: Tensor,
    numbers: Tensor,
    branches: int,
    target_tokens: Tensor,
    temperature: float,
) -> _Candidates:
    """The `branches` best children of each of K nodes: [B, K * branches] each."""
    confidence = torch.log_softmax(logits.float() / temperature, dim=-1) - _RANK_PENALTY
    best, choice = confidence.topk(branches, dim=-1)
    return _Candidates(
        scores=(scores[..., None] + best).flatten(1),
        tokens=target_tokens[choice].flatten(1),
        parents=numbers[..., None].expand_as(best).flatten(1),
    )


def _pick_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Rows [B, K] of x [B, rows, width]."""
    return x.gather(1, rows[..., None].expand(-1, -1, x.shape[-1]))


def _own_cells(shape: DraftShape, depth: int, device: torch.device) -> Tensor:
    """Bool [branches, draft_cells]: the cell that each node of this depth is written to."""
    cells = torch.arange(shape.draft_cells, device=device)
    nodes = torch.arange(shape.branches, device=device) + depth * shape.branches
    return nodes[:, None] == cells


def _keep_best(shape: DraftShape, last_tokens: Tensor, grown: list[_Candidates]) -> Proposal:
    """The best nodes of all depths, in the order in which they grew."""
    device, batch = last_tokens.device, last_tokens.shape[0]
    scores, tokens, parents = (torch.cat(parts, dim=1) for parts in zip(*grown, strict=True))
    kept = scores.topk(shape.nodes, dim=1).indices.sort(dim=1).values
    places = torch.zeros_like(parents).scatter(
        1, kept, torch.arange(1, shape.verified, device=device).expand(batch, -1)
    )
    kept_parents = parents.gather(1, kept)
    kept_parents = places.gather(1, kept_parents.clamp(min=0)) * (kept_parents >= 0)
    parents = torch.cat((torch.zeros_like(last_tokens)[:, None], kept_parents), dim=1)
    ancestors = _ancestors(parents, shape.depth)
    return Proposal(
        tokens=torch.cat((last_tokens[:, None], tokens.gather(1, kept)), dim=1),
        parents=parents,
        depths=ancestors.sum(dim=-1) - 1,
        ancestors=ancestors,
        draft_probabilities=torch.empty(batch, 0, 0, dtype=torch.float64, device=device),
    )


def _ancestors(parents: Tensor, depth: int) -> Tensor:
    """`Proposal.ancestors` of a tree that is at most `depth` deep."""
    nodes = parents.shape[1]
    own = torch.eye(nodes, dtype=torch.bool, device=parents.device).expand(len(parents), -1, -1)
    ancestors = own
    for _ in range(depth):
        ancestors = own | _pick_rows(ancestors, parents)
    return ancestors
