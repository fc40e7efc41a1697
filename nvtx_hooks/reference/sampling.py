"""Random draws as a pure function of (request, place in its text, draw), and tokens from them.

Nothing depends on batch mates, on padding or on earlier calls, and a CUDA graph may hold the
draws: there is no generator state. Arithmetic is in float64, so probabilities are exact to 2**-53.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from torch import Tensor

BONUS_DRAW: Final = 0
"""Draw of the token that the target itself chooses."""

DRAFT_DRAWS: Final = 1
"""First of the draws that choose draft tokens, one a depth."""

ACCEPT_DRAWS: Final = 1024
"""First of the draws that accept or reject, one a node."""

_GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_MULTIPLIERS: Final = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Logical shift right of int64 values."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014); int64 wraps round."""
    x = (x ^ _shifted(x, 30)) * _MULTIPLIERS[0]
    x = (x ^ _shifted(x, 27)) * _MULTIPLIERS[1]
    return x ^ _shifted(x, 31)


def uniform(seeds: Tensor, places: Tensor, first: int, count: int) -> Tensor:
    """`count` draws from [0, 1) for each request.

    Args:
        seeds: Int64 [B], one a request.
        places: Int64 [B]: tokens already in the target's cache, which no two cycles of a request
            share.
        first: Number of the first draw, below 2**32.
        count: Draws a request.

    Returns:
        Float64 [B, count].
    """
    draws = torch.arange(first, first + count, device=seeds.device)
    streams = _mix(seeds + places * _GOLDEN_GAMMA)
    bits = _mix(_mix(streams[:, None] + draws * _GOLDEN_GAMMA))
    return _shifted(bits, 11).to(torch.float64) * 2.0**-53


def probabilities(logits: Tensor, temperature: float) -> Tensor:
    """Float64 softmax over the last dimension at a temperature above 0."""
    return torch.softmax(logits.to(torch.float64) / temperature, dim=-1)


def choose(weights: Tensor, draws: Tensor) -> Tensor:
    """Pick an index of the last dimension with probability proportional to its weight.

    Args:
        weights: Float64 [..., V], not negative, not all zero; they need not add up to 1.
        draws: Float64 [...] from `uniform`.

    Returns:
        Int64 [...]; never an index of weight zero.
    """
    cumulative = weights.cumsum(dim=-1)
    return (cumulative <= draws[..., None] * cumulative[..., -1:]).sum(dim=-1)
