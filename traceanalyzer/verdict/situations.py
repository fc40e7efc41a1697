"""One bucket as the theory's advice sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.kernels.short_names import short_pair
from traceanalyzer.report import OTHER_KERNELS, Action
from traceanalyzer.speculation.situation import ClassGrowth, Situation
from traceanalyzer.verdict.buckets import longest_run, verified_per_request
from traceanalyzer.verdict.estimates import NS_PER_MS, as_ms, plain
from traceanalyzer.verdict.growth import IDLE
from traceanalyzer.verdict.untraced import served_period

if TYPE_CHECKING:
    from traceanalyzer.report import BucketReport, BucketVerdict, Growth
    from traceanalyzer.speculation.situation import Action as TheoryAction

_SUSPECT_GAPS = ("host late", "launch latency")


def situation_of(
    bucket: BucketReport, verdict: BucketVerdict, problems: tuple[str, ...]
) -> Situation:
    """What advice needs to know of a bucket whose accept length is known."""
    assert verdict.accept_len is not None, "advice needs an accept length"
    windows = {phase.phase: phase.window_ns_per_cycle.mean / NS_PER_MS for phase in bucket.phases}
    draft_ms, extend_ms = windows.get("draft", 0.0), windows.get("draft_extend", 0.0)
    target_ms = (verdict.target_ns or 0.0) / NS_PER_MS
    period = as_ms(served_period(bucket))
    per_request = verified_per_request(bucket)
    return Situation(
        accept_len=plain(verdict.accept_len),
        draft_tokens=longest_run(bucket),
        verified_tokens=round(per_request) if per_request else None,
        batch=bucket.shape.batch,
        period_ms=period,
        baseline_ms=as_ms(verdict.baseline_ns) if verdict.baseline_ns else None,
        draft_ms=draft_ms,
        verify_ms=target_ms,
        draft_extend_ms=extend_ms,
        other_ms=max(0.0, period.value - draft_ms - target_ms - extend_ms),
        survival=tuple(bucket.acceptance.survival) if bucket.acceptance else (),
        host_idle_ms=_gap_ms(bucket, *_SUSPECT_GAPS),
        synchronisation_ms=_gap_ms(bucket, "synchronisation"),
        verify_is_eager=_is_eager(bucket),
        class_growth=_class_growth(verdict),
        draft_collective_ms=verdict.draft_collective_ns / NS_PER_MS
        if verdict.draft_collective_ns is not None
        else None,
        problems=problems,
        told_speedup=plain(verdict.speedup) if verdict.speedup else None,
    )


def as_report_action(action: TheoryAction) -> Action:
    """An action as plain data."""
    return Action(
        action.action,
        action.tokens_per_s_at_most,
        action.gain_share_at_most,
        action.evidence,
        action.refuted_by,
    )


def _gap_ms(bucket: BucketReport, *causes: str) -> float:
    gaps = (gap for phase in bucket.phases for gap in phase.gaps if gap.cause in causes)
    return sum(gap.ns_per_cycle for gap in gaps) / NS_PER_MS


def _is_eager(bucket: BucketReport) -> bool | None:
    """Whether the target forward ran without a graph; None when the shape does not tell."""
    return None if bucket.shape.graph is None else bucket.shape.graph == "no graph"


def _class_growth(verdict: BucketVerdict) -> tuple[ClassGrowth, ...]:
    """Kernel classes; idle time has no kernel and is no class."""
    return tuple(_class(row) for row in verdict.growth if row.name != IDLE)


def _class(row: Growth) -> ClassGrowth:
    before, after = _kernels(row)
    if before is not None and after is not None:
        before, after = short_pair(before, after)
    return ClassGrowth(
        name=row.name,
        decode_ms=row.decode_ns / NS_PER_MS,
        verify_ms=row.verify_ns / NS_PER_MS,
        decode_kernel=before,
        verify_kernel=after,
    )


def _kernels(row: Growth) -> tuple[str | None, str | None]:
    """The kernels of a class that tell whether verify runs another one.

    Where places match, those of the place that grew most; its two longest kernels may stand in
    different places.
    """
    for place in row.kernels:
        if OTHER_KERNELS not in (place.decode_kernel, place.verify_kernel):
            return place.decode_kernel, place.verify_kernel
    return row.decode_kernel, row.verify_kernel
