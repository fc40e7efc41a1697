"""By how much the windows of a run miss what was asked for.

Jitter, gaps and the slowest rank add to what the programs' lengths say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.simulation.forwards import window_ms
from traceanalyzer.simulation.truth import truth_of

if TYPE_CHECKING:
    from traceanalyzer.simulation.recording import Recording
    from traceanalyzer.simulation.settings import Eagle3Settings
    from traceanalyzer.simulation.truth_tables import BucketTruth


def corrections_ms(recording: Recording, settings: Eagle3Settings) -> dict[str, float]:
    """What each phase's window needs more, by the means over the complete cycles of a run."""
    corrections: dict[str, float] = {}
    wanted = window_ms(settings)
    for bucket in truth_of(recording).buckets:
        if bucket.batch_size != settings.batch_sizes[0]:
            continue
        windows = dict(bucket.windows_ns)
        target = "verify" if bucket.kind == "verify" else "decode"
        windows[target] = windows.get(target, 0.0) + windows.pop("sample", 0.0)
        for phase in windows.keys() & wanted.keys():
            corrections[phase] = wanted[phase] - windows[phase] / 1e6
    return corrections


def mean_period_ns(recording: Recording) -> float:
    """Mean period of the complete cycles of the shape that has most of them."""
    return max(truth_of(recording).buckets, key=_cycles).period_ns


def _cycles(bucket: BucketTruth) -> int:
    return bucket.cycles
