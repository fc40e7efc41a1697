"""The same pipeline written the slow, plain way: no cache, no batch, no masks but the causal one.

It is what the engine is checked against, and shares only the models' layers with it.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import torch

from nvtx_hooks.reference.kv_cache import Attended, Uncached, causal_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from nvtx_hooks.reference.draft_head import DraftHead
    from nvtx_hooks.reference.model import TargetModel


def _whole(length: int) -> Attended:
    cpu = torch.device("cpu")
    return Attended(torch.arange(length)[None], causal_window(length, cpu), Uncached())


def target_logits(target: TargetModel, tokens: Sequence[int]) -> Tensor:
    """Logits [vocab_size] of the token after these."""
    hidden, _ = target(torch.tensor([tokens]), _whole(len(tokens)))
    return target.logits(hidden[0, -1])


def greedy(
    target: TargetModel, prompt: Sequence[int], max_tokens: int, eos_token: int
) -> list[int]:
    """Plain greedy decoding."""
    tokens: list[int] = []
    while len(tokens) < max_tokens and eos_token not in tokens:
        tokens.append(int(target_logits(target, [*prompt, *tokens]).argmax()))
    return tokens


def draft_logits(
    target: TargetModel, head: DraftHead, text: Sequence[int], path: Sequence[int]
) -> Tensor:
    """Logits [draft_vocab_size] of the draft head after a text and drafted tokens.

    The target's features reach up to the last token but one of the text.
    """
    _, features = target(torch.tensor([text[:-1]]), _whole(len(text) - 1))
    fed = head.fuse(features)
    following = [*text[1:]]
    for token in (*path, None):
        embedded = target.embedding(torch.tensor([following]))
        hidden = head(embedded, fed, _whole(len(following)))
        if token is not None:
            following.append(token)
            fed = torch.cat((fed, hidden[:, -1:]), dim=1)
    return head.logits(hidden[0, -1])


def drafted_chain(
    target: TargetModel, head: DraftHead, text: Sequence[int], depth: int
) -> list[int]:
    """The greedy chain."""
    path: list[int] = []
    for _ in range(depth):
        best = int(draft_logits(target, head, text, path).argmax())
        path.append(int(head.target_tokens[best]))
    return path


def drafted_tree(
    target: TargetModel,
    head: DraftHead,
    text: Sequence[int],
    depth: int,
    branches: int,
    nodes: int,
) -> set[tuple[int, ...]]:
    """The paths from the root to each node of the tree."""
    frontier: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    grown: list[tuple[float, tuple[int, ...]]] = []
    for _ in range(depth):
        children = []
        for score, path in frontier:
            logits = draft_logits(target, head, text, path)
            best, choice = logits.log_softmax(-1).topk(branches)
            tokens = head.target_tokens[choice].tolist()
            children += [
                (score + float(more), (*path, token))
                for more, token in zip(best, tokens, strict=True)
            ]
        frontier = sorted(children, reverse=True)[:branches]
        grown += children
    return {path for _, path in sorted(grown, reverse=True)[:nodes]}


def sequence_probabilities(
    target: TargetModel, prompt: Sequence[int], length: int, temperature: float
) -> Tensor:
    """Probability of each continuation of this length, float64 [vocab_size ** length]."""
    vocab_size = target.config.vocab_size
    found = torch.ones(vocab_size**length, dtype=torch.float64)
    known: dict[tuple[int, ...], Tensor] = {}
    for place, tokens in enumerate(product(range(vocab_size), repeat=length)):
        for end, token in enumerate(tokens):
            before = tokens[:end]
            if before not in known:
                logits = target_logits(target, [*prompt, *before])
                known[before] = (logits.double() / temperature).softmax(-1)
            found[place] *= known[before][token]
    return found
