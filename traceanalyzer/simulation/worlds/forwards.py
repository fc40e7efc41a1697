"""Kernels of one forward of the target or the draft model, each as long as its true cost says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.simulation import kernel_names as names
from traceanalyzer.simulation.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.recording import KernelName
    from traceanalyzer.simulation.worlds.settings import Cost, Costs


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a forward carries; padding counts like real tokens.

    Attributes:
        several: Whether some request brings more than one token, which takes another kernel.
    """

    count: int
    requests: int
    several: bool


@dataclass(frozen=True, slots=True)
class Model:
    """The kernels of a server's two models.

    Attributes:
        parallel: Whether layers end with collectives.
    """

    costs: Costs
    parallel: bool

    def target(self, tokens: Tokens, layers: Sequence[int] | None = None) -> list[Work]:
        """The target's forward, or that of some of its layers; the last one has the logits."""
        chosen = range(self.costs.layers) if layers is None else layers
        works = [replace(each, layer=layer) for layer in chosen for each in self._layer(tokens)]
        if self.costs.layers - 1 in chosen:
            works.append(self._work(names.LM_HEAD_GEMM, self.costs.head, tokens))
        return works

    def draft_extend(self, tokens: Tokens) -> list[Work]:
        """The draft model over the accepted tokens, and its first draft."""
        return self._draft(tokens)

    def draft(self, steps: int, tokens: Tokens) -> list[Work]:
        """So many steps of the draft model."""
        return [replace(each, step=step) for step in range(steps) for each in self._draft(tokens)]

    def sampling(self, tokens: Tokens, *, verifies: bool) -> list[Work]:
        """From logits to tokens."""
        kernels = [names.SOFTMAX, names.ARG_MAX, *([names.VERIFY_TREE] if verifies else ())]
        return [self._work(kernel, self.costs.sample, tokens) for kernel in kernels]

    def _draft(self, tokens: Tokens) -> list[Work]:
        works = [*self._layer(tokens), self._work(names.LM_HEAD_GEMM, self.costs.head, tokens)]
        works.append(self._work(names.TOP_K, self.costs.sample, tokens))
        factor = self.costs.draft_factor
        return [
            replace(each, layer=0 if place < len(works) - 2 else None,
                    duration_ns=max(1, round(factor * each.duration_ns)))
            for place, each in enumerate(works)
        ]  # fmt: skip

    def _layer(self, tokens: Tokens) -> list[Work]:
        costs = self.costs
        collective = [self._work(names.NCCL_ALL_REDUCE, costs.collective, tokens)]
        collective = [replace(each, collective=True) for each in collective if self.parallel]
        return [
            self._work(names.ADD_NORM, costs.norm, tokens),
            self._work(names.QKV_GEMM, costs.qkv, tokens),
            self._attention(tokens),
            self._work(names.OUT_GEMM, costs.out, tokens),
            *collective,
            self._work(names.UP_GEMM, costs.up, tokens),
            self._work(names.ACTIVATION, costs.activation, tokens),
            self._work(names.DOWN_GEMM, costs.down, tokens),
            *collective,
        ]

    def _attention(self, tokens: Tokens) -> Work:
        kernel = names.VERIFY_ATTENTION if tokens.several else names.DECODE_ATTENTION
        work = self._work(kernel, self.costs.attention, tokens)
        factor = self.costs.verify_attention_factor if tokens.several else 1.0
        return replace(work, duration_ns=round(factor * work.duration_ns))

    @staticmethod
    def _work(kernel: KernelName, cost: Cost, tokens: Tokens) -> Work:
        return Work(kernel, max(1, round(cost.ns(tokens.count, tokens.requests))))


def pieces(works: Sequence[Work]) -> list[tuple[bool, list[Work]]]:
    """A forward cut around its attention: whether a piece is a graph, and its kernels."""
    found: list[tuple[bool, list[Work]]] = []
    for work in works:
        graph = work.kernel not in (names.VERIFY_ATTENTION, names.DECODE_ATTENTION)
        if found and found[-1][0] == graph:
            found[-1][1].append(work)
        else:
            found.append((graph, [work]))
    return found
