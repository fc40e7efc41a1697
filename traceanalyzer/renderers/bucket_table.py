"""The buckets of speculating cycles, one row each: what tells them apart, and how each fares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import percent
from traceanalyzer.renderers.verdict_text import with_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.report import BucketReport, BucketShape, BucketVerdict, Report

_SILENT: Final = {"", "-"}
OUTCOME: Final = ""  # the title over what each row comes to

# Parts of a shape by which buckets are told apart where batch and tokens are the same.
_MORE_OF_SHAPE: Final[dict[str, Callable[[BucketShape], str]]] = {
    "graph batch": lambda shape: _number(shape.padded_batch),
    "drafted": lambda shape: _number(shape.draft_tokens),
    "prompt tokens": lambda shape: "-" if shape.prompt_tokens is None else str(shape.prompt_tokens),
    "launched": lambda shape: shape.graph or "?",
}


@dataclass(frozen=True, slots=True)
class BucketTable:
    """Titles and rows of the same length; columns that would say nothing are left out.

    Attributes:
        titles: `OUTCOME` is that of the last.
        rows: One a bucket.
        telling: Titles without which two rows could not be told apart.
    """

    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]
    telling: frozenset[str]


def bucket_table(report: Report) -> BucketTable | None:
    """The table, None where there is one bucket only or nothing is known to compare."""
    verdict = report.verdict
    if verdict is None or verdict.mixed is None:
        return None
    if not any(each.accept_len or each.baseline_ns for each in verdict.buckets):
        return None
    judged = [(report.buckets[each.bucket], each) for each in verdict.buckets]
    columns = _shapes([bucket.shape for bucket, _ in judged])
    telling = frozenset(columns)
    columns |= _figures(judged)
    spoken = {
        title: cells
        for title, cells in columns.items()
        if title in telling or not set(cells) <= _SILENT
    }
    return BucketTable(tuple(spoken), list(zip(*spoken.values(), strict=True)), telling)


def _shapes(shapes: Sequence[BucketShape]) -> dict[str, list[str]]:
    columns = {
        "batch": [_number(shape.batch) for shape in shapes],
        "tokens": [_number(shape.verified_tokens) for shape in shapes],
    }
    for title, part in _MORE_OF_SHAPE.items():
        rows = list(zip(*columns.values(), strict=True))
        cells = [part(shape) for shape in shapes]
        if len(set(zip(rows, cells, strict=True))) > len(set(rows)):
            columns[title] = cells
    return columns


def _figures(judged: Sequence[tuple[BucketReport, BucketVerdict]]) -> dict[str, list[str]]:
    return {
        "of cycle time": [percent(bucket.time_share) for bucket, _ in judged],
        "accept_len": [
            with_interval(each.accept_len) if each.accept_len else "-" for _, each in judged
        ],
        "break-even": [
            f"{each.break_even_accept_len.value:.2f}" if each.break_even_accept_len else "-"
            for _, each in judged
        ],
        "tok/s": [
            f"{each.tokens_per_s.value:,.1f}" if each.tokens_per_s else "-" for _, each in judged
        ],
        "plain tok/s": [
            f"{each.baseline_tokens_per_s.value:,.1f}" if each.baseline_tokens_per_s else "-"
            for _, each in judged
        ],
        "speed-up": [
            with_interval(each.speedup, unit="×") if each.speedup else "-" for _, each in judged
        ],
        OUTCOME: [each.outcome for _, each in judged],
    }


def _number(found: int | None) -> str:
    return "?" if found is None else str(found)
