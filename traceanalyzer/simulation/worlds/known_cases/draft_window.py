"""GLM-5.2 on eight GPUs: a round between two verify replays, and what of it is the draft's.

Source: pegainfer pull request 615 (July 2026), by Nsight Systems with whole-graph rows.
Conclusions: the verify replay is 90 % of a round; even a draft that costs nothing buys 11 %;
tracing slowed the server by 1.6 %.

The draft window there is all between two verify replays. Its parts are published to one decimal
and add up to 2.7 ms beside a window of 2.6 and a round of 26.2: the world lies where all are met.
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
    Recorder,
    Speculation,
    WorldSettings,
)

ROUND_MS: Final = 26.2
VERIFY_REPLAY_MS: Final = 23.7
DRAFT_WINDOW_MS: Final = 2.6
DRAFT_STEP_MS: Final = 0.205
DRAFT_EAGER_MS: Final = 0.06
DRAFT_KERNELS_MS: Final = 1.5
DRAFT_GAPS_MS: Final = 0.7
LAUNCH_TAIL_MS: Final = 0.5
TRACED_TOKENS_PER_S: Final = 183.0
UNTRACED_TOKENS_PER_S: Final = 186.0
FREE_DRAFT_GAIN: Final = 0.11
DRAFTS: Final = 7
RANKS: Final = 8

_LAYERS: Final = 4
_DRAFT_NODES: Final = 11
_KERNELS_MS: Final = DRAFTS * DRAFT_STEP_MS + DRAFT_EAGER_MS
"""The eager kernels before the steps are put into them."""
_GAPS_MS, _TAIL_MS = DRAFT_GAPS_MS - 0.05, LAUNCH_TAIL_MS - 0.05
"""The least of what is rounded to those, so that parts and window agree."""
_BEFORE_DRAFT_US, _BEFORE_VERIFY_US = 19.0, 14.0
"""What ranges, marks and calls take of the two, beside the work in `Host`."""
_APART_US: Final = 12.0
"""What kernels take longer since the ranks launch a little apart."""
_CALLS: Final = 3
"""Launch calls between a verify's end and the call that launches the next one."""
_ROUND_MS: Final = VERIFY_REPLAY_MS + _KERNELS_MS + _GAPS_MS + _TAIL_MS
_TRACING_US: Final = 1e3 * _ROUND_MS * (1 - TRACED_TOKENS_PER_S / UNTRACED_TOKENS_PER_S)


def _costs() -> Costs:
    """Seven draft forwards as long as the draft's kernels, and a verify graph."""
    head_share = 0.1
    verify_us = by_the_last(1e3 * VERIFY_REPLAY_MS, RANKS)
    layer_us, head_us = (1 - head_share) * verify_us / _LAYERS, head_share * verify_us
    forward_us = by_the_last(1e3 * _KERNELS_MS - _APART_US, RANKS) / DRAFTS
    forward_us -= _DRAFT_NODES * 1e-3 * GRAPH_GAP_NS
    return replace(
        kernel_costs(layer_us),
        layers=_LAYERS,
        head=Cost(head_us),
        sample=Cost(1.0),
        draft_factor=forward_us / (layer_us + head_us),
        verify_attention_factor=1.0,
        jitter_share=0.003,
    )


def _host() -> Host:
    """Host work that leaves the GPU idle as long as it was, the recorder's part left out.

    From the results on: prepare, launch extend; results, schedule, prepare, launch draft; prepare,
    launch verify. Draft and extend run meanwhile, one forward and all others. What tracing costs is
    put on the launch calls: one ends before draft begins, two more before verify does.
    """
    forward_us = 1e3 * _KERNELS_MS / DRAFTS
    short_us = 20.0
    idle_us = 1e3 * _GAPS_MS - _BEFORE_DRAFT_US - _TRACING_US / _CALLS
    phase_us = (idle_us + forward_us - 2 * short_us) / 2
    draft_us = (DRAFTS - 1) * forward_us
    tail_us = 1e3 * _TAIL_MS - _BEFORE_VERIFY_US - _TRACING_US * 2 / _CALLS
    return Host(
        schedule_us=short_us,
        phase_us=phase_us,
        results_us=short_us,
        jitter_share=0.02,
        rank_jitter_share=0.002,
        target_launch_us=tail_us + draft_us - phase_us,
    )


DRAFT_WINDOW: Final = KnownCase(
    WorldSettings(
        engine="sglang_v1",
        costs=_costs(),
        speculation=Speculation(
            draft_tokens=(DRAFTS,),
            accepted_in_turn=accepted_in_turn(1e-3 * TRACED_TOKENS_PER_S * _ROUND_MS, DRAFTS),
        ),
        load=ONE_REQUEST,
        host=_host(),
        parallel=Parallel(tensor=RANKS),
        cycles=2 * TURN + 1,
    ),
    graphs=Recorder(call_us=_TRACING_US / _CALLS),
)
