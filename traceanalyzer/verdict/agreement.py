"""Do independent counts of the accept length agree, and what explains one that is too low?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from traceanalyzer.report import Check
from traceanalyzer.speculation.acceptance import AcceptanceCounts
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.speculation.consistency import explain_low, three_way, troubles_of
from traceanalyzer.speculation.conventions import impossible
from traceanalyzer.verdict.buckets import longest_run
from traceanalyzer.verdict.estimates import NS_PER_MS, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketAcceptance, BucketReport, Report
    from traceanalyzer.speculation.acceptance import AcceptanceReading
    from traceanalyzer.speculation.consistency import Consistency, CountedLength
    from traceanalyzer.verdict.known import Known

_MOST_OF_THE_TIME: Final = 0.8
_NEXT_STEP: Final = "Find out which count is wrong before acting on any of them."


@dataclass(frozen=True, slots=True)
class CheckedAgreement:
    """The counts side by side, and the checks they pass or fail."""

    rows: Sequence[CountedLength] = ()
    checks: list[Check] = field(default_factory=list)


def check_agreement(report: Report, places: Sequence[int], known: Known) -> CheckedAgreement:
    """Compare what an engine's counters say, what was committed, and what throughput implies.

    Plain steps are left out: counters of verifies do not hold them, but those of verifies that
    carried prompt tokens along. Throughput belongs to all buckets together, so it is compared only
    when one of known batch holds most of the time.

    Args:
        report: Holds the marks' acceptance by bucket.
        places: Of the speculating buckets, the one with most time first.
        known: Readings, and tokens per second without tracing.
    """
    main = report.buckets[places[0]]
    marked = [each for bucket in report.buckets if (each := bucket.acceptance) and _drafted(each)]
    reading = known.readings[0] if known.readings else None
    found = three_way(
        reading.accept_len if reading else None,
        _counted(marked),
        known.tokens_per_s if speaks_for_all(main) else None,
        main.mean_period_ns.value / NS_PER_MS,
        batch=main.shape.batch or 1,
        draft_tokens=_longest_run(report, places) or (reading.draft_tokens if reading else None),
    )
    texts = _troubles(found, reading, marked)
    if texts:
        check = Check("acceptance", "failed", "; ".join(texts), _NEXT_STEP)
        return CheckedAgreement(found.rows, [check])
    if not found.compared:
        return CheckedAgreement(found.rows)
    text = " = ".join(f"{row.name} {row.accept_len:.2f}" for row in found.rows)
    if not found.agree:
        text = text.replace(" = ", ", ") + ": within what so few cycles can tell"
    return CheckedAgreement(found.rows, [Check("acceptance", "ok", text)])


def _drafted(found: BucketAcceptance) -> bool:
    """Whether there were drafts to accept."""
    return any(k for k, _, _ in found.counts)


def _longest_run(report: Report, places: Sequence[int]) -> int | None:
    """The largest k of any bucket: a server may draft several lengths in turn."""
    runs = [longest_run(report.buckets[place]) for place in places]
    return max((run for run in runs if run), default=None)


def _counted(marked: Sequence[BucketAcceptance]) -> float | None:
    """Committed tokens over live request-cycles of all speculating buckets."""
    cycles = sum(each.request_cycles for each in marked)
    return sum(each.committed_tokens for each in marked) / cycles if cycles else None


def speaks_for_all(main: BucketReport) -> bool:
    """Whether what is measured of all requests together may be compared with this bucket."""
    return main.shape.batch is not None and main.time_share >= _MOST_OF_THE_TIME


def _troubles(
    found: Consistency, reading: AcceptanceReading | None, marked: Sequence[BucketAcceptance]
) -> list[str]:
    """What cannot be, and what disagrees by more than the marked cycles leave open."""
    texts = list(found.texts)
    if _within_doubt(found.rows, marked):
        # Impossible values stay impossible however few cycles there are.
        k = max((k for each in marked for k, _, _ in each.counts), default=None)
        texts = [text for row in found.rows if (text := impossible(row.accept_len, k))]
    for text in troubles_of(reading) if reading else ():
        texts += [text] if not any(told.endswith(text) for told in texts) else []
    return texts


def _within_doubt(rows: Sequence[CountedLength], marked: Sequence[BucketAcceptance]) -> bool:
    """Whether every count lies in the interval of what the marks counted."""
    found = _pooled(marked)
    return found is not None and all(found.low <= row.accept_len <= found.high for row in rows)


def _pooled(marked: Sequence[BucketAcceptance]) -> Estimate | None:
    """Of all request-cycles; a bucket that tells no interval is doubted by all of its share."""
    cycles = sum(each.request_cycles for each in marked)
    value = _counted(marked)
    if value is None:
        return None
    below, above = [], []
    for each in marked:
        weight, own = each.request_cycles / cycles, each.accept_len
        unknown = own.low is None or own.high is None
        exact = Estimate(own.value, 0.0, 2 * own.value) if unknown else plain(own)
        below.append(weight * (exact.value - exact.low))
        above.append(weight * (exact.high - exact.value))
    return Estimate(value, value - math.hypot(*below), value + math.hypot(*above))


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
    sd = counts.accepted_sd or 0.0
    return list(explain_low(reading.accept_len, reference, sd, reading.request_cycles))
