"""Which kernels a target of Kimi-K2.5's shape and its EAGLE-3 draft model run, and how long.

61 layers, the first one dense; latent attention, 384 experts of which 8 run a token and one shared
one; routed experts in four bits (https://huggingface.co/moonshotai/Kimi-K2.5). Weights are
microseconds a kernel, invented; two all-reduces a layer go through NCCL, as they must over PCIe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation import kernel_names, moe_kernel_names
from traceanalyzer.simulation.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.simulation.recording import KernelName
    from traceanalyzer.simulation.settings import VerifyGrowth

_Part = tuple[str, "KernelName", float]
"""Kernel class, kernel and weight."""

_ATTENTION: Final[tuple[_Part, ...]] = (
    ("small", kernel_names.ADD_NORM, 2.2),
    ("dense", moe_kernel_names.QUERY_KEY_DOWN_GEMM, 6.5),
    ("small", moe_kernel_names.RMS_NORM, 1.6),
    ("small", moe_kernel_names.RMS_NORM, 1.6),
    ("dense", moe_kernel_names.QUERY_UP_GEMM, 4.5),
    ("small", moe_kernel_names.QUANTISE_MAX, 1.3),
    ("small", moe_kernel_names.QUANTISE_WRITE, 1.3),
    ("dense", moe_kernel_names.ABSORB_GEMM, 3.5),
    ("small", moe_kernel_names.ROTARY, 1.8),
    ("small", moe_kernel_names.STORE_LATENT, 1.6),
    ("attention", moe_kernel_names.DECODE_ATTENTION, 18.0),
    ("dense", moe_kernel_names.VALUE_UP_GEMM, 3.5),
    ("dense", moe_kernel_names.OUT_GEMM, 6.0),
    ("all-reduce", kernel_names.NCCL_ALL_REDUCE, 20.5),
    ("small", kernel_names.ADD_NORM, 2.2),
)
_EXPERTS: Final[tuple[_Part, ...]] = (
    ("dense", moe_kernel_names.GATE_GEMM, 2.6),
    ("small", moe_kernel_names.ROUTE, 2.4),
    ("small", moe_kernel_names.ALIGN_BLOCKS, 2.0),
    ("small", moe_kernel_names.SORT_TOKENS, 1.4),
    ("moe", moe_kernel_names.EXPERT_GEMM, 24.0),
    ("small", moe_kernel_names.ACTIVATION, 1.5),
    ("moe", moe_kernel_names.EXPERT_GEMM, 19.0),
    ("small", moe_kernel_names.SUM_EXPERTS, 1.9),
    ("dense", moe_kernel_names.SHARED_UP_GEMM, 4.0),
    ("small", moe_kernel_names.ACTIVATION, 1.2),
    ("dense", moe_kernel_names.SHARED_DOWN_GEMM, 3.4),
    ("small", moe_kernel_names.ADD, 1.2),
    ("all-reduce", kernel_names.NCCL_ALL_REDUCE, 20.5),
)
_DENSE_MLP: Final[tuple[_Part, ...]] = (
    ("dense", moe_kernel_names.SHARED_UP_GEMM, 21.0),
    ("small", moe_kernel_names.ACTIVATION, 1.5),
    ("dense", moe_kernel_names.SHARED_DOWN_GEMM, 14.0),
    ("all-reduce", kernel_names.NCCL_ALL_REDUCE, 20.5),
)
_LOGITS: Final[tuple[_Part, ...]] = (
    ("small", kernel_names.ADD_NORM, 2.2),
    ("dense", moe_kernel_names.LOGITS_GEMM, 180.0),
    ("all-gather", moe_kernel_names.ALL_GATHER, 24.0),
)
_DRAFT: Final[tuple[_Part, ...]] = (
    ("small", kernel_names.GATHER, 2.0),
    ("dense", moe_kernel_names.OUT_GEMM, 16.0),
    ("small", moe_kernel_names.RMS_NORM, 2.0),
    ("small", moe_kernel_names.RMS_NORM, 2.0),
    ("dense", moe_kernel_names.DRAFT_QKV_GEMM, 38.0),
    ("small", kernel_names.ROPE, 2.0),
    ("small", kernel_names.STORE_CACHE, 2.0),
    ("attention", kernel_names.DECODE_ATTENTION, 16.0),
    ("dense", moe_kernel_names.OUT_GEMM, 24.0),
    ("all-reduce", kernel_names.NCCL_ALL_REDUCE, 34.0),
    ("small", kernel_names.ADD_NORM, 2.5),
    ("dense", moe_kernel_names.SHARED_UP_GEMM, 84.0),
    ("small", kernel_names.ACTIVATION, 2.0),
    ("dense", moe_kernel_names.SHARED_DOWN_GEMM, 46.0),
    ("all-reduce", kernel_names.NCCL_ALL_REDUCE, 34.0),
    ("small", moe_kernel_names.RMS_NORM, 2.0),
    ("dense", moe_kernel_names.LOGITS_GEMM, 150.0),
    ("all-gather", moe_kernel_names.ALL_GATHER, 36.0),
    ("small", kernel_names.SOFTMAX, 9.0),
    ("small", kernel_names.TOP_K, 11.0),
)

_STEP_SHARES: Final = {"attention": 0.7, "all-reduce": 0.3}
_TOKEN_SHARES: Final = {
    "moe": 0.52,
    "all-reduce": 0.27,
    "attention": 0.14,
    "dense": 0.04,
    "small": 0.03,
}
"""Which classes of a layer's kernels grow: by verifying at all, and with each verified token."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How much longer the target is than a decode step of one token, in ms over all layers.

    `step_ms` comes with verifying at all (another attention kernel, another all-reduce path), the
    rest with the tokens after the first.
    """

    step_ms: float = 0.0
    tokens_ms: float = 0.0

    @property
    def whole_ms(self) -> float:
        """Both."""
        return self.step_ms + self.tokens_ms


def target_forward(layers: int, growth: Growth | None, *, parallel: bool) -> list[Work]:
    """The target over its tokens, up to the gathered logits; decode when nothing grows."""
    works = [_work(("small", kernel_names.GATHER, 3.0))]
    for layer in range(layers):
        own = _layer((*_ATTENTION, *(_EXPERTS if layer else _DENSE_MLP)), growth, layers)
        works += [replace(work, layer=layer) for work in own]
    works += [_work(part) for part in _LOGITS]
    return works if parallel else [work for work in works if not work.collective]


def decode_and_verify(
    taken_by: VerifyGrowth, growth: Growth, layers: int, *, parallel: bool
) -> tuple[list[Work], list[Work]]:
    """The target over one token and over all tokens to verify.

    Args:
        taken_by: Which kernels take the growth.
        growth: How much longer verify is.
        layers: Layers of the target.
        parallel: Whether there are several ranks, and with them collectives.
    """
    decode = target_forward(layers, None, parallel=parallel)
    match taken_by:
        case "usual":
            return decode, target_forward(layers, growth, parallel=parallel)
        case "even":
            return decode, decode
        case "attention":
            grown = _grown(decode, moe_kernel_names.DECODE_ATTENTION, growth)
            return decode, _renamed(
                grown, moe_kernel_names.DECODE_ATTENTION, moe_kernel_names.PROMPT_ATTENTION
            )
        case "all_reduce":
            one_shot = _renamed(decode, kernel_names.NCCL_ALL_REDUCE, kernel_names.ALL_REDUCE)
            return one_shot, _grown(decode, kernel_names.NCCL_ALL_REDUCE, growth)
        case "experts":
            return decode, _grown(decode, moe_kernel_names.EXPERT_GEMM, growth)


def _renamed(works: list[Work], before: KernelName, after: KernelName) -> list[Work]:
    return [replace(work, kernel=after) if work.kernel is before else work for work in works]


def _grown(works: list[Work], kernel: KernelName, growth: Growth) -> list[Work]:
    """One kernel longer, so that all are by the growth's share of what they took."""
    own_ns = sum(work.duration_ns for work in works if work.kernel is kernel)
    factor = 1 + 1e6 * growth.whole_ms / own_ns if own_ns else 1.0
    return [
        replace(work, duration_ns=round(work.duration_ns * factor))
        if work.kernel is kernel
        else work
        for work in works
    ]


def draft_forwards(count: int, *, parallel: bool) -> list[Work]:
    """`count` forwards of the one-layer draft model, each with its own logits and top-k."""
    forward = [_work(part) for part in _DRAFT]
    works = [replace(work, step=step) for step in range(count) for work in forward]
    return works if parallel else [work for work in works if not work.collective]


def draft_extend_forward(*, parallel: bool) -> list[Work]:
    """The draft model over the accepted tokens."""
    return [
        replace(work, step=None, kernel=kernel_names.VERIFY_ATTENTION)
        if work.kernel is kernel_names.DECODE_ATTENTION
        else replace(work, step=None)
        for work in draft_forwards(1, parallel=parallel)
    ]


def _layer(parts: tuple[_Part, ...], growth: Growth | None, layers: int) -> list[Work]:
    if growth is None:
        return [_work(part) for part in parts]
    grown = {
        kind: 1000
        / layers
        * (growth.step_ms * _STEP_SHARES.get(kind, 0) + growth.tokens_ms * share)
        for kind, share in _TOKEN_SHARES.items()
    }
    usual = _sums((*_ATTENTION, *_EXPERTS))
    return [
        _work((kind, _prompt_kernel(kernel), weight * (1 + grown[kind] / usual[kind])))
        for kind, kernel, weight in parts
    ]


def _sums(parts: tuple[_Part, ...]) -> Mapping[str, float]:
    sums = dict.fromkeys((kind for kind, _kernel, _weight in parts), 0.0)
    for kind, _kernel, weight in parts:
        sums[kind] += weight
    return sums


def _prompt_kernel(kernel: KernelName) -> KernelName:
    """Several tokens a request go through the attention kernel for prompts."""
    if kernel is moe_kernel_names.DECODE_ATTENTION:
        return moe_kernel_names.PROMPT_ATTENTION
    return kernel


def _work(part: _Part) -> Work:
    kind, kernel, weight = part
    return Work(kernel, round(1000 * weight), collective=kind.startswith("all-"))
