"""The whole timeline of a trace: all that a page, a figure or an export can draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analyses.acceptance import accepted_drafts
from traceanalyzer.analyses.buckets import cycle_buckets
from traceanalyzer.analyses.phase_time import phase_segments
from traceanalyzer.analyses.timeline_lanes.lanes import timeline_lanes
from traceanalyzer.phases.phased import settle_phases

if TYPE_CHECKING:
    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.trace import Trace


def whole_timeline(trace: Trace, rules: Rules, *, infer: bool = True) -> TimelineLanes:
    """Lanes with every span of a trace.

    Args:
        trace: The tables.
        rules: What names of ranges mean.
        infer: Whether to infer phases where no range means one.
    """
    phased = settle_phases(trace, rules, infer=infer)
    timed = phased.collected
    segments = phase_segments(phased.ops.take(timed), phased.label[timed], phased.cycles)
    bucket = cycle_buckets(phased)["bucket"].to_numpy().astype(np.int64)
    return timeline_lanes(phased, segments, bucket, accepted_drafts(trace))
