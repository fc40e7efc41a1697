"""Engines and requests as the tests here need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nvtx_hooks.reference.config import EngineSettings, ModelConfig
from nvtx_hooks.reference.corpus import Vocabulary
from nvtx_hooks.reference.draft_head import DraftHead
from nvtx_hooks.reference.engine import Engine
from nvtx_hooks.reference.model import TargetModel
from nvtx_hooks.reference.serving import Served, WorkloadSettings, serve, workload
from nvtx_hooks.reference.tree import DraftShape

if TYPE_CHECKING:
    from nvtx_hooks.reference.training import TrainedModels

SHAPES = {
    "one": DraftShape(1),
    "chain": DraftShape(3),
    "siblings": DraftShape(1, branches=3, nodes=3),
    "tree": DraftShape(3, branches=3, nodes=8),
}
"""Chains and trees, the smallest among them."""

LOAD = WorkloadSettings(requests=8, max_tokens=24, at_once=2, longest_pause=3, seed=2)
"""Requests that come one by one; some reach their end token and some their limit."""


@dataclass(frozen=True)
class Untrained:
    """Models as they are before training: sharp enough that each has tokens it prefers."""

    target: TargetModel
    draft_head: DraftHead


def untrained(vocab_size: int, seed: int = 0, sharpness: float = 3.0) -> Untrained:
    """Tiny float64 models; the draft head cannot propose the last token."""
    config = ModelConfig(
        vocab_size,
        draft_vocab_size=vocab_size - 1,
        hidden_size=16,
        layers=3,
        heads=4,
        kv_heads=2,
        head_size=4,
        ffn_size=32,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        target = TargetModel(config).double()
        draft_head = DraftHead(config, torch.arange(vocab_size - 1)).double()
        target.embedding.weight *= 4
        target.head.weight *= sharpness
        draft_head.head.weight *= sharpness
    target.requires_grad_(requires_grad=False)
    draft_head.requires_grad_(requires_grad=False)
    return Untrained(target, draft_head)


def engine(models: TrainedModels | Untrained, **settings: Any) -> Engine:
    """An engine that is ready to step; the toy language's end token unless told otherwise."""
    settings = {"eos_token": Vocabulary().end_token, "max_batch": 3, "context": 48} | settings
    made = Engine(models.target, models.draft_head, EngineSettings(**settings))
    made.warm_up()
    return made


def served(models: TrainedModels | Untrained, **settings: Any) -> Served:
    """`LOAD`, served."""
    return serve(engine(models, **settings), workload(LOAD))


def outputs(run: Served) -> dict[str, tuple[list[int], str | None]]:
    """Tokens and end of each request."""
    return {g.request.id: (g.tokens, g.finish_reason) for g in run.generations}
