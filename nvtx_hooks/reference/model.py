"""The target: a decoder-only transformer with RMSNorm, rotary positions, GQA and SwiGLU.

Llama's layer (Touvron et al., arXiv 2302.13971) with grouped queries (Ainslie et al., arXiv
2305.13245). A forward also returns the outputs of a low, a middle and a high layer, which is what
an EAGLE-3 draft head is fed with (arXiv 2503.01840, section 3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

    from nvtx_hooks.reference.config import ModelConfig
    from nvtx_hooks.reference.kv_cache import Attended


class TargetOutput(NamedTuple):
    """What a forward of the target gives.

    Attributes:
        hidden: [B, Q, hidden_size], normalised: `TargetModel.logits` takes it.
        features: [B, Q, feature_size], what the draft head takes.
    """

    hidden: Tensor
    features: Tensor


class RMSNorm(nn.Module):
    """Root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467)."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon)
        return x * scale * self.weight


class Rotation(NamedTuple):
    """Rotary angles of some positions (RoPE, Su et al., arXiv 2104.09864).

    Attributes:
        cosine: [B, Q, 1, head_size / 2].
        sine: Likewise.
    """

    cosine: Tensor
    sine: Tensor

    def turn(self, x: Tensor) -> Tensor:
        """Rotate the channel pairs of x [B, Q, heads, head_size]."""
        first, second = x.chunk(2, dim=-1)
        turned = (
            first * self.cosine - second * self.sine,
            second * self.cosine + first * self.sine,
        )
        return torch.cat(turned, dim=-1)


class Rotary(nn.Module):
    """Makes the rotation of a forward, once for all its layers."""

    frequencies: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        half = config.head_size // 2
        frequencies = config.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
        self.register_buffer("frequencies", frequencies.float(), persistent=False)

    def forward(self, positions: Tensor) -> Rotation:
        """The rotation of positions [B, Q]."""
        angles = positions[..., None, None] * self.frequencies
        return Rotation(angles.cos(), angles.sin())


class Attention(nn.Module):
    """Grouped-query attention over what an `Attended` store returns.

    Args:
        config: Sizes.
        layer: Number under which the store keeps its keys and values.
        input_size: Width of the input: hidden_size, or twice that in the draft head.
    """

    def __init__(self, config: ModelConfig, layer: int, input_size: int) -> None:
        super().__init__()
        self.config = config
        self.layer = layer
        query_size = config.heads * config.head_size
        kv_size = config.kv_heads * config.head_size
        self.joined = nn.Linear(input_size, query_size + 2 * kv_size, bias=False)
        self.output = nn.Linear(query_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, rotation: Rotation, attended: Attended) -> Tensor:
        """Attention's contribution [B, Q, hidden_size] for an input [B, Q, input_size]."""
        config = self.config
        heads = self.joined(x).unflatten(-1, (-1, config.head_size))
        query, key, value = heads.split((config.heads, config.kv_heads, config.kv_heads), dim=2)
        keys, values = attended.store.exchange(self.layer, rotation.turn(key), value)
        group = config.heads // config.kv_heads
        mixed = F.scaled_dot_product_attention(
            rotation.turn(query).transpose(1, 2),
            keys.transpose(1, 2).repeat_interleave(group, dim=1),
            values.transpose(1, 2).repeat_interleave(group, dim=1),
            attn_mask=attended.visible[:, None],
        )
        return self.output(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """SwiGLU (Shazeer, arXiv 2002.05202)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_and_up = nn.Linear(config.hidden_size, 2 * config.ffn_size, bias=False)
        self.down = nn.Linear(config.ffn_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block's contribution, of x's shape."""
        gate, up = self.gate_and_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class DecoderLayer(nn.Module):
    """Attention and feed-forward, each normalised before and added after."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.norm_epsilon)
        self.attention = Attention(config, layer, config.hidden_size)
        self.ffn_norm = RMSNorm(config.hidden_size, config.norm_epsilon)
        self.ffn = FeedForward(config)

    def forward(self, x: Tensor, rotation: Rotation, attended: Attended) -> Tensor:
        """The residual stream [B, Q, hidden_size] after this layer."""
        x = x + self.attention(self.attention_norm(x), rotation, attended)
        return x + self.ffn(self.ffn_norm(x))


class TargetModel(nn.Module):
    """The model whose text is wanted."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.rotary = Rotary(config)
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_epsilon)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        nn.init.normal_(self.embedding.weight, std=config.hidden_size**-0.5)

    def forward(self, tokens: Tensor, attended: Attended) -> TargetOutput:
        """Run the tokens [B, Q]."""
        x = self.embedding(tokens)
        rotation = self.rotary(attended.positions)
        outputs = []
        for layer in self.layers:
            x = layer(x, rotation, attended)
            outputs.append(x)
        features = torch.cat([outputs[i] for i in self.config.feature_layers], dim=-1)
        return TargetOutput(self.norm(x), features)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocab_size] of the token after each hidden state."""
        return self.head(hidden)
