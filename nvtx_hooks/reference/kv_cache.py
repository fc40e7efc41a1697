"""Keys and values of earlier tokens: one row of cells a slot, and one spare row for padding.

A forward writes its tokens into cells and then sees whole rows; which cells count is the mask's
affair. A cell beyond a request's length may hold anything finite and is overwritten before use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from nvtx_hooks.reference.config import ModelConfig


class KeyValueStore(Protocol):
    """Where a layer leaves its keys and values, and what it attends to."""

    def exchange(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and values and return all that it attends to.

        Args:
            layer: Number of the layer.
            keys: [B, Q, kv_heads, head_size].
            values: As `keys`.

        Returns:
            Keys and values, [B, S, kv_heads, head_size] each.
        """


@dataclass(frozen=True, slots=True)
class Attended:
    """What one forward attends to.

    Attributes:
        positions: [B, Q] positions in the text, for the rotary embedding.
        visible: Bool [B, Q, S] (or [1, Q, S]): which of the store's S keys each query sees.
        store: Where keys and values go and come from.
    """

    positions: Tensor
    visible: Tensor
    store: KeyValueStore


class Uncached:
    """A store for a forward that holds its whole text: new keys and values are all there is."""

    def exchange(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As `KeyValueStore.exchange`."""
        return keys, values


class KVCache:
    """Keys and values of `slots` requests and of one padding row, which is number `slots`.

    Args:
        config: Sizes of the heads.
        layers: Layers that have keys and values.
        slots: Requests held at once.
        capacity: Cells of each row.
        device: Where it lies.
        dtype: What it holds.
    """

    def __init__(
        self,
        config: ModelConfig,
        layers: int,
        slots: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = (layers, slots + 1, capacity, config.kv_heads, config.head_size)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.capacity = capacity

    def rows(self, slots: Tensor, cells: Tensor) -> CachedRows:
        """The rows `slots` [B] of this cache, written at `cells` [B, Q]."""
        return CachedRows(self, slots, cells)

    def move(self, slots: Tensor, sources: Tensor, destinations: Tensor) -> None:
        """Copy cells `sources` [B, M] of the rows `slots` [B] to `destinations` [B, M].

        All sources are read before any destination is written; destinations are distinct.
        """
        rows = slots[:, None]
        for held in (self.keys, self.values):
            held[:, rows, destinations] = held[:, rows, sources]


@dataclass(frozen=True, slots=True)
class CachedRows:
    """Some rows of a cache as a `KeyValueStore`."""

    cache: KVCache
    slots: Tensor
    cells: Tensor

    def exchange(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As `KeyValueStore.exchange`; S is the cache's capacity."""
        rows = self.slots[:, None]
        all_keys, all_values = self.cache.keys[layer], self.cache.values[layer]
        all_keys[rows, self.cells] = keys
        all_values[rows, self.cells] = values
        return all_keys.index_select(0, self.slots), all_values.index_select(0, self.slots)


def visible_cells(lengths: Tensor, window: Tensor, capacity: int) -> Tensor:
    """Which cells of a row each query sees: all the settled ones, and some of the next W.

    Args:
        lengths: [B] settled cells of each row.
        window: Bool [B, Q, W] (or [1, Q, W]): which of the W cells after them each query sees.
        capacity: Cells of a row.

    Returns:
        Bool [B, Q, capacity].
    """
    queries, width = window.shape[1:]
    cells = torch.arange(capacity, device=lengths.device)
    offsets = cells[None, :] - lengths[:, None]
    in_window = (offsets >= 0) & (offsets < width)
    index = offsets.clamp(0, width - 1)[:, None, :].expand(-1, queries, -1)
    windows = window.expand(lengths.shape[0], -1, -1)
    seen_in_window = windows.gather(2, index) & in_window[:, None, :]
    return (offsets < 0)[:, None, :] | seen_in_window


def causal_window(width: int, device: torch.device) -> Tensor:
    """Bool [1, width, width]: query i sees the window's cells 0 to i."""
    return torch.ones(1, width, width, dtype=torch.bool, device=device).tril()
