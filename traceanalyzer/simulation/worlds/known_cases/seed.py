"""Kimi-K2.5 on eight GPUs with EAGLE-3 in SGLang: speculation loses, and verify is why.

Source: the worked example of traceanalyzer's own origin, timed by hand with synchronising timers.
Conclusions: accept_len 2.25 is below the break-even of 2.86; verify (89.6 %) is the cost, not the
draft (6.9 %); to run the draft on one GPU alone cannot matter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from traceanalyzer.simulation.work import GRAPH_GAP_NS
from traceanalyzer.simulation.worlds.known_cases.case import (
    ONE_REQUEST,
    TURN,
    KnownCase,
    accepted_in_turn,
    by_the_last,
    kernel_costs,
)
from traceanalyzer.simulation.worlds.settings import (
    Cost,
    Costs,
    Host,
    Parallel,
    Speculation,
    WorldSettings,
)

PLAIN_MS: Final = 11.1
DRAFT_MS: Final = 2.18
VERIFY_MS: Final = 28.45
EXTEND_MS: Final = 1.12
CYCLE_MS: Final = 31.74
ACCEPT_LEN: Final = 2.25
BREAK_EVEN: Final = 2.86
DRAFTS: Final = 5
RANKS: Final = 8

_LAYERS: Final = 3
_FIXED_MS: Final = 13.0
"""Of verify's growth over a plain step what no token adds, by a second run with ten drafts."""
_SAMPLE_US: Final = 5.0
_AROUND_US: Final = 30.0
"""Sampling kernels and copies of a step, gaps included."""
_DRAFT_NODES: Final = 11
_GEMMS: Final = ("qkv", "out", "up", "down")


def _costs() -> Costs:
    """A target whose verify and plain step, and a draft whose two forwards, take what they took.

    A draft forward is one layer and the head, so what verify adds to a layer sets how much of the
    draft forward a layer is: extend takes 1.12 ms where a draft step takes 2.18 / 4.
    """
    plain_us, verify_us, draft_us, extend_us = (
        by_the_last(1e3 * each, RANKS) for each in (PLAIN_MS, VERIFY_MS, DRAFT_MS, EXTEND_MS)
    )
    growth_us, plain_us = verify_us - plain_us, plain_us - _AROUND_US
    gaps_us = _DRAFT_NODES * 1e-3 * GRAPH_GAP_NS
    step_us, extend_us = draft_us / (DRAFTS - 1) - gaps_us, extend_us - gaps_us
    forward_us = growth_us / _LAYERS * step_us / (extend_us - step_us)
    head_us = (forward_us - plain_us / _LAYERS) * _LAYERS / (_LAYERS - 1)
    layer_us = (plain_us - head_us) / _LAYERS
    costs = kernel_costs(layer_us)
    token_us = (growth_us - 1e3 * _FIXED_MS) / _LAYERS / DRAFTS
    gemms = {name: getattr(costs, name).fixed_us for name in _GEMMS}

    def gemm(name: str) -> Cost:
        own_us = token_us * gemms[name] / sum(gemms.values())
        return Cost(gemms[name] - own_us, own_us)

    return replace(
        costs,
        layers=_LAYERS,
        qkv=gemm("qkv"),
        out=gemm("out"),
        up=gemm("up"),
        down=gemm("down"),
        head=Cost(head_us),
        sample=Cost(_SAMPLE_US),
        draft_factor=step_us / forward_us,
        verify_attention_factor=1 + 1e3 * _FIXED_MS / _LAYERS / costs.attention.fixed_us,
        jitter_share=0.01,
    )


SEED_CASE: Final = KnownCase(
    WorldSettings(
        engine="sglang_v2",
        costs=_costs(),
        speculation=Speculation(
            draft_tokens=(DRAFTS,), accepted_in_turn=accepted_in_turn(ACCEPT_LEN, DRAFTS)
        ),
        load=ONE_REQUEST,
        host=Host(rank_jitter_share=0.02),
        parallel=Parallel(tensor=RANKS),
        cycles=2 * TURN + 1,
    )
)
