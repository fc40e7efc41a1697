"""The kernels of every phase's forward, as long as the settings ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation import kernel_names as names
from traceanalyzer.simulation import moe_programs, programs
from traceanalyzer.simulation.work import EAGER_GAP_NS, Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.simulation.settings import Eagle3Settings

BEFORE_DRAFT: Final = (Work(names.DRAFT_INDICES, 3_000),)
AFTER_DRAFT: Final = (Work(names.BUILD_TREE, 5_000),)
BEFORE_VERIFY: Final = (Work(names.CACHE_INDICES, 3_500),)
BEFORE_EXTEND: Final = (Work(names.EXTEND_INDICES, 3_000),)
AFTER_EXTEND: Final = (Work(names.ASSIGN_CACHE, 2_500),)

_BATCH_GROWTH = 0.04
_DRAFT_PREFILL_SHARE = 0.05


def sampling(settings: Eagle3Settings) -> dict[str, list[Work]]:
    """From logits to tokens, launched one by one after a verify and after a decode."""
    return {
        phase: programs.scaled(
            programs.sampling(verifies=phase == "verify"), settings.sample_ms * 1e6, "sample_ms"
        )
        for phase in ("verify", "decode")
    }


def window_ms(settings: Eagle3Settings) -> dict[str, float]:
    """Window asked for of each phase that has a forward, at batch 1; verify with its sampling."""
    if not settings.speculates:
        return {"decode": settings.decode_ms}
    return {
        "draft": settings.draft_window_ms,
        "verify": settings.verify_window_ms(),
        "draft_extend": settings.draft_extend_ms,
        "decode": settings.decode_ms,
    }


def forward_works(
    settings: Eagle3Settings, batch_size: int, corrections_ms: Mapping[str, float]
) -> dict[str, list[Work]]:
    """Kernels of each phase's forward.

    Args:
        settings: What the server does.
        batch_size: Requests that run together.
        corrections_ms: What to add to a phase's window.

    Returns:
        Works by phase; none for a draft of one token, which comes from the draft extend.

    Raises:
        InputError: A phase is asked to be shorter than the gaps between its kernels.
    """
    growth = 1 + _BATCH_GROWTH * (settings.padded_batch(batch_size) - 1)
    around = _around(settings)
    lengths_ns = {
        phase: 1e6 * growth * (length_ms + corrections_ms.get(phase, 0.0))
        - programs.total_ns(around[phase], EAGER_GAP_NS)
        for phase, length_ms in window_ms(settings).items()
    }
    lengths_ns["prefill"] = 1e6 * (1 - _DRAFT_PREFILL_SHARE) * settings.prefill_ms
    lengths_ns["draft_prefill"] = 1e6 * _DRAFT_PREFILL_SHARE * settings.prefill_ms
    return {
        phase: _over_link(programs.scaled(works, lengths_ns[phase], f"{phase}_ms"), settings)
        if works
        else []
        for phase, works in _programs(settings).items()
    }


def _over_link(works: Sequence[Work], settings: Eagle3Settings) -> list[Work]:
    """The works with collectives as slow as the link between the ranks makes them."""
    slower = 1 + settings.slow_link_share
    return [
        replace(work, duration_ns=round(work.duration_ns * slower)) if work.collective else work
        for work in works
    ]


def _around(settings: Eagle3Settings) -> dict[str, Sequence[Work]]:
    """What is launched one by one before and after each forward."""
    own = sampling(settings)
    return {
        "draft": (*BEFORE_DRAFT, *AFTER_DRAFT),
        "verify": (*BEFORE_VERIFY, *own["verify"]),
        "draft_extend": (*BEFORE_EXTEND, *AFTER_EXTEND),
        "decode": own["decode"],
    }


def _programs(settings: Eagle3Settings) -> dict[str, list[Work]]:
    parallel = settings.server_ranks > 1
    model = _moe_model if settings.model == "mla_moe" else _dense_model
    target = model(settings, parallel=parallel)
    if not settings.speculates:
        return {phase: target[phase] for phase in ("decode", "prefill")}
    return target


def _dense_model(settings: Eagle3Settings, *, parallel: bool) -> dict[str, list[Work]]:
    prompt = programs.target_forward(settings.layers, names.VERIFY_ATTENTION, parallel=parallel)
    token = programs.target_forward(settings.layers, names.DECODE_ATTENTION, parallel=parallel)
    extend = programs.draft_extend_forward(parallel=parallel)
    return {
        "draft": programs.draft_forwards(settings.draft_tokens - 1, parallel=parallel),
        "verify": prompt,
        "draft_extend": extend,
        "decode": token,
        "prefill": prompt,
        "draft_prefill": extend,
    }


def _moe_model(settings: Eagle3Settings, *, parallel: bool) -> dict[str, list[Work]]:
    first_ms = settings.verify_window_ms(1)
    growth = moe_programs.Growth(
        max(0.0, first_ms - settings.decode_ms), settings.verify_window_ms() - first_ms
    )
    prompt = moe_programs.target_forward(settings.layers, growth, parallel=parallel)
    decode, verify = moe_programs.decode_and_verify(
        settings.verify_growth, growth, settings.layers, parallel=parallel
    )
    extend = moe_programs.draft_extend_forward(parallel=parallel)
    return {
        "draft": moe_programs.draft_forwards(settings.draft_tokens - 1, parallel=parallel),
        "verify": verify,
        "draft_extend": extend,
        "decode": decode,
        "prefill": prompt,
        "draft_prefill": extend,
    }
