"""Which kernels a dense target and its draft model run, and how programs get their length.

Weights are relative lengths; a program's length is what the compute stream needs for it, gaps
and the exposed part of overlapping collectives included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.errors import InputError
from traceanalyzer.simulation import kernel_names as names
from traceanalyzer.simulation.work import GRAPH_GAP_NS, Work, graph_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.simulation.recording import KernelName


def target_forward(layers: int, attention: KernelName, *, parallel: bool) -> list[Work]:
    """The target model over its tokens, up to the logits."""
    works = [Work(names.GATHER, 3)]
    for layer in range(layers):
        works += _layer_works(attention, layer, parallel=parallel)
    return [*works, Work(names.LM_HEAD_GEMM, 60)]


def draft_forwards(count: int, *, parallel: bool) -> list[Work]:
    """`count` forwards of the one-layer draft model, each with its own logits and top-k."""
    works = []
    for step in range(count):
        layer = _layer_works(names.DECODE_ATTENTION, 0, parallel=parallel)[:-1]
        works += [replace(work, step=step) for work in (*layer, *_draft_head())]
    return works


def draft_extend_forward(*, parallel: bool) -> list[Work]:
    """The draft model over the accepted tokens."""
    layer = _layer_works(names.VERIFY_ATTENTION, 0, parallel=parallel)[:-1]
    return [*layer, *_draft_head()]


def _draft_head() -> tuple[Work, ...]:
    return (Work(names.LM_HEAD_GEMM, 30), Work(names.TOP_K, 8))


def _layer_works(attention: KernelName, layer: int, *, parallel: bool) -> list[Work]:
    works = [
        Work(names.ADD_NORM, 3),
        Work(names.QKV_GEMM, 12),
        Work(names.ROPE, 3),
        Work(names.STORE_CACHE, 2),
        Work(attention, 14),
        Work(names.OUT_GEMM, 10),
        Work(names.ALL_REDUCE, 9, collective=True),
        Work(names.UP_GEMM, 26),
        Work(names.ACTIVATION, 3),
        Work(names.DOWN_GEMM, 22),
        Work(names.NCCL_ALL_REDUCE, 10, collective=True, overlaps=True),
    ]
    return [replace(work, layer=layer) for work in works if parallel or not work.collective]


def sampling(*, verifies: bool) -> list[Work]:
    """From logits to tokens, which verification accepts or not."""
    verification = [Work(names.VERIFY_TREE, 6)] if verifies else []
    return [Work(names.SOFTMAX, 12), Work(names.ARG_MAX, 10), *verification, Work(names.INDEX, 4)]


def scaled(works: Iterable[Work], length_ns: float, where: str) -> list[Work]:
    """The program with all weights turned into times, so that it takes `length_ns` in a graph.

    Raises:
        InputError: The gaps alone take longer.
    """
    program = list(works)
    gaps_ns = GRAPH_GAP_NS * sum(not work.overlaps for work in program)
    factor = (length_ns - gaps_ns) / (graph_ns(program) - gaps_ns)
    shortest_ns = factor * min(work.duration_ns for work in program)
    if shortest_ns < 1:
        raise InputError(
            f"{length_ns / 1e6:.3f} ms is too short for {len(program)} kernels",
            where=where,
            next_step="Ask for more time, fewer layers or fewer draft tokens.",
        )
    return [replace(work, duration_ns=round(work.duration_ns * factor)) for work in program]


def total_ns(works: Sequence[Work], gap_ns: int) -> int:
    """Time of a chain of kernels on one stream, gaps included."""
    return sum(work.duration_ns + gap_ns for work in works)
