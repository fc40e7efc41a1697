"""DeepSeek-V4-Flash on two GPUs with EAGLE in SGLang: one graph's sum, union and span.

Source: a comment of July 2026 on SGLang issue 29960 (long cudaGraphLaunch of target verify that
nothing overlaps), medians of twelve steady cycles of one request. Which of the two draft graphs is
which is not published. Conclusions: kernels that overlap make the sum of their times 29 % longer
than the GPU is busy with them; what the span is longer than the union is gaps; the GPU is idle
until the launch of the verify graph lets it begin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from traceanalyzer.simulation.worlds.known_cases.case import ONE_REQUEST, KnownCase, kernel_costs
from traceanalyzer.simulation.worlds.settings import (
    Cost,
    Costs,
    Host,
    Parallel,
    Speculation,
    WorldSettings,
)

CYCLE_MS: Final = 13.720
SPAN_MS: Final = 12.049
UNION_MS: Final = 11.204
SUM_MS: Final = 14.444
DRAFT_SPAN_MS: Final = 0.691
EXTEND_SPAN_MS: Final = 0.736
LAUNCH_MS: Final = 2.826
DRAFTS: Final = 2
RANKS: Final = 2

_LAYERS: Final = 8
_HEAD_SHARE: Final = 0.04
_EARLY_KERNELS: Final = 5 * _LAYERS
"""Kernels of the verify graph that have no collective before or at their place, the first apart."""
_LAYER: Final = {
    "norm": 0.13,
    "qkv": 0.14,
    "attention": 0.20,
    "out": 0.06,
    "up": 0.14,
    "activation": 0.13,
    "down": 0.10,
    "collective": 0.05,
}
_HOST_US: Final = 240.0
"""From the end of a verify graph to the call that launches the next one: see `Host`."""


def _costs() -> Costs:
    """Overlap by early starts, gaps by what follows collectives."""
    layer_us = 1e3 * UNION_MS * (1 - _HEAD_SHARE) / _LAYERS
    head_us = 1e3 * UNION_MS * _HEAD_SHARE
    gap_us = 1e3 * (SPAN_MS - UNION_MS) / (2 * _LAYERS)
    extend_us, draft_us = (1e3 * span - 2 * gap_us for span in (EXTEND_SPAN_MS, DRAFT_SPAN_MS))
    factor = extend_us / (layer_us + head_us)
    attention_us = _LAYER["attention"] * layer_us
    plain_us = attention_us - (extend_us - draft_us) / factor
    return replace(
        kernel_costs(layer_us, _LAYER, gap_us=0.0),
        layers=_LAYERS,
        attention=Cost(plain_us),
        head=Cost(head_us),
        sample=Cost(3.0),
        draft_factor=factor,
        verify_attention_factor=attention_us / plain_us,
        dependent_launch_us=1e3 * (SUM_MS - UNION_MS) / _EARLY_KERNELS,
        collective_gap_us=gap_us,
        jitter_share=0.002,
    )


EXPOSED_LAUNCH: Final = KnownCase(
    WorldSettings(
        engine="sglang_v1",
        costs=_costs(),
        speculation=Speculation(draft_tokens=(DRAFTS,), accept_probability=0.7),
        load=ONE_REQUEST,
        host=Host(
            jitter_share=0.02,
            rank_jitter_share=0.002,
            target_launch_us=1e3 * LAUNCH_MS - 15.0,
            # The cycle tells when the next verify begins: a part of its launch is over by then.
            launch_ahead_share=1 - (1e3 * (CYCLE_MS - SPAN_MS) - _HOST_US) / (1e3 * LAUNCH_MS),
        ),
        parallel=Parallel(tensor=RANKS),
        cycles=24,
    )
)
