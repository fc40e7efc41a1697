"""How far the recording itself may have changed what it recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.phases.rules import is_prompt_work
from traceanalyzer.report import Instrumentation, SyncCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.assembly.timing import Timing

_WAITS: Final = ("synchronisation",)
# After a wait the host has lost its lead, so the launches that follow come late as well.
_HOST: Final = (*_WAITS, "host late", "launch latency")


def instrumentation_of(timing: Timing, calls: pl.DataFrame) -> Instrumentation:
    """Synchronisations and what they cost.

    Args:
        timing: Cycles and their gaps.
        calls: See `synchronisations`.
    """
    lanes = np.bincount(timing.cycles.spans.lane, minlength=1)
    cycles = int(lanes.sum())
    prompts = [place for place, label in enumerate(timing.labels) if is_prompt_work(label)]
    decoding = calls.filter((pl.col("scope") == "device") & ~pl.col("label").is_in(prompts))
    device = int(decoding["calls"].sum())
    return Instrumentation(
        cycles=int(lanes.max()),
        sync_calls=[
            SyncCalls(timing.labels[row["label"]], row["scope"], row["calls"], row["host_ns"])
            for row in calls.iter_rows(named=True)
        ],
        device_syncs_per_cycle=device / cycles if cycles else 0.0,
        sync_gap_share=_gap_share(timing, _WAITS),
        host_gap_share=_gap_share(timing, _HOST),
    )


def _gap_share(timing: Timing, causes: Sequence[str]) -> float:
    """Idle time of some causes, of the kept cycles' time."""
    kept = timing.kept()
    period_ns = int(timing.cycles.spans.duration_ns[kept].sum())
    places = [timing.causes.index(cause) for cause in causes]
    gap_ns = int(timing.time.gap[kept][:, :, places].sum())
    return gap_ns / period_ns if period_ns else 0.0
