"""What changed from one capture to another: bucket by bucket, then together at A's mix.

Everything is given per cycle and per committed token; the net change is in tokens per second
while decoding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.errors import InputError
from traceanalyzer.report import Estimated
from traceanalyzer.report.comparison import (
    BucketComparison,
    BucketSide,
    ComparedCapture,
    Comparison,
    Unmatched,
)
from traceanalyzer.speculation.conventions import impossible
from traceanalyzer.verdict import comparison_words as words
from traceanalyzer.verdict.baseline import speculates
from traceanalyzer.verdict.matching import SAME_SHAPE, SAME_TOKENS, assumptions, matched
from traceanalyzer.verdict.obstacles import Pair, gpu_names, no_match, obstacles
from traceanalyzer.verdict.overall import overall_of
from traceanalyzer.verdict.phase_changes import compare_phases, overlap_change
from traceanalyzer.verdict.ratios import exact, figure, over, product_of_known

if TYPE_CHECKING:
    from traceanalyzer.report import BucketReport, Report, Tool
    from traceanalyzer.report.comparison import Obstacle
    from traceanalyzer.verdict.matching import Match

_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """A capture, and what is known beside it.

    Attributes:
        name: "A" or "B".
        report: What it shows.
        accept_len: Accept length (bonus included) for buckets without accept marks.
    """

    name: str
    report: Report
    accept_len: float | None = None

    @property
    def option(self) -> str:
        """The option that gives its accept length."""
        return f"--accept-len-{self.name.lower()}"


@dataclass(frozen=True, slots=True)
class _Committed:
    """Tokens that a cycle commits: requests, each with its accept length."""

    accept_len: Estimated
    requests: Estimated

    @property
    def per_cycle(self) -> Estimated:
        return product_of_known((self.accept_len, 1.0), (self.requests, 1.0))


def compare_reports(
    a: Report,
    b: Report,
    *,
    tool: Tool,
    accept_len_a: float | None = None,
    accept_len_b: float | None = None,
) -> Comparison:
    """Compare two captures.

    Args:
        a: The capture compared with.
        b: The capture that is compared.
        tool: What compares them.
        accept_len_a: Accept length of A (bonus included), where it holds no accept marks.
        accept_len_b: That of B.

    Raises:
        InputError: An accept length is given that cannot be, or that belongs to no bucket; or
            cycles take no time.
    """
    if any(bucket.mean_period_ns.value <= 0 for bucket in (*a.buckets, *b.buckets)):
        raise InputError("cycles of no time cannot be compared", next_step="Record them anew.")
    side_a, side_b = ComparedSide("A", a, accept_len_a), ComparedSide("B", b, accept_len_b)
    for side in (side_a, side_b):
        _check_told(side)
    found = matched(a.buckets, b.buckets)
    buckets = [_compare(match, side_a, side_b) for match in found]
    against = obstacles(Pair(a, b))
    if not buckets:
        against = [no_match(a, b), *against]
    together = overall_of(a, b, buckets)
    comparison = Comparison(
        tool=tool,
        a=_captured(a),
        b=_captured(b),
        outcome=words.outcome_of_all(against, buckets, together),
        summary="",
        obstacles=[*against, *_acceptance_lacks(buckets), *_one_capture(a, b)],
        buckets=buckets,
        unmatched=_unmatched(side_a, side_b, found),
        overall=together,
    )
    return replace(comparison, summary=words.summary(comparison))


def _check_told(side: ComparedSide) -> None:
    if side.accept_len is None:
        return
    without = [each for each in side.report.buckets if _lacks_acceptance(each)]
    if not without:
        raise InputError(
            f"{side.name} needs no accept length: its marks tell it, or it does not speculate",
            where=side.option,
        )
    if (
        len({each.shape.draft_tokens for each in without}) > 1
        or len({each.shape.batch for each in without}) > 1
    ):
        raise InputError(
            f"one accept length cannot stand for cycles of several shapes in {side.name}",
            where=side.option,
            next_step="Record accept marks: traceanalyzer capture sets the hooks.",
        )
    if reason := impossible(side.accept_len, _drafts_per_request(without[0])):
        raise InputError(reason, where=side.option)


def _lacks_acceptance(bucket: BucketReport) -> bool:
    return speculates(bucket) and bucket.acceptance is None


def _drafts_per_request(bucket: BucketReport) -> int | None:
    shape = bucket.shape
    if shape.draft_tokens is None or not shape.batch:
        return None
    return shape.draft_tokens // shape.batch


def _committed(side: ComparedSide, bucket: BucketReport) -> _Committed | None:
    """From accept marks, else what a plain step or a given number tells; None when unknown."""
    own = bucket.acceptance
    if own is not None and own.accept_len.value > 0:
        return _Committed(
            own.accept_len, exact(own.committed_per_cycle.value / own.accept_len.value)
        )
    requests = exact(bucket.shape.batch or 1)
    if bucket.shape.kind == "decode":
        return _Committed(exact(1.0), requests)
    if _lacks_acceptance(bucket) and side.accept_len is not None:
        return _Committed(exact(side.accept_len), requests)
    return None


def _compare(match: Match, side_a: ComparedSide, side_b: ComparedSide) -> BucketComparison:
    a, b = side_a.report.buckets[match.a], side_b.report.buckets[match.b]
    tokens_a, tokens_b = _committed(side_a, a), _committed(side_b, b)
    if match.relation == SAME_TOKENS:  # the same work, whatever is committed
        tokens_a = tokens_b = None
    per_cycle = (
        tokens_a.per_cycle if tokens_a else None,
        tokens_b.per_cycle if tokens_b else None,
    )
    found = BucketComparison(
        relation=match.relation,
        a=_side(match.a, a),
        b=_side(match.b, b),
        period_ns=figure(a.mean_period_ns, b.mean_period_ns),
        overlap_ns_per_cycle=figure(
            Estimated(a.overlap_ns_per_cycle), Estimated(b.overlap_ns_per_cycle)
        ),
        overlap_change_share=overlap_change(a, b),
        phases=compare_phases(a, b, per_cycle),
        assumed=_assumed(match, side_a, side_b),
        missing=_missing(match, (side_a, tokens_a), (side_b, tokens_b)),
    )
    if tokens_a is not None and tokens_b is not None:
        found = _with_tokens(found, tokens_a, tokens_b)
    found = replace(found, outcome=words.outcome_of(found))
    return replace(found, summary=words.bucket_summary(found))


def _assumed(match: Match, side_a: ComparedSide, side_b: ComparedSide) -> list[str]:
    if match.relation != SAME_SHAPE:
        return []
    shape = side_a.report.buckets[match.a].shape
    texts = assumptions(shape, side_b.report.buckets[match.b].shape)
    able = [any(map(speculates, side.report.buckets)) for side in (side_a, side_b)]
    if shape.kind == "decode" and able[0] != able[1]:
        texts.append("one of the servers can speculate, which slows its steps without drafts too")
    return texts


def _with_tokens(found: BucketComparison, a: _Committed, b: _Committed) -> BucketComparison:
    period_a, period_b = found.period_ns.a, found.period_ns.b
    per_token = figure(over(period_a, a.per_cycle), over(period_b, b.per_cycle))
    return replace(
        found,
        accept_len=figure(a.accept_len, b.accept_len),
        requests_per_cycle=figure(a.requests, b.requests),
        period_ns_per_token=per_token,
        tokens_per_s=figure(
            over(exact(_NS_PER_S), per_token.a), over(exact(_NS_PER_S), per_token.b)
        ),
        assumed=[*found.assumed, *_one_request(found)],
    )


def _one_request(found: BucketComparison) -> list[str]:
    if found.a.shape.batch is not None and found.b.shape.batch is not None:
        return []
    return ["where a batch is not told, tokens per second are those of one request"]


def _missing(match: Match, *sides: tuple[ComparedSide, _Committed | None]) -> list[str]:
    if match.relation == SAME_TOKENS:
        return []
    return [
        f"acceptance of {side.name}: no accept marks; give it with {side.option}, or record with "
        "traceanalyzer capture"
        for side, tokens in sides
        if tokens is None
    ]


def _acceptance_lacks(buckets: list[BucketComparison]) -> list[Obstacle]:
    lacking = list(dict.fromkeys(text for each in buckets for text in each.missing))
    return [words.lacks_acceptance(text) for text in lacking]


def _one_capture(a: Report, b: Report) -> list[Obstacle]:
    return [words.the_same_capture()] if a == b else []


def _side(place: int, bucket: BucketReport) -> BucketSide:
    return BucketSide(place, bucket.shape, bucket.ranks, bucket.cycles, bucket.time_share)


def _unmatched(side_a: ComparedSide, side_b: ComparedSide, found: list[Match]) -> list[Unmatched]:
    taken = {("A", match.a) for match in found} | {("B", match.b) for match in found}
    return [
        Unmatched(side.name, _side(place, bucket), bucket.mean_period_ns)
        for side in (side_a, side_b)
        for place, bucket in enumerate(side.report.buckets)
        if (side.name, place) not in taken
    ]


def _captured(report: Report) -> ComparedCapture:
    files = report.capture.files
    return ComparedCapture(
        files=[file.path for file in files],
        product=f"{files[0].product} {files[0].product_version or ''}".rstrip() if files else "",
        time_base=report.capture.time_base,
        gpus=gpu_names(report),
        ranks=len(report.ranks),
    )
