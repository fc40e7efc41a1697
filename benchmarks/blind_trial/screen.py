"""The numbers of a report's first screen by name, and everything it says beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from records import SCOPE, Remark

from traceanalyzer.phases.rules import is_prompt_work
from traceanalyzer.verdict.untraced import served_period

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.report import BucketReport, BucketVerdict, Estimated, Report


class Shown(NamedTuple):
    """A number with its interval, and the cycles behind it."""

    value: float | None
    low: float | None = None
    high: float | None = None
    cycles: int = 0


def main_verdict(report: Report) -> BucketVerdict | None:
    """The bucket that the first screen speaks of."""
    buckets = report.verdict.buckets if report.verdict else []
    compared = [each for each in buckets if each.speedup is not None]
    return next(iter(compared or buckets), None)


def shown_numbers(report: Report, found: BucketVerdict) -> dict[str, Shown]:
    """Numbers of one bucket by name, and the speed-up of all."""
    bucket = report.buckets[found.bucket]
    numbers = dict(_of_cycle(bucket))
    numbers.update(_of_verdict(found, bucket.cycles))
    numbers.update(_of_first_rank(report))
    mixed = report.verdict.mixed if report.verdict else None
    if mixed is not None and mixed.speedup is not None:
        numbers["speed-up of all cycles"] = _shown(mixed.speedup, bucket.cycles)
    return numbers


def _of_cycle(bucket: BucketReport) -> Iterator[tuple[str, Shown]]:
    yield "period", _shown(served_period(bucket), bucket.cycles)
    for phase in bucket.phases:
        yield f"window {phase.phase}", _shown(phase.window_ns, bucket.cycles)
        yield f"share {phase.phase}", Shown(phase.window_share, cycles=bucket.cycles)
    for rollup in bucket.rollups:
        name = f"share {rollup.name} together"
        yield name, Shown(rollup.share_of_period, cycles=bucket.cycles)


def _of_first_rank(report: Report) -> Iterator[tuple[str, Shown]]:
    """Host lead (that of prompts hangs on when they come), and waiting in collectives if told."""
    first = report.ranks[0]
    for phase in first.phases:
        if phase.host_lead_ns is not None and not is_prompt_work(phase.phase):
            yield f"host lead {phase.phase}", Shown(phase.host_lead_ns.p50)
    for wait in (each for group in report.skew for each in group.waits):
        if wait.rank == first.rank and wait.wait_ns_per_cycle is not None:
            yield f"collective wait {wait.phase}", Shown(wait.wait_ns_per_cycle)


def _of_verdict(found: BucketVerdict, cycles: int) -> Iterator[tuple[str, Shown]]:
    told: tuple[tuple[str, Estimated | float | None], ...] = (
        ("accept_len", found.accept_len),
        ("tok/s", found.tokens_per_s),
        ("wasted share", found.wasted_share),
        ("per verified token", found.target_ns_per_verified_token),
        ("per committed token", found.target_ns_per_committed_token),
        ("plain step", found.baseline_ns),
        ("break-even accept_len", found.break_even_accept_len),
        ("verify over plain step", found.target_to_decode),
        ("plain tok/s", found.baseline_tokens_per_s),
        ("speed-up", found.speedup),
    )
    for name, value in told:
        if value is not None:
            yield name, _shown(value, cycles)


def _shown(found: Estimated | float, cycles: int) -> Shown:
    if isinstance(found, float | int):
        return Shown(float(found), cycles=cycles)
    return Shown(found.value, found.low, found.high, cycles)


def remarks(report: Report) -> list[Remark]:
    """Checks that do not pass, findings, what is missing, and phases without kernel classes."""
    found = [
        Remark(each.status, each.check, each.text, each.next_step)
        for each in report.trust
        if each.status != "ok"
    ]
    found += [
        Remark("finding", each.finding, each.text, each.next_step)
        for each in report.findings
        if each.severity != "info"
    ]
    if report.verdict is not None:
        found += [Remark("missing", "verdict", text, text) for text in report.verdict.missing]
        main = main_verdict(report)
        if main is not None and main.accept_len_requests == 1:
            found.append(Remark(SCOPE, "requests", "about the one request recorded", None))
    return found
