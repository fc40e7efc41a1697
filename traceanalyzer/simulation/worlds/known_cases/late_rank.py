"""A decoding server on two GPUs, half of whose step one rank waits for the other.

Source: a comment of September 2026 on vLLM issue 52777 (rank skew in collectives), by traces of
both ranks: eight requests, about 150 ms a step, about 159 all-reduces in it, which the ranks enter
72 to 77 ms apart in all; the GPU of the late rank idles 48 ms a step for want of launches.
Conclusions: half of the step is waiting for the late rank; the time of the all-reduces is mostly
that and no property of the link.

Here the late rank is the last one (there it was the first), collectives are NCCL's (there they
were vLLM's own, which do not show when they end together), and the part of the skew that idle time
does not explain is put into longer kernels of the same rank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from traceanalyzer.simulation.worlds.known_cases.case import (
    ONE_REQUEST,
    KnownCase,
    kernel_costs,
    share_of_layer,
)
from traceanalyzer.simulation.worlds.settings import (
    Cost,
    Host,
    Parallel,
    Speculation,
    WorldSettings,
)

STEP_MS: Final = 150.0
SKEW_MS: Final = (72 + 77) / 2
LATE_IDLE_MS: Final = 48.0
ALL_REDUCES: Final = 159
BATCH: Final = 8
RANKS: Final = 2

_LAYERS: Final = (ALL_REDUCES + 1) // 2
_CALLS: Final = 2 * _LAYERS + 5
"""Launch calls of a step: two a layer, the head, two copies and two kernels that sample."""
_CALL_US: Final = 7.0
"""What such a call takes itself."""
_TRANSFER_MS: Final = 5.0
"""All-reduces of a step without waiting, made up."""


def _settings() -> WorldSettings:
    """A rank whose host paces its GPU, and whose kernels take longer."""
    late_ms = STEP_MS - LATE_IDLE_MS - _TRANSFER_MS
    early_ms = STEP_MS - SKEW_MS - _TRANSFER_MS
    # Collectives take what they take; the shares of all other kernels fill the early rank's time.
    layer_us = 1e3 * early_ms / _LAYERS / (1 - share_of_layer("collective"))
    costs = replace(
        kernel_costs(layer_us),
        layers=_LAYERS,
        collective=Cost(1e3 * _TRANSFER_MS / (2 * _LAYERS)),
        head=Cost(20.0),
        sample=Cost(3.0),
        jitter_share=0.01,
    )
    late_call_us = 1e3 * STEP_MS / _CALLS - _CALL_US
    return WorldSettings(
        engine="vllm",
        costs=costs,
        speculation=Speculation(method="none"),
        load=replace(ONE_REQUEST, batch=BATCH),
        host=Host(rank_jitter_share=0.02),
        parallel=Parallel(
            tensor=RANKS, slow_rank_share=late_ms / early_ms - 1, late_call_us=late_call_us
        ),
        cycles=12,
        piecewise=True,
    )


LATE_RANK: Final = KnownCase(_settings())
