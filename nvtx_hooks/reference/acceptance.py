"""Which drafted tokens the target accepts, and the token that it adds itself.

Greedy acceptance gives the very tokens of plain greedy decoding; the two sampled schemes give
tokens distributed exactly as plain sampling's. All shapes are fixed and nothing is read back to
the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from nvtx_hooks.reference import sampling

if TYPE_CHECKING:
    from torch import Tensor

    from nvtx_hooks.reference.tree import Proposal


class Judgement(NamedTuple):
    """Where the accepted run of each request ends.

    Attributes:
        last: Int64 [B], its last node; 0 when nothing was accepted.
        bonus: Int64 [B], the target's own token after it.
    """

    last: Tensor
    bonus: Tensor


class Verdict(NamedTuple):
    """What a cycle commits, D being the proposal's depth.

    Attributes:
        starts: Int64 [B], tokens in the target's cache when the cycle began.
        accepted: Int64 [B], accepted drafts, the bonus token excluded.
        path: Int64 [B, D + 1], the accepted node at each depth, the root first; 0 past the end.
        tokens: Int64 [B, D + 1], the accepted tokens, the bonus token, then fill.
    """

    starts: Tensor
    accepted: Tensor
    path: Tensor
    tokens: Tensor


def accept_greedy(logits: Tensor, proposal: Proposal) -> Judgement:
    """Accept the nodes whose token is the target's most probable one, all ancestors likewise.

    Args:
        logits: [B, n, vocab_size] of the target after each node.
        proposal: What was drafted; siblings differ in their tokens.
    """
    chosen = logits.argmax(dim=-1)
    right = proposal.tokens == chosen.gather(1, proposal.parents)
    right |= proposal.depths == 0
    on_path = (right[:, None, :] | ~proposal.ancestors).all(dim=-1)
    last = (proposal.depths * on_path).argmax(dim=1)
    return Judgement(last, chosen.gather(1, last[:, None])[:, 0])


def reject_chain(
    probabilities: Tensor, proposal: Proposal, draws: Tensor, bonus_draws: Tensor
) -> Judgement:
    """Speculative sampling of a chain whose tokens were drawn from the draft's distribution.

    Token x, drawn from q where the target has p, is accepted with probability min(1, p(x)/q(x));
    the first rejected one is replaced by a draw from max(p - q, 0), normalised (Leviathan et al.,
    arXiv 2211.17192, algorithm 1 and appendix A.1; Chen et al., arXiv 2302.01318).

    Args:
        probabilities: Float64 [B, n, vocab_size] of the target after each node.
        proposal: A chain with its `draft_probabilities`.
        draws: Float64 [B, n] from `sampling.uniform`; the root's is not used.
        bonus_draws: Float64 [B].
    """
    drafted = proposal.tokens[:, 1:, None]
    before = probabilities[:, :-1]
    target = before.gather(2, drafted)[..., 0]
    draft = proposal.draft_probabilities.gather(2, drafted)[..., 0]
    kept = draws[:, 1:] * draft < target
    last = kept.long().cumprod(dim=1).sum(dim=1)
    residual = torch.cat(
        ((before - proposal.draft_probabilities).clamp(min=0), probabilities[:, -1:]), dim=1
    )
    weights, full = _row(residual, last), _row(probabilities, last)
    # Where p = q the residual is zero but for rounding, and a rejection has probability zero.
    weights = torch.where(weights.sum(dim=-1, keepdim=True) > 0, weights, full)
    return Judgement(last, sampling.choose(weights, bonus_draws))


def reject_tree(
    probabilities: Tensor, proposal: Proposal, draws: Tensor, bonus_draws: Tensor
) -> Judgement:
    """Recursive rejection over a tree whose tokens follow from the draft's distribution alone.

    At a node the children are tried in turn: each is accepted with the probability that the
    target still gives its token; a rejected token gets probability zero and the rest is
    normalised again. That is speculative sampling with a point mass as each proposal, hence exact
    (the multi-round rule of SpecInfer, Miao et al., arXiv 2305.09781, section 4.3; EAGLE's own
    code does the same). The bonus token is drawn from what is left where the walk ends.

    Args:
        probabilities: As in `reject_chain`.
        proposal: A tree; parents precede children.
        draws: As in `reject_chain`.
        bonus_draws: As in `reject_chain`.
    """
    last = torch.zeros_like(proposal.tokens[:, 0])
    weights = probabilities[:, 0]
    for node in range(1, proposal.tokens.shape[1]):
        token = proposal.tokens[:, node, None]
        weight = weights.gather(1, token)
        tried = (proposal.parents[:, node] == last)[:, None]
        chance = weight / weights.sum(dim=1, keepdim=True)
        kept = tried & (draws[:, node, None] < chance)
        left = weights.scatter(1, token, weight * (kept | ~tried))
        weights = torch.where(kept, probabilities[:, node], left)
        last = torch.where(kept[:, 0], node, last)
    return Judgement(last, sampling.choose(weights, bonus_draws))


def settle(proposal: Proposal, judgement: Judgement, starts: Tensor, depth: int) -> Verdict:
    """Lay out the accepted run by depth.

    Args:
        proposal: What was drafted.
        judgement: How far each request got.
        starts: As in `Verdict`.
        depth: The proposal's greatest depth D.
    """
    steps = torch.arange(depth + 1, device=starts.device)
    above = _row(proposal.ancestors, judgement.last)
    at_depth = above[:, None, :] & (proposal.depths[:, None, :] == steps[:, None])
    path = at_depth.long().argmax(dim=-1)
    accepted = proposal.depths.gather(1, judgement.last[:, None])[:, 0]
    drafted = torch.cat((proposal.tokens.gather(1, path)[:, 1:], judgement.bonus[:, None]), dim=1)
    tokens = torch.where(steps < accepted[:, None], drafted, judgement.bonus[:, None])
    return Verdict(starts, accepted, path, tokens)


def _row(x: Tensor, rows: Tensor) -> Tensor:
    """Row rows[b] of x[b]: [B, width] of x [B, n, width]."""
    return x.gather(1, rows[:, None, None].expand(-1, 1, x.shape[-1]))[:, 0]
