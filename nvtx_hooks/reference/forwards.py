"""The forwards of target and draft head over cached rows: the bodies that graphs are made of.

A body takes slots and finds all else by slot, reads nothing back and has fixed shapes, so it can
be recorded as a CUDA graph and replayed for any requests.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch

from nvtx_hooks.reference import sampling
from nvtx_hooks.reference.kv_cache import Attended, KVCache, causal_window, visible_cells
from nvtx_hooks.reference.tree import DraftState, Proposal, Step, grow_chain, grow_tree

if TYPE_CHECKING:
    from torch import Tensor

    from nvtx_hooks.reference.config import EngineSettings, ModelConfig
    from nvtx_hooks.reference.draft_head import DraftHead
    from nvtx_hooks.reference.model import TargetModel, TargetOutput


class Slots(NamedTuple):
    """Input of draft and decode: slots, int64 [B]."""

    slots: Tensor


class VerifyInput(NamedTuple):
    """Input of verify: slots, int64 [B], and the rest as in `tree.Proposal`."""

    slots: Tensor
    tokens: Tensor
    depths: Tensor
    ancestors: Tensor


class ExtendInput(NamedTuple):
    """Input of the re-extend.

    Attributes:
        slots: Int64 [B].
        starts: Int64 [B], settled cells of the draft's cache.
        last: Int64 [B], which of the Q tokens is the request's newest.
        tokens: Int64 [B, Q], the token after each position.
        features: [B, Q, feature_size] of the target at each position.
    """

    slots: Tensor
    starts: Tensor
    last: Tensor
    tokens: Tensor
    features: Tensor


class Scores(NamedTuple):
    """What the target says of a batch.

    Attributes:
        logits: [B, Q, vocab_size].
        features: [B, Q, feature_size].
    """

    logits: Tensor
    features: Tensor


class SlotStates:
    """What the device remembers of each request between steps, by slot; the last row is padding.

    Attributes:
        lengths: Int64, tokens in the target's cache; the newest committed token is not among them.
        last_tokens: Int64, that token.
        seeds: Int64, of the random draws.
        draft: `DraftState` after that token, K = 1.
    """

    def __init__(
        self, slots: int, config: ModelConfig, device: torch.device, dtype: torch.dtype
    ) -> None:
        rows = slots + 1
        self.lengths = torch.zeros(rows, dtype=torch.int64, device=device)
        self.last_tokens = torch.zeros_like(self.lengths)
        self.seeds = torch.zeros_like(self.lengths)
        place = partial(torch.zeros, device=device, dtype=dtype)
        self.draft = DraftState(
            place(rows, 1, config.hidden_size), place(rows, 1, config.draft_vocab_size)
        )


class Forwards:
    """Target, draft head, their caches, and what the device remembers of each request.

    Attributes:
        target: The target model.
        states: Of the requests, by slot.
        cache: The target's keys and values.
        draft_cache: The draft head's; it has as many settled cells as the target's.
        device: Where all of it lies.

    Args:
        target: The target model; its parameters decide device and dtype.
        draft_head: Its draft head, unless decoding is plain.
        settings: Sizes.
    """

    def __init__(
        self, target: TargetModel, draft_head: DraftHead | None, settings: EngineSettings
    ) -> None:
        if settings.shape and draft_head is None:
            raise ValueError("speculation needs a draft head")
        self.target = target
        self._draft_head = draft_head
        self._settings = settings
        config, weight, shape = target.config, target.embedding.weight, settings.shape
        self.device, self.dtype = weight.device, weight.dtype
        place = (self.device, self.dtype)
        self.states = SlotStates(settings.max_batch, config, *place)
        scratch = max(shape.verified, shape.draft_cells) if shape else 1
        capacity = settings.context + scratch
        self.cache = KVCache(config, config.layers, settings.max_batch, capacity, *place)
        draft_layers = 1 if shape else 0
        self.draft_cache = KVCache(config, draft_layers, settings.max_batch, capacity, *place)

    @property
    def head(self) -> DraftHead:
        """The draft head."""
        assert self._draft_head is not None
        return self._draft_head

    def decode(self, inputs: Slots) -> Scores:
        """The target over each request's newest token."""
        tokens = self.states.last_tokens[inputs.slots]
        starts = self.states.lengths[inputs.slots]
        window = causal_window(1, self.device)
        hidden, features = self.run_target(inputs.slots, starts, tokens[:, None], window)
        return Scores(self.target.logits(hidden), features)

    def verify(self, inputs: VerifyInput) -> Scores:
        """The target over each request's proposal."""
        slots, tokens, depths, ancestors = inputs
        starts = self.states.lengths[slots]
        hidden, features = self.run_target(slots, starts, tokens, ancestors, depths)
        return Scores(self.target.logits(hidden), features)

    def draft(self, inputs: Slots, step: Step) -> Proposal:
        """A whole round of drafting.

        Args:
            inputs: Whose.
            step: Runs `draft_step` for the same slots.
        """
        slots, shape, states = inputs.slots, self._settings.shape, self.states
        assert shape is not None
        newest = states.last_tokens[slots]
        state = DraftState(states.draft.hidden[slots], states.draft.logits[slots])
        if shape.is_chain:
            return grow_chain(shape, newest, state, step, partial(self._pick, slots))
        temperature = self._settings.temperature or 1.0
        return grow_tree(shape, newest, state, step, self.head.target_tokens, temperature)

    def draft_step(
        self, slots: Tensor, tokens: Tensor, hidden: Tensor, depth: int, window: Tensor
    ) -> DraftState:
        """One forward of the draft head over drafted tokens, as `tree.Step`."""
        starts = self.states.lengths[slots]
        width = tokens.shape[1]
        positions = (starts + depth)[:, None].expand(-1, width)
        cells = starts[:, None] + torch.arange(width, device=self.device) + depth * width
        visible = visible_cells(starts, window, self.draft_cache.capacity)
        attended = Attended(positions, visible, self.draft_cache.rows(slots, cells))
        hidden = self.head(self.target.embedding(tokens), hidden, attended)
        return DraftState(hidden, self.head.logits(hidden))

    def extend(self, inputs: ExtendInput) -> DraftState:
        """The draft head over committed tokens; remembers its state after the newest."""
        slots, starts, last, tokens, features = inputs
        width = tokens.shape[1]
        cells = starts[:, None] + torch.arange(width, device=self.device)
        window = causal_window(width, self.device)
        visible = visible_cells(starts, window, self.draft_cache.capacity)
        attended = Attended(cells, visible, self.draft_cache.rows(slots, cells))
        hidden = self.head(self.target.embedding(tokens), self.head.fuse(features), attended)
        newest = hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[-1]))
        state = DraftState(newest, self.head.logits(newest))
        self.states.draft.hidden[slots] = state.hidden
        self.states.draft.logits[slots] = state.logits
        return state

    def run_target(
        self,
        slots: Tensor,
        starts: Tensor,
        tokens: Tensor,
        window: Tensor,
        depths: Tensor | None = None,
    ) -> TargetOutput:
        """The target over tokens [B, Q], written to the Q cells after `starts`.

        Args:
            slots: Int64 [B].
            starts: Int64 [B], settled cells.
            tokens: Int64 [B, Q].
            window: As in `visible_cells`.
            depths: Int64 [B, Q], positions counted from `starts`; None: one after the other.
        """
        cells = starts[:, None] + torch.arange(tokens.shape[1], device=self.device)
        positions = cells if depths is None else starts[:, None] + depths
        visible = visible_cells(starts, window, self.cache.capacity)
        attended = Attended(positions, visible, self.cache.rows(slots, cells))
        output: TargetOutput = self.target(tokens, attended)
        return output

    def _pick(self, slots: Tensor, logits: Tensor, depth: int) -> tuple[Tensor, Tensor | None]:
        """As `tree.Pick`."""
        target_tokens, temperature = self.head.target_tokens, self._settings.temperature
        if temperature == 0:
            return target_tokens[logits.argmax(dim=-1)], None
        weights = sampling.probabilities(logits, temperature)
        draws = self.draws(slots, self.states.lengths[slots], sampling.DRAFT_DRAWS + depth, 1)
        token = target_tokens[sampling.choose(weights, draws[:, 0])]
        everything = weights.new_zeros(len(weights), self.target.config.vocab_size)
        return token, everything.index_copy(1, target_tokens, weights)

    def draws(self, slots: Tensor, places: Tensor, first: int, count: int) -> Tensor:
        """`sampling.uniform` with the seeds of the requests in `slots`."""
        return sampling.uniform(self.states.seeds[slots], places, first, count)
