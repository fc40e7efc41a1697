"""Captures at several draft lengths and batches: one cost curve, one best length a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.report import Estimated
from traceanalyzer.report.sweep import BatchThreshold, Sweep, SweepBatch, SweepPoint
from traceanalyzer.speculation.acceptance import AcceptanceCounts
from traceanalyzer.speculation.advice import advise
from traceanalyzer.speculation.cost import FixedStep, fixed_step
from traceanalyzer.speculation.speedup import batch_threshold
from traceanalyzer.verdict.buckets import longest_run, verified_per_request
from traceanalyzer.verdict.estimates import NS_PER_MS, as_ms, estimated, plain
from traceanalyzer.verdict.predictions import advice_for, predictions_of
from traceanalyzer.verdict.situations import as_report_action, situation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import Action, BucketReport, BucketVerdict, Report

_MOSTLY: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Measured:
    """One bucket of one capture with its verdict and its place in the sweep."""

    point: SweepPoint
    bucket: BucketReport
    verdict: BucketVerdict


def sweep_of(reports: Sequence[Report]) -> Sweep:
    """What captures at several draft lengths or batches tell together.

    Args:
        reports: Judged reports of the captures, one or more, each against the same baseline.
    """
    trusted = [report for report in reports if not _withheld(report)]
    # Where no capture can be trusted their figures are still shown, with what failed in each.
    measured = [each for report in trusted or reports for each in _measured(report)]
    batches = list(dict.fromkeys(each.point.batch for each in measured))
    batches.sort(key=lambda batch: (batch is None, batch or 0))
    found = [_batch([each for each in measured if each.point.batch == batch]) for batch in batches]
    return Sweep(
        tool=reports[0].tool,
        batches=found,
        threshold=_threshold(found),
        caveats=_caveats(reports, measured),
    )


def _withheld(report: Report) -> bool:
    return report.verdict is not None and bool(report.verdict.withheld_because)


def _measured(report: Report) -> list[_Measured]:
    found = []
    for verdict in report.verdict.buckets if report.verdict else []:
        bucket = report.buckets[verdict.bucket]
        found.append(_Measured(_point(report, bucket, verdict), bucket, verdict))
    return found


def _point(report: Report, bucket: BucketReport, verdict: BucketVerdict) -> SweepPoint:
    windows = {phase.phase: phase.window_ns for phase in bucket.phases}
    per_request = verified_per_request(bucket)
    return SweepPoint(
        source=report.capture.files[0].path,
        batch=bucket.shape.batch,
        draft_tokens=longest_run(bucket),
        verified_tokens=round(per_request) if per_request else None,
        cycles=bucket.cycles,
        period_ns=bucket.mean_period_ns,
        target_ns=_sum(windows, "verify", "sample"),
        draft_ns=_sum(windows, "draft").value,
        draft_extend_ns=_sum(windows, "draft_extend").value,
        accept_len=verdict.accept_len,
        tokens_per_s=verdict.tokens_per_s,
        speedup=verdict.speedup,
    )


def _sum(windows: dict[str, Estimated], *names: str) -> Estimated:
    """Windows together; their intervals are added, since phases of a cycle move together."""
    parts = [windows[name] for name in names if name in windows]
    value = sum(part.value for part in parts)
    low, high = (
        [part.low for part in parts if part.low is not None],
        [part.high for part in parts if part.high is not None],
    )
    if not parts or len(low) < len(parts) or len(high) < len(parts):
        return Estimated(value)
    return Estimated(value, sum(low), sum(high))


def _batch(measured: list[_Measured]) -> SweepBatch:
    measured = sorted(measured, key=lambda each: (each.point.draft_tokens or 0, each.point.source))
    points = [each.point for each in measured]
    baseline = next(
        (each.verdict.baseline_ns for each in measured if each.verdict.baseline_ns), None
    )
    counts = AcceptanceCounts.from_rows(
        row for each in measured if each.bucket.acceptance for row in each.bucket.acceptance.counts
    )
    step = _fixed_step(points, baseline)
    found = SweepBatch(
        batch=points[0].batch,
        baseline_ns=baseline,
        points=points,
        world=_world(step) if step else None,
        fixed_step_ns=estimated(step.step_ms, NS_PER_MS) if step else None,
        per_token_ns=estimated(step.per_token_ms, NS_PER_MS) if step else None,
        fixed_share=estimated(step.fixed_share) if step else None,
        survival=list(counts.survival()),
    )
    predictions = predictions_of(points, counts, baseline)
    if predictions:
        best = max(predictions, key=lambda each: each.tokens_per_s.value)
        found = replace(found, predictions=predictions, best_draft_tokens=best.draft_tokens)
    return replace(found, advice=advice_for(found), actions=_actions(measured, step))


def _fixed_step(points: Sequence[SweepPoint], baseline: Estimated | None) -> FixedStep | None:
    if baseline is None:
        return None
    costs = [
        (each.verified_tokens, as_ms(each.target_ns)) for each in points if each.verified_tokens
    ]
    return fixed_step(as_ms(baseline), costs)


def _world(step: FixedStep) -> str:
    if step.fixed_share.low > _MOSTLY:
        return "fixed step"
    return "per token" if step.fixed_share.high < _MOSTLY else "undecided"


def _actions(measured: Sequence[_Measured], step: FixedStep | None) -> list[Action]:
    """What to do at the measured length with most tokens a second."""
    rates = [
        (each.point.tokens_per_s.value, place)
        for place, each in enumerate(measured)
        if each.point.tokens_per_s is not None
    ]
    if not rates:
        return []
    best = measured[max(rates)[1]]
    situation = replace(situation_of(best.bucket, best.verdict, ()), verify_fit=step)
    return [as_report_action(action) for action in advise(situation)]


def _threshold(batches: Sequence[SweepBatch]) -> BatchThreshold | None:
    """Where the best speed-up of each batch falls through 1."""
    best = []
    for each in batches:
        found = next(
            (p.speedup for p in each.predictions if p.draft_tokens == each.best_draft_tokens), None
        )
        if each.batch is not None and found is not None:
            best.append((float(each.batch), plain(found)))
    if len(best) < 2:
        return None
    found_at = batch_threshold(best)
    return BatchThreshold(found_at.batch, found_at.low, found_at.high)


def _caveats(reports: Sequence[Report], measured: Sequence[_Measured]) -> list[str]:
    texts = [
        f"{report.capture.files[0].path} holds no speculating cycles and adds nothing"
        for report in reports
        if report.verdict is None
    ]
    texts += [
        f"{report.capture.files[0].path} is left out: {text}"
        for report in reports
        if report.verdict
        for text in report.verdict.withheld_because
    ]
    if any(each.point.accept_len is None for each in measured):
        texts.append("captures without acceptance tell costs only")
    if all(each.verdict.baseline_ns is None for each in measured):
        texts.append("without a baseline the fixed step cannot be told from the cost of tokens")
    return list(dict.fromkeys(texts))
