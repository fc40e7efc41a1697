"""The EAGLE-3 draft head: one decoder layer over the target's features and the next token.

Li et al., arXiv 2503.01840, section 3.1: features of three target layers are fused by a projection,
joined with the next token's embedding, and run through one decoder layer with a head of its own.
Where no target feature exists yet, its own last hidden state stands in for one. At position t it
takes (feature of t, token t + 1) and predicts token t + 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from nvtx_hooks.reference.model import Attention, FeedForward, RMSNorm, Rotary

if TYPE_CHECKING:
    from torch import Tensor

    from nvtx_hooks.reference.config import ModelConfig
    from nvtx_hooks.reference.kv_cache import Attended


class DraftHead(nn.Module):
    """The draft model of one target.

    Args:
        config: The target's sizes.
        target_tokens: Int64 [draft_vocab_size]: the target's token for each of its own.
    """

    target_tokens: Tensor

    def __init__(self, config: ModelConfig, target_tokens: Tensor) -> None:
        super().__init__()
        self.config = config
        size, epsilon = config.hidden_size, config.norm_epsilon
        self.fusion = nn.Linear(config.feature_size, size, bias=False)
        self.embedding_norm = RMSNorm(size, epsilon)
        self.feature_norm = RMSNorm(size, epsilon)
        self.rotary = Rotary(config)
        self.attention = Attention(config, layer=0, input_size=2 * size)
        self.ffn_norm = RMSNorm(size, epsilon)
        self.ffn = FeedForward(config)
        self.norm = RMSNorm(size, epsilon)
        self.head = nn.Linear(size, config.draft_vocab_size, bias=False)
        self.register_buffer("target_tokens", target_tokens)

    def fuse(self, features: Tensor) -> Tensor:
        """One feature [..., hidden_size] from the target's [..., feature_size]."""
        return self.fusion(features)

    def forward(self, embedded: Tensor, features: Tensor, attended: Attended) -> Tensor:
        """Run the draft layer.

        Args:
            embedded: [B, Q, hidden_size] the target's embeddings of the next tokens.
            features: [B, Q, hidden_size] fused features, or hidden states from here.
            attended: Where keys and values are.

        Returns:
            Hidden states [B, Q, hidden_size]: the next step's features.
        """
        joined = torch.cat((self.embedding_norm(embedded), self.feature_norm(features)), dim=-1)
        rotation = self.rotary(attended.positions)
        x = features + self.attention(joined, rotation, attended)
        return x + self.ffn(self.ffn_norm(x))

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., draft_vocab_size] over the draft head's own tokens."""
        return self.head(self.norm(hidden))
