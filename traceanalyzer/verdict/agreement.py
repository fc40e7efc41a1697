"""Do independent counts of the accept length agree, and what explains one that is too low?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceanalyzer.report import Check
from traceanalyzer.speculation.acceptance import AcceptanceCounts
from traceanalyzer.speculation.consistency import explain_low, three_way, troubles_of
from traceanalyzer.verdict.estimates import NS_PER_MS, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketReport, Report
    from traceanalyzer.speculation.consistency import CountedLength
    from traceanalyzer.verdict.known import Known

_MOST_OF_THE_TIME = 0.8


@dataclass(frozen=True, slots=True)
class CheckedAgreement:
    """The counts side by side, and the checks they pass or fail."""

    rows: Sequence[CountedLength] = ()
    checks: list[Check] = field(default_factory=list)


def check_agreement(report: Report, main: BucketReport, known: Known) -> CheckedAgreement:
    """Compare what an engine's counters say, what was committed, and what throughput implies.

    Args:
        report: Holds the marks' acceptance.
        main: The speculating bucket with most time; throughput is compared only when it holds
            most of the time, since tokens per second belong to all buckets together.
        known: Readings, and tokens per second without tracing.
    """
    reading = known.readings[0] if known.readings else None
    counted = report.acceptance.accept_len if report.acceptance else None
    served = known.tokens_per_s if main.time_share >= _MOST_OF_THE_TIME else None
    found = three_way(
        reading.accept_len if reading else None,
        counted,
        served,
        main.mean_period_ns.value / NS_PER_MS,
        batch=main.shape.batch or 1,
        draft_tokens=_longest(main) or (reading.draft_tokens if reading else None),
    )
    texts = list(found.texts)
    for text in troubles_of(reading) if reading else ():
        texts += [text] if not any(told.endswith(text) for told in texts) else []
    if texts:
        step = "Find out which count is wrong before acting on any of them."
        return CheckedAgreement(found.rows, [Check("acceptance", "failed", "; ".join(texts), step)])
    if not found.compared:
        return CheckedAgreement(found.rows)
    text = " = ".join(f"{row.name} {row.accept_len:.2f}" for row in found.rows)
    return CheckedAgreement(found.rows, [Check("acceptance", "ok", text)])


def explanations(report: Report, known: Known) -> list[str]:
    """What may make the first reading lower than what the marks counted, each with its test."""
    marked = [bucket.acceptance for bucket in report.buckets if bucket.acceptance]
    if not known.readings or not marked:
        return []
    reading = known.readings[0]
    counts = AcceptanceCounts.from_rows(row for each in marked for row in each.counts)
    reference = plain(marked[0].accept_len)
    if reference.value <= 1:
        return []
    return list(
        explain_low(
            reading.accept_len, reference, counts.accepted_sd or 0.0, reading.request_cycles
        )
    )


def _longest(bucket: BucketReport) -> int | None:
    if bucket.acceptance and bucket.acceptance.counts:
        return max(k for k, _, _ in bucket.acceptance.counts)
    return None
