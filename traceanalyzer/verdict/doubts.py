"""What a verdict lacks, and what to keep in mind when reading it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.verdict.buckets import longest_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.report import BucketReport, BucketVerdict, MixedLoad, Report
    from traceanalyzer.verdict.baseline import Step
    from traceanalyzer.verdict.known import Known

_ANOTHER_BATCH: Final = 0.25
_MOST_NAMED: Final = 3
_NS_PER_US: Final = 1e3
_TOLD_SHARE: Final = 0.005  # of a cycle


def missing(report: Report, verdicts: Sequence[BucketVerdict], known: Known) -> list[str]:
    """What could not be said for want of something, and what would supply it."""
    texts = []
    if any(each.accept_len is None for each in verdicts):
        texts.append(_missing_acceptance(known))
    without = [each for each in verdicts if each.baseline_ns is None]
    if without:
        texts.append(_missing_baseline(report, without, known))
    if any(report.buckets[each.bucket].mean_period_ns.low is None for each in verdicts):
        texts.append("intervals: a single cycle tells none; record more")
    return texts


def missing_verifies(report: Report) -> list[str]:
    """Why a server that drafts cannot be judged: each cycle carried prompt tokens too."""
    drafting = [bucket for bucket in report.buckets if bucket.shape.draft_tokens]
    if not drafting:
        return []
    kinds = list(dict.fromkeys(_cycles_named(bucket) for bucket in drafting))[:_MOST_NAMED]
    return [
        f"cycles that verify and nothing else: drafts were judged in {', '.join(kinds)} only; "
        "record longer, or at fewer requests that come"
    ]


def missing_of_all(
    report: Report, verdicts: Sequence[BucketVerdict], mixed: MixedLoad | None
) -> list[str]:
    """What keeps all cycles together from being compared, where each that verifies could be."""
    if mixed is None or mixed.speedup is not None or any(each.speedup is None for each in verdicts):
        return []
    judged = {each.bucket for each in verdicts}
    others = [bucket for place, bucket in enumerate(report.buckets) if place not in judged]
    kinds = list(dict.fromkeys(_cycles_named(bucket) for bucket in others))
    named = ", ".join([*kinds[:_MOST_NAMED], *["others"][: len(kinds) > _MOST_NAMED]])
    return [
        f"a baseline for {1 - mixed.matched_share:.0%} of the cycle time ({named}): "
        "record the server with speculation off (--baseline TRACE) under the same load, for long "
        "enough that it holds such steps too"
    ]


def _cycles_named(bucket: BucketReport) -> str:
    prompt = bucket.shape.prompt_tokens
    return f"{bucket.shape.kind} cycles" + (f" with {prompt:,} prompt tokens" if prompt else "")


def _missing_acceptance(known: Known) -> str:
    if known.readings:
        return (
            "acceptance by batch: the one accept length given covers cycles of several shapes; "
            "record accept marks (traceanalyzer capture sets the hooks)"
        )
    return (
        "acceptance: no accept marks belong to these cycles; record with traceanalyzer capture, "
        "or name the server's log (--acceptance FILE) or a number (--accept-len)"
    )


def _missing_baseline(report: Report, without: Sequence[BucketVerdict], known: Known) -> str:
    batches = sorted(
        {str(report.buckets[each.bucket].shape.batch or "unknown") for each in without}
    )
    text = (
        f"a baseline at batch {', '.join(batches)}: record the server with speculation off "
        "(--baseline TRACE), or give the time of a plain decode step (--baseline-ms)"
    )
    if None in known.baseline.steps and len(without) > 1:
        text += "; the step given tells no batch, so it cannot be matched (write 8=14.2)"
    return text


def caveats(
    report: Report, verdicts: Sequence[BucketVerdict], steps: Mapping[int, Step], known: Known
) -> list[str]:
    """What to keep in mind."""
    buckets = [report.buckets[each.bucket] for each in verdicts]
    texts = [step.assumed for step in steps.values() if step.assumed]
    if report.capture.time_base == "host":
        texts.append("times are host times: no GPU work was recorded")
    texts += _about_recording([*buckets, *(step.bucket for step in steps.values() if step.bucket)])
    if any(
        bucket.shape.batch is None and each.tokens_per_s
        for bucket, each in zip(buckets, verdicts, strict=True)
    ):
        texts.append("the batch is unknown: tokens per second are those of one request")
    if any(each.accept_len_requests == 1 for each in verdicts):
        texts.append(
            "the accept length is of one request, and others differ: record several for a verdict "
            "on the server"
        )
    elif any(_counts_cycles(bucket) for bucket in buckets):
        texts.append(
            "the marks do not tell enough requests apart: intervals count cycles, and are too "
            "narrow where requests differ"
        )
    texts += _about_readings(buckets, known)
    plain_steps = sum(bucket.cycles for bucket in report.buckets if bucket.shape.kind == "decode")
    if plain_steps:
        texts.append(
            f"{plain_steps:,} cycles decoded without drafts (k = 0): on a server that can "
            "speculate they are slower than a plain server's and are no baseline"
        )
    return list(dict.fromkeys(texts))


def _counts_cycles(bucket: BucketReport) -> bool:
    return bucket.acceptance is not None and bucket.acceptance.interval_from == "blocks of cycles"


def _about_recording(buckets: Sequence[BucketReport]) -> list[str]:
    """Where the GPU waited for a host that was recording."""
    most = max(
        buckets, key=lambda bucket: bucket.recorder_ns_per_cycle / bucket.mean_period_ns.value
    )
    share = most.recorder_ns_per_cycle / most.mean_period_ns.value
    if share < _TOLD_SHARE:
        return []
    return [
        f"the GPU waits for the host, and recording may have kept it waiting for up to "
        f"{most.recorder_ns_per_cycle / _NS_PER_US:.0f} us of a {most.shape.kind} cycle "
        f"({share:.1%}): intervals of cycles and steps reach down by it"
    ]


def _about_readings(buckets: Sequence[BucketReport], known: Known) -> list[str]:
    if not known.readings:
        return []
    reading, main = known.readings[0], buckets[0]
    texts = []
    if not all(bucket.acceptance for bucket in buckets):
        texts.append("the accept length comes without an interval, so the speed-up's is too narrow")
    batch, k = main.shape.batch, longest_run(main)
    if batch and reading.batch and abs(reading.batch / batch - 1) > _ANOTHER_BATCH:
        texts.append(
            f"{reading.source} is of {reading.batch:.1f} running requests, these cycles of {batch}"
        )
    if k and reading.draft_tokens and reading.draft_tokens != k:
        texts.append(
            f"{reading.source} is of k = {reading.draft_tokens}, these cycles of k = {k}: another "
            "configuration"
        )
    return texts
