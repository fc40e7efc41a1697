"""The verdict over a whole report: each bucket on its own, then together, and what to do.

Nothing is said of speculation as a whole when a trust check fails, and nothing is invented where
the acceptance or the baseline is missing: the verdict then says what would supply it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.report import Agreement, Check, Estimated, MixedLoad, Reading, Verdict
from traceanalyzer.speculation.advice import advise, next_measurement
from traceanalyzer.speculation.speedup import BucketLoad, mixed_speedup, whole_service_speedup
from traceanalyzer.verdict.agreement import check_agreement, explanations
from traceanalyzer.verdict.baseline import is_synchronised, speculates
from traceanalyzer.verdict.buckets import Accepted, bucket_verdict
from traceanalyzer.verdict.estimates import NS_PER_MS
from traceanalyzer.verdict.situations import as_report_action, situation_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.report import BucketReport, BucketVerdict, Report
    from traceanalyzer.speculation.acceptance import AcceptanceReading
    from traceanalyzer.verdict.baseline import Baseline, Step
    from traceanalyzer.verdict.known import Known

FAILED: Final = "failed"


def judged(report: Report, known: Known) -> Report:
    """The report with its verdict; unchanged when nothing in it speculates.

    Args:
        report: Times and acceptance of one capture.
        known: What is known beside it.
    """
    places = [place for place, bucket in enumerate(report.buckets) if speculates(bucket)]
    if not places:
        return report
    steps = _steps(report, places, known.baseline)
    verdicts = [
        bucket_verdict(
            place, report.buckets[place], _accepted(report, places, place, known), steps.get(place)
        )
        for place in places
    ]
    agreement = check_agreement(report, report.buckets[places[0]], known)
    checks = [*report.trust, *agreement.checks, *_baseline_checks(report, tuple(steps.values()))]
    failed = [check.text for check in checks if check.status == FAILED]
    verdict = Verdict(
        outcome=_outcome(verdicts, failed),
        withheld_because=failed,
        missing=_missing(report, verdicts, known),
        buckets=verdicts,
        mixed=_mixed(report, known) if len(report.buckets) > 1 else None,
        readings=[_as_reading(reading) for reading in known.readings],
        agreement=[Agreement(row.name, row.accept_len) for row in agreement.rows],
        caveats=[*_caveats(report, verdicts, steps, known), *explanations(report, known)],
    )
    trust = sorted(checks, key=lambda check: check.status != FAILED)
    return replace(report, trust=trust, verdict=_advised(report, verdict, known))


def _steps(report: Report, places: Sequence[int], baseline: Baseline) -> dict[int, Step]:
    batches = {report.buckets[place].shape.batch for place in places}
    found = {
        place: baseline.at(report.buckets[place].shape.batch, only_batch=len(batches) == 1)
        for place in places
    }
    return {place: step for place, step in found.items() if step is not None}


def _accepted(report: Report, places: Sequence[int], place: int, known: Known) -> Accepted | None:
    """From the marks of the bucket's own cycles, else from a reading if only one can be meant."""
    own = report.buckets[place].acceptance
    if own is not None:
        source = f"accept marks of {own.request_cycles:,} request-cycles"
        if own.requests:
            source += f" of {own.requests:,} requests"
        return Accepted(own.accept_len, source, own.committed_per_cycle)
    if not known.readings or _shapes(report, places) > 1:
        return None
    reading = known.readings[0]
    return Accepted(Estimated(reading.accept_len), reading.source)


def _shapes(report: Report, places: Sequence[int]) -> int:
    shapes = (report.buckets[place].shape for place in places)
    return len({(each.batch, each.verified_tokens, each.draft_tokens) for each in shapes})


def _baseline_checks(report: Report, steps: Sequence[Step]) -> list[Check]:
    found = report.instrumentation
    ours = found is not None and is_synchronised(found.device_syncs_per_cycle)
    measured = [step for step in steps if step.bucket]
    if all(is_synchronised(each.device_syncs_per_cycle) == ours for each in measured):
        return []
    captures = ("this capture", "the baseline")
    one, other = captures if ours else captures[::-1]
    return [
        Check(
            "baseline",
            FAILED,
            f"{one} was recorded under synchronising instrumentation and {other} was not: their "
            "times cannot be compared",
            "Record both in the same way, best without synchronisation.",
        )
    ]


def _outcome(verdicts: Sequence[BucketVerdict], failed: Sequence[str]) -> str:
    known = {each.outcome for each in verdicts if each.speedup is not None}
    if failed:
        return "withheld"
    if not known:
        return "unknown"
    if {"winning", "losing"} <= known:
        return "mixed"
    return known.pop() if len(known) == 1 else "undecided"


def _missing(report: Report, verdicts: Sequence[BucketVerdict], known: Known) -> list[str]:
    texts = []
    if any(each.accept_len is None for each in verdicts):
        if known.readings:
            texts.append(
                "acceptance by batch: the one accept length given covers cycles of several shapes; "
                "record accept marks (traceanalyzer capture sets the hooks)"
            )
        else:
            texts.append(
                "acceptance: the trace holds no accept marks; record with traceanalyzer capture, "
                "or name the server's log (--acceptance FILE) or a number (--accept-len)"
            )
    without = [each for each in verdicts if each.baseline_ns is None]
    if without:
        batches = sorted(
            {str(report.buckets[each.bucket].shape.batch or "unknown") for each in without}
        )
        text = (
            f"a baseline at batch {', '.join(batches)}: record the server with speculation off "
            "(--baseline TRACE), or give the time of a plain decode step (--baseline-ms)"
        )
        if None in known.baseline.steps and len(batches) > 1:
            text += "; the step given tells no batch, so it cannot be matched (write 8=14.2)"
        texts.append(text)
    if any(report.buckets[each.bucket].mean_period_ns.low is None for each in verdicts):
        texts.append("intervals: a single cycle tells none; record more")
    return texts


def _caveats(
    report: Report, verdicts: Sequence[BucketVerdict], steps: Mapping[int, Step], known: Known
) -> list[str]:
    places = [each.bucket for each in verdicts]
    texts = [step.assumed for step in steps.values() if step.assumed]
    if report.capture.time_base == "host":
        texts.append("times are host times: no GPU work was recorded")
    if any(
        report.buckets[each.bucket].shape.batch is None and each.tokens_per_s for each in verdicts
    ):
        texts.append("the batch is unknown: tokens per second are those of one request")
    if any(_unsure_of_requests(report.buckets[place]) for place in places):
        texts.append(
            "the marks do not tell enough requests apart: intervals count cycles, and are too "
            "narrow where requests differ"
        )
    marked = all(report.buckets[place].acceptance for place in places)
    if known.readings and not marked:
        texts.append("the accept length comes without an interval, so the speed-up's is too narrow")
    plain_steps = sum(bucket.cycles for bucket in report.buckets if bucket.shape.kind == "decode")
    if plain_steps:
        texts.append(
            f"{plain_steps:,} cycles decoded without drafts (k = 0): on a server that can "
            "speculate they are slower than a plain server's and are no baseline"
        )
    return list(dict.fromkeys(texts))


def _unsure_of_requests(bucket: BucketReport) -> bool:
    return bucket.acceptance is not None and bucket.acceptance.interval_from == "blocks of cycles"


def _mixed(report: Report, known: Known) -> MixedLoad:
    """Every bucket's tokens at its own plain step, over the wall time of all."""
    loads = []
    for bucket in report.buckets:
        batch = bucket.shape.batch
        step = known.baseline.at(batch, only_batch=False)
        committed = _committed_per_cycle(bucket)
        matched = step is not None and committed is not None
        loads.append(
            BucketLoad(
                (committed or 0.0) * bucket.cycles / bucket.ranks,
                bucket.mean_period_ns.value / NS_PER_MS * bucket.cycles / bucket.ranks,
                batch or 1,
                step.period_ns.value / NS_PER_MS if step and matched else None,
            )
        )
    found = mixed_speedup(loads)
    return MixedLoad(found.speedup, found.matched_share)


def _committed_per_cycle(bucket: BucketReport) -> float | None:
    """Committed tokens of a cycle; a plain step commits one a request."""
    if bucket.acceptance is not None:
        return bucket.acceptance.committed_per_cycle.value
    return bucket.shape.batch if bucket.shape.kind == "decode" else None


def _advised(report: Report, verdict: Verdict, known: Known) -> Verdict:
    """With what to do in the bucket with most time of those that are known well enough."""
    main = next((each for each in verdict.buckets if each.accept_len is not None), None)
    if main is None:
        return verdict
    situation = situation_of(report.buckets[main.bucket], main, tuple(verdict.withheld_because))
    share, speedup = known.not_decoding_share, main.speedup
    return replace(
        verdict,
        actions=[as_report_action(action) for action in advise(situation)],
        next_measurement=next_measurement(situation) or None,
        service_speedup=whole_service_speedup(share, speedup.value)
        if share is not None and speedup is not None and len(verdict.buckets) == 1
        else None,
    )


def _as_reading(reading: AcceptanceReading) -> Reading:
    return Reading(
        reading.source,
        reading.read_as,
        reading.conversion,
        reading.accept_len,
        reading.draft_tokens,
        list(reading.survival),
        reading.request_cycles,
        reading.tokens_per_s,
        reading.batch,
        list(reading.notes),
    )
