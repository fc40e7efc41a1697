"""The verdict over a whole report: each bucket on its own, then together, and what to do.

Nothing is said of speculation as a whole when a trust check fails, and nothing is invented where
the acceptance or the baseline is missing: the verdict then says what would supply it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.phases.rules import ROLLUPS
from traceanalyzer.report import Agreement, Check, Estimated, Reading, Verdict
from traceanalyzer.speculation.advice import advise, next_measurement
from traceanalyzer.speculation.speedup import whole_service_speedup
from traceanalyzer.verdict.agreement import check_agreement, explanations, speaks_for_all
from traceanalyzer.verdict.baseline import speculates
from traceanalyzer.verdict.buckets import Accepted, bucket_verdict
from traceanalyzer.verdict.doubts import caveats, missing, missing_of_all, missing_verifies
from traceanalyzer.verdict.mixed_load import mixed_load, outcome_over_all
from traceanalyzer.verdict.obstacles import Pair, obstacles
from traceanalyzer.verdict.situations import as_report_action, situation_of
from traceanalyzer.verdict.traced_speed import tracing_check

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.report import BucketReport, BucketVerdict, Report
    from traceanalyzer.speculation.acceptance import AcceptanceReading
    from traceanalyzer.verdict.baseline import Baseline, Step
    from traceanalyzer.verdict.known import Known

FAILED: Final = "failed"
_ABOUT_TIMES: Final = ("instrumentation", "node recording", "profiler overhead", "recorder")
"""Checks that say that the times of a capture are not those of the server."""

_SAME_MODEL: Final = 0.5
"""Of the kernels of a step: of the same model more than these stand in the same place of verify."""

_CHEAPEST_VERIFY: Final = 0.7  # of a plain step: below it one of the two is not what it is called


def judged(report: Report, known: Known) -> Report:
    """The report with its verdict; unchanged when nothing in it speculates.

    Args:
        report: Times and acceptance of one capture.
        known: What is known beside it.
    """
    places = [
        place
        for place, bucket in enumerate(report.buckets)
        if speculates(bucket) and bucket.mean_period_ns.value > 0
    ]
    if not places:
        lacking = missing_verifies(report)
        return replace(report, verdict=Verdict("unknown", missing=lacking)) if lacking else report
    steps = _steps(report, places, known.baseline)
    verdicts = [
        bucket_verdict(
            place, report.buckets[place], _accepted(report, places, place, known), steps.get(place)
        )
        for place in places
    ]
    agreement = check_agreement(report, places, known)
    checks = [
        *report.trust,
        *agreement.checks,
        *_tracing_checks(report, verdicts, known),
        *_baseline_checks(report, steps.values()),
        *_impossible_steps(report, verdicts, steps),
        *_other_models(verdicts),
    ]
    failed = [check.text for check in checks if check.status == FAILED]
    mixed = mixed_load(report, verdicts, known.baseline)
    verdict = Verdict(
        outcome="withheld" if failed else outcome_over_all(verdicts, mixed),
        withheld_because=failed,
        missing=[*missing(report, verdicts, known), *missing_of_all(report, verdicts, mixed)],
        buckets=verdicts,
        mixed=mixed,
        readings=[_as_reading(reading) for reading in known.readings],
        agreement=[Agreement(row.name, row.accept_len) for row in agreement.rows],
        caveats=[*caveats(report, verdicts, steps, known), *explanations(report, known)],
    )
    trust = sorted(checks, key=lambda check: check.status != FAILED)
    return replace(report, trust=trust, verdict=_advised(report, verdict, known))


def _steps(report: Report, places: Sequence[int], baseline: Baseline) -> dict[int, Step]:
    only_shape = len(distinct_loads(report, places)) == 1
    found = {
        place: baseline.at(report.buckets[place].shape, only_shape=only_shape) for place in places
    }
    return {place: step for place, step in found.items() if step is not None}


def distinct_loads(report: Report, places: Iterable[int]) -> set[tuple[object, ...]]:
    """What tells loads apart: the batch, or else which graph was replayed."""
    shapes = (report.buckets[place].shape for place in places)
    return {
        (shape.batch,) if shape.batch is not None else (None, shape.graph, shape.verified_tokens)
        for shape in shapes
    }


def _accepted(report: Report, places: Sequence[int], place: int, known: Known) -> Accepted | None:
    """From the marks of the bucket's own cycles, else from a reading if only one can be meant."""
    bucket = report.buckets[place]
    own = bucket.acceptance
    if own is not None:
        source = f"accept marks of {own.request_cycles:,} request-cycles"
        if own.requests:
            source += f" of {own.requests:,} request{'' if own.requests == 1 else 's'}"
        live = own.request_cycles / own.cycles
        return Accepted(own.accept_len, source, live, counted=True, requests=own.requests)
    shapes = {
        (each.batch, each.verified_tokens, each.draft_tokens, each.batch is None and each.graph)
        for each in (report.buckets[each].shape for each in places)
    }
    if not known.readings or len(shapes) > 1:
        return None
    reading = known.readings[0]
    live = bucket.shape.batch or 1
    return Accepted(Estimated(reading.accept_len), reading.source, live, counted=False)


def _tracing_checks(report: Report, verdicts: Sequence[BucketVerdict], known: Known) -> list[Check]:
    """What recording cost, where one bucket speaks for all that was served."""
    main = verdicts[0]
    if known.tokens_per_s is None or not speaks_for_all(report.buckets[main.bucket]):
        return []
    return tracing_check(main, known.tokens_per_s)


def _baseline_checks(report: Report, steps: Iterable[Step]) -> list[Check]:
    """Whatever stands against comparing this capture with the baseline's."""
    baselines = {id(step.report): step.report for step in steps if step.report is not None}
    found = [
        each
        for baseline in baselines.values()
        for each in obstacles(Pair(baseline, report, ("the baseline", "this capture")))
        # What failed in this capture alone has a row of its own.
        if not each.text.startswith("this capture:")
    ]
    return [
        *(
            Check("baseline", FAILED if each.blocks else "warning", each.text, each.next_step)
            for each in found
        ),
        *(
            Check("baseline", "warning", f"the baseline: {check.text}", check.next_step)
            for baseline in baselines.values()
            for check in baseline.trust
            if check.check in _ABOUT_TIMES and check.status == "warning"
        ),
    ]


def _other_models(verdicts: Sequence[BucketVerdict]) -> list[Check]:
    """A plain step that runs quite other kernels than verify, and quite another number of them."""
    found = []
    for evidence in (each.growth_evidence for each in verdicts):
        if evidence is None or evidence.matched_share is None or not evidence.decode_ops:
            continue
        factor = evidence.verify_ops / evidence.decode_ops
        if evidence.matched_share < _SAME_MODEL and not 0.5 <= factor <= 2:
            text = (
                f"a plain step runs {evidence.decode_ops:,.0f} kernels and copies and verify "
                f"{evidence.verify_ops:,.0f}; {100 * evidence.matched_share:.0f} % stand in the "
                "same place"
            )
            step = "Is the baseline of the same model, with the same kernels and compilation?"
            found.append(Check("baseline", "warning", text, step))
    return found[:1]


def _impossible_steps(
    report: Report, verdicts: Sequence[BucketVerdict], steps: Mapping[int, Step]
) -> list[Check]:
    """A forward over several tokens cannot cost much less than one over a single token."""
    factors = [
        factor
        for each in verdicts
        if (factor := _work_ratio(report.buckets[each.bucket], each, steps.get(each.bucket)))
        and factor < _CHEAPEST_VERIFY
    ]
    if not factors:
        return []
    text = f"verify costs {min(factors):.2g} plain steps, though it carries more tokens than one"
    step = "Is the baseline's time in milliseconds, and of the same model and GPUs?"
    return [Check("baseline", FAILED, text, step)]


def _work_ratio(bucket: BucketReport, found: BucketVerdict, step: Step | None) -> float | None:
    """GPU work of verify over that of a plain step; windows where a step is but a number.

    A plain step waits for its host alone, where a speculating server's host waits lie in other
    phases too: windows of the two say little of the forwards.
    """
    if step is None or step.bucket is None:
        return found.target_to_decode
    before, after = (_target_busy_ns(each) for each in (step.bucket, bucket))
    return after / before if before and after else None


def _target_busy_ns(bucket: BucketReport) -> float:
    members = {*ROLLUPS["target"], "decode"}
    return sum(
        phase.window_ns.value - phase.gap_ns_per_cycle
        for phase in bucket.phases
        if phase.phase in members
    )


def _advised(report: Report, verdict: Verdict, known: Known) -> Verdict:
    """With what to do in the bucket with most time of those that are known well enough."""
    main = next((each for each in verdict.buckets if each.accept_len is not None), None)
    if main is None:
        return verdict
    situation = situation_of(report.buckets[main.bucket], main, tuple(verdict.withheld_because))
    actions = advise(situation)
    if verdict.withheld_because:  # what rests on a capture that must not be trusted is no advice
        return replace(verdict, actions=[as_report_action(action) for action in actions[:1]])
    return replace(
        verdict,
        actions=[as_report_action(action) for action in actions],
        next_measurement=next_measurement(situation) or None,
        service_speedup=_service_speedup(verdict, known.not_decoding_share),
    )


def _service_speedup(verdict: Verdict, not_decoding_share: float | None) -> float | None:
    """Of whole requests, from the speed-up of all decoding."""
    found = verdict.mixed.speedup if verdict.mixed else verdict.buckets[0].speedup
    if not_decoding_share is None or found is None:
        return None
    return whole_service_speedup(not_decoding_share, found.value)


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
