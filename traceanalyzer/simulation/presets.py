"""Named servers to start from: the worked case and the runs around it that explain it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.settings import Eagle3Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def seed_baseline() -> Eagle3Settings:
    """The worked case with speculation off: plain decode steps of 11.1 ms."""
    return replace(Eagle3Settings.seed_case(cycles=60, ranks=1), draft_tokens=0)


def seed_synchronised() -> Eagle3Settings:
    """The worked case under a timer that synchronises the device around each phase.

    The GPU works as long as in the worked case; what the host takes comes on top.
    """
    seed = Eagle3Settings.seed_case(cycles=60, ranks=2)
    return replace(seed, detail_cycles=0, synchronise=True, host_ms=2.4)


def seed_sweep() -> Eagle3Settings:
    """One point of a sweep over k where verify costs a step and 0.87 ms a token.

    Requests are shorter than in the worked case, so that a small trace holds enough of them.
    """
    seed = Eagle3Settings.seed_case(cycles=100, ranks=1)
    return replace(seed, detail_cycles=0, prefill_every=6)


def seed_sweep_linear() -> Eagle3Settings:
    """The same where verify costs only by token: one token costs what a decode step does."""
    sweep = seed_sweep()
    verify_ms = sweep.verify_window_ms()
    token_ms = (verify_ms - sweep.decode_ms) / (sweep.tokens_to_verify - 1)
    return replace(sweep, verify_ms=sweep.decode_ms - token_ms, verify_token_ms=token_ms)


def tiny() -> Eagle3Settings:
    """One rank, five cycles of a few kernels, and none of the hard cases: nothing is wrong."""
    return replace(
        Eagle3Settings.small(),
        ranks=1,
        cycles=5,
        draft_tokens=2,
        verified_tokens=3,
        layers=1,
        lag_cycles=0,
        warm_up_cycles=0,
        prefill_every=0,
        straddle_every=0,
        orphan_kernels=0,
        other_kernels=0,
        scheduler_ranges=False,
        sample_ranges=False,
        requests=False,
        offload_thread=False,
        result_stream=False,
    )


VERIFY_CAUSES: Final[Mapping[str, Mapping[str, object]]] = {
    "even": {},
    "attention": {"verify_growth": "attention", "verify_ms": 23.227},
    "all-reduce": {"verify_growth": "all_reduce", "verify_ms": 23.227},
    "experts": {"verify_growth": "experts", "verify_ms": 15.0},
    "eager": {"verify_eager_us": 10.0},
    "padding": {"graph_batch": 16},
}
"""What makes verify dear in each preset `verify-...`; in `even` all kernels alike, a bit."""


def verify_cause(cause: str) -> Eagle3Settings:
    """The worked case, short, its verify dear for one reason alone.

    Its plain step is the same server with `draft_tokens=0`.

    Args:
        cause: A key of `VERIFY_CAUSES`.
    """
    seed = replace(
        Eagle3Settings.seed_case(cycles=12, ranks=1),
        graph_mode="node",
        detail_cycles=0,
        exact=False,
        prefill_every=0,
        verify_growth="even",
        verify_ms=8.0,
    )
    return replace(seed, **VERIFY_CAUSES[cause])  # type: ignore[arg-type]


PRESETS: Final[Mapping[str, Callable[[], Eagle3Settings]]] = {
    "server": Eagle3Settings,
    "small": Eagle3Settings.small,
    "tiny": tiny,
    "seed": Eagle3Settings.seed_case,
    "seed-baseline": seed_baseline,
    "seed-synchronised": seed_synchronised,
    "seed-sweep": seed_sweep,
    "seed-sweep-linear": seed_sweep_linear,
    **{f"verify-{cause}": partial(verify_cause, cause) for cause in VERIFY_CAUSES},
}
