"""Teaches a small target the toy language, and its draft head to foresee the target.

The draft head learns as EAGLE-3's does (arXiv 2503.01840, section 3.2, "training-time test"): its
own outputs are fed back for a few steps, so that it meets in training what it meets when drafting.
Always on the CPU: a GPU trace then holds serving only, and a seed gives the same weights.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from nvtx_hooks.reference.config import ModelConfig
from nvtx_hooks.reference.corpus import Corpus
from nvtx_hooks.reference.draft_head import DraftHead
from nvtx_hooks.reference.kv_cache import Attended, Uncached, causal_window
from nvtx_hooks.reference.model import TargetModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch import Tensor, nn

    from nvtx_hooks.reference.model import TargetOutput


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How the two models are trained.

    Attributes:
        seed: Decides weights, text and batches.
        target_steps: Optimiser steps of the target.
        draft_steps: Optimiser steps of the draft head.
        unrolled: Draft steps in a row that the draft head trains on.
        batch: Texts in a step.
        length: Tokens of a text.
        rate: Highest learning rate.
        draft_vocab_share: Share of the vocabulary, the most frequent words, that can be drafted.
        hidden_size: Of both models, a multiple of 32.
        layers: Of the target.
    """

    seed: int = 0
    target_steps: int = 160
    draft_steps: int = 80
    unrolled: int = 3
    batch: int = 8
    length: int = 60
    rate: float = 4e-3
    draft_vocab_share: float = 0.9
    hidden_size: int = 64
    layers: int = 4

    def model_config(self, vocab_size: int) -> ModelConfig:
        """Sizes of the models: heads of 16 channels, two of them to each key and value head."""
        return ModelConfig(
            vocab_size,
            draft_vocab_size=max(1, round(vocab_size * self.draft_vocab_share)),
            hidden_size=self.hidden_size,
            layers=self.layers,
            heads=self.hidden_size // 16,
            kv_heads=self.hidden_size // 32,
            head_size=16,
            ffn_size=3 * self.hidden_size,
        )


@dataclass(frozen=True, slots=True)
class TrainedModels:
    """A target and its draft head, with the last losses of each."""

    target: TargetModel
    draft_head: DraftHead
    target_loss: float
    draft_loss: float


class UnrolledKeys:
    """A `KeyValueStore` that keeps the keys of one draft step after another."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def exchange(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As `KeyValueStore.exchange`; S grows by Q at each step."""
        self._keys.append(keys)
        self._values.append(values)
        return torch.cat(self._keys, dim=1), torch.cat(self._values, dim=1)


def run_uncached(target: TargetModel, tokens: Tensor) -> TargetOutput:
    """The target over whole texts, int64 [B, T], without a cache."""
    length = tokens.shape[1]
    positions = torch.arange(length, device=tokens.device).expand_as(tokens)
    attended = Attended(positions, causal_window(length, tokens.device), Uncached())
    output: TargetOutput = target(tokens, attended)
    return output


def unrolled_draft_logits(
    draft_head: DraftHead, embedded: Tensor, features: Tensor, steps: int
) -> Iterator[Tensor]:
    """Draft from every position of a text at once, each step fed with the one before.

    At step s the place of position t holds (own output of step s - 1, token t + 1 + s). It sees
    what a drafting engine would: target features up to t, then its own earlier steps.

    Args:
        draft_head: The draft head.
        embedded: [B, T, hidden_size] of the tokens.
        features: [B, T, feature_size] of the target.
        steps: Steps in a row.

    Yields:
        Logits [B, T - 1 - s, draft_vocab_size] of step s: at t they are about token t + 2 + s.
    """
    batch, length = embedded.shape[:2]
    width = length - 1
    hidden = draft_head.fuse(features[:, :width])
    causal = causal_window(width, embedded.device)
    own = torch.eye(width, dtype=torch.bool, device=embedded.device)[None]
    visible, store = causal, UnrolledKeys()
    for step in range(steps):
        positions = torch.arange(width, device=embedded.device).expand(batch, -1) + step
        following = F.pad(embedded[:, 1 + step :], (0, 0, 0, step))
        hidden = draft_head(following, hidden, Attended(positions, visible, store))
        yield draft_head.logits(hidden[:, : width - step])
        visible = torch.cat((visible, own), dim=2)


def frequent_tokens(stream: Iterable[int], vocab_size: int, count: int) -> Tensor:
    """The `count` most frequent tokens of a stream, ascending, int64."""
    seen = Counter(stream)
    ranked = sorted(range(vocab_size), key=lambda token: (-seen[token], token))
    return torch.tensor(sorted(ranked[:count]), dtype=torch.int64)


def train(settings: TrainingSettings) -> TrainedModels:
    """Train a target and a draft head from nothing; the global generator is left as it was."""
    corpus = Corpus(settings.seed)
    vocab_size = len(corpus.vocabulary.words)
    stream = corpus.stream(64 * settings.batch * settings.length)
    config = settings.model_config(vocab_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        target = TargetModel(config)
        draft_head = DraftHead(config, frequent_tokens(stream, vocab_size, config.draft_vocab_size))
        tokens = torch.tensor(stream)
        target_loss = _train_target(target, tokens, settings)
        target.requires_grad_(requires_grad=False)
        draft_loss = _train_draft_head(draft_head, target, tokens, settings)
        draft_head.requires_grad_(requires_grad=False)
    return TrainedModels(target, draft_head, target_loss, draft_loss)


def _train_target(target: TargetModel, stream: Tensor, settings: TrainingSettings) -> float:
    def loss(tokens: Tensor) -> Tensor:
        logits = target.logits(run_uncached(target, tokens[:, :-1]).hidden)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    batches = _texts(stream, settings, settings.target_steps)
    return _descend(target, batches, loss, settings.target_steps, settings.rate)


def _train_draft_head(
    draft_head: DraftHead, target: TargetModel, stream: Tensor, settings: TrainingSettings
) -> float:
    """Fit the draft head to the target's own distribution over the tokens it can draft."""

    def loss(tokens: Tensor) -> Tensor:
        with torch.no_grad():
            hidden, features = run_uncached(target, tokens)
            logits = target.logits(hidden)[..., draft_head.target_tokens]
            wanted = logits.softmax(dim=-1)
            embedded = target.embedding(tokens)
        losses = [
            F.cross_entropy(
                drafted.flatten(0, 1), wanted[:, step + 1 :][:, : drafted.shape[1]].flatten(0, 1)
            )
            for step, drafted in enumerate(
                unrolled_draft_logits(draft_head, embedded, features, settings.unrolled)
            )
        ]
        return torch.stack(losses).mean()

    batches = _texts(stream, settings, settings.draft_steps)
    return _descend(draft_head, batches, loss, settings.draft_steps, settings.rate)


def _texts(stream: Tensor, settings: TrainingSettings, steps: int) -> Iterator[Tensor]:
    """`steps` batches of texts cut from the stream at random, int64 [batch, length + 1]."""
    for _ in range(steps):
        starts = torch.randint(len(stream) - settings.length, (settings.batch,))
        yield stream[starts[:, None] + torch.arange(settings.length + 1)]


def _descend(
    model: nn.Module,
    batches: Iterator[Tensor],
    loss_of: Callable[[Tensor], Tensor],
    steps: int,
    rate: float,
) -> float:
    """Train a model; the rate rises to its highest and falls to nothing. Returns the last loss."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), foreach=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    last = float("nan")
    for tokens in batches:
        optimiser.zero_grad()
        loss = loss_of(tokens)
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
        last = loss.item()
    return last
