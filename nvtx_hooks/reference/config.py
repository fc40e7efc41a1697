"""The sizes of the two models, and how an engine serves with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from nvtx_hooks.reference.tree import DraftShape


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a target model; the draft head shares everything but the number of layers.

    Attributes:
        vocab_size: Tokens the target knows.
        draft_vocab_size: Tokens the draft head can propose, the most frequent ones.
        hidden_size: Width of the residual stream.
        layers: Decoder layers of the target, at least three.
        heads: Query heads.
        kv_heads: Key and value heads; divides `heads`.
        head_size: Width of one head, even.
        ffn_size: Inner width of the SwiGLU block.
        rope_base: Base of the rotary frequencies.
        norm_epsilon: Added to the mean square in RMSNorm.
    """

    vocab_size: int
    draft_vocab_size: int
    hidden_size: int = 64
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 16
    ffn_size: int = 192
    rope_base: float = 10_000.0
    norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.layers < 3:
            raise ValueError("the draft head reads three different layers of the target")
        if self.heads % self.kv_heads or self.head_size % 2:
            raise ValueError("kv_heads has to divide heads, and head_size has to be even")
        if not 1 <= self.draft_vocab_size <= self.vocab_size:
            raise ValueError("draft_vocab_size has to lie between 1 and vocab_size")

    @property
    def feature_layers(self) -> tuple[int, int, int]:
        """The low, middle and high layer whose outputs feed the draft head."""
        return (0, self.layers // 2, self.layers - 1)

    @property
    def feature_size(self) -> int:
        """Width of what the target hands to the draft head for one token."""
        return self.hidden_size * len(self.feature_layers)


GraphMode = Literal["none", "eager", "cuda"]
"""Run phases as they are, from static buffers with eager replays, or as CUDA graphs."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How an engine serves.

    Attributes:
        eos_token: Token that ends a request.
        shape: What is drafted in each cycle; None: plain decoding.
        temperature: 0 is greedy.
        max_batch: Requests that run at once.
        context: Longest prompt and output of a request together.
        graphs: How draft, verify, extend and decode run.
        dp_rank: Number of this replica.
        dp_size: Number of replicas.
    """

    eos_token: int
    shape: DraftShape | None = None
    temperature: float = 0.0
    max_batch: int = 4
    context: int = 128
    graphs: GraphMode = "none"
    dp_rank: int = 0
    dp_size: int = 1

    @property
    def k(self) -> int:
        """Longest run that can be accepted in a cycle; 0 without drafts."""
        return self.shape.depth if self.shape else 0
