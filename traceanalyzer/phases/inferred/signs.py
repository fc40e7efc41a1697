"""What a kernel's name says about its place in a forward: one bit a sign, each name read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.kernels.classification import CLASSES, COLLECTIVES, KernelRules
from traceanalyzer.schema import OP_KINDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]

ATTENTION, PRODUCT, MODEL, CHOICE, PICK, ACCEPT, TREE, OPAQUE, PROMPT, TRAINING = (
    1 << bit for bit in range(10)
)
"""Attention; a matrix product; any work of a layer; from logits to tokens or tree building; a
token is picked; drafts are judged; the draft tree is built; a whole-graph row; attention named
after prompts; a step backwards."""

_MODEL_CLASSES: Final = frozenset(
    {
        "attention",
        "MoE GEMM",
        "MoE routing",
        "dense GEMM",
        "norm",
        "rotary",
        "activation",
        "quantise",
        "KV cache write",
        *COLLECTIVES,
    }
)
_CLASS_SIGNS: Final = {
    "attention": ATTENTION,
    "MoE GEMM": PRODUCT,
    "dense GEMM": PRODUCT,
    "sampling/top-k": CHOICE,
    "tree build": CHOICE | TREE,
}
# SGLang: VerifyTreeGreedy, TreeSpeculativeSamplingTargetOnly; vLLM: rejection_*_sample_kernel;
# TensorRT-LLM: acceptDraftTokens.
_ACCEPTS: Final = r"(?i)verify_?tree|rejection|speculative_?sampling|accept_?(?:draft|len|select)"
_ONLY_SOFTMAX: Final = r"(?i)soft_?max"
_PROMPT: Final = r"(?i)prefill|context|extend"
# MIOpen writes bwd and wrw (weights); servers run multi_tensor_apply too, to copy.
_TRAINING: Final = (
    r"(?i)backward|[_:]bwd|bwd[_<]|igemm_wrw|dgrad|wgrad|fused_?adam|adamw|optimizer"
    r"|multi_tensor_apply.*(?:adam|lamb|sgd|PointwiseOp|LpNorm)"
)


def signs_of_ops(trace: Trace) -> Int64s:
    """The signs of every op: kernels by name; a whole-graph row can hold anything."""
    kinds, name = trace.ops["kind"].to_physical().to_numpy(), trace.ops["name"].to_numpy()
    is_kernel = kinds == OP_KINDS.index("kernel")
    used = np.zeros(trace.names.height, bool)
    used[name[is_kernel]] = True
    rows = np.flatnonzero(used)
    of_name = np.zeros(used.size, np.int64)
    of_name[rows] = _signs(trace.names["text"].gather(rows))
    signs: Int64s = of_name[name]
    signs[~is_kernel] = 0
    signs[kinds == OP_KINDS.index("graph")] = OPAQUE
    return signs


def _signs(names: pl.Series) -> Int64s:
    of_class = np.array(
        [_CLASS_SIGNS.get(name, 0) | MODEL * (name in _MODEL_CLASSES) for name in CLASSES]
    )
    signs: Int64s = of_class[KernelRules.shipped().classify(names)]
    chooses, attends = (signs & (CHOICE | TREE)) == CHOICE, (signs & ATTENTION) != 0
    for pattern, holds, sign in (
        (_ACCEPTS, chooses, ACCEPT),
        (_PROMPT, attends, PROMPT),
        (_TRAINING, np.True_, TRAINING),
    ):
        signs = np.where(holds & _contains(names, pattern), signs | sign, signs)
    return np.where(chooses & ~_contains(names, _ONLY_SOFTMAX), signs | PICK, signs)


def _contains(names: pl.Series, pattern: str) -> NDArray[np.bool_]:
    return names.str.contains(pattern).fill_null(False).to_numpy()
