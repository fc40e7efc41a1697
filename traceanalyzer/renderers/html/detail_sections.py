"""The report page's details: every kernel by name, and the cycles that took longest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.cycle_words import cycle_name, listed_note
from traceanalyzer.renderers.figures import count, decimals_for, percent
from traceanalyzer.renderers.html.escaping import name
from traceanalyzer.renderers.html.sections import Cell, in_ms, lines, table, tool_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.renderers.html.sections import Part
    from traceanalyzer.report import CycleRow, Report

_NS_PER_S: Final = 1e9
_SLOWEST_SHOWN: Final = 10
_SLOWEST: Final = (
    "Each on the rank on which it took longest, beside the median of its shape; s since that "
    "rank's first cycle listed."
)


def kernels(report: Report) -> Sequence[Part]:
    """Kernels of each phase by their full names: to sort, filter and copy."""
    rows = [
        (
            each.phase,
            each.kernel_class,
            Cell(count(each.ops), each.ops),
            in_ms(each.busy_ns),
            Cell(percent(each.share), each.share),
            name(each.kernel or ""),
        )
        for each in report.kernels
    ]
    if not rows:
        return []
    titles = ("phase", "class", "ops", "busy ms", "of phase", "kernel")
    id_ = "kernel-names-table"
    note = "Over the kept cycles of all ranks; the rows of a phase add up to its busy time."
    shown = table(titles, rows, words=(0, 1, 5), id_=id_, sortable=True)
    return [*lines(note), tool_bar(id_, "kernels by name"), shown]


def slowest(report: Report) -> Sequence[Part]:
    """The cycles that took longest, each on the rank on which it did."""
    slowest_rank: dict[int, CycleRow] = {}
    for row in sorted(report.cycle_rows, key=lambda row: row.period_ns):
        slowest_rank[row.cycle] = row
    if len(slowest_rank) < 2:
        return []
    found = sorted(slowest_rank.values(), key=lambda row: -row.period_ns)[:_SLOWEST_SHOWN]
    titles = (
        "cycle",
        "kind",
        "batch",
        "rank",
        "at s",
        "ms",
        "median ms",
        *(f"{phase} ms" for phase in report.cycle_phases),
        "accepted drafts",
    )
    rows = [_slow_row(report, row) for row in found]
    shown = table(titles, rows, words=(0, 1), id_="slowest-table", sortable=True)
    return [*lines(_SLOWEST, listed_note(report)), shown]


def _slow_row(report: Report, row: CycleRow) -> tuple[str | Cell, ...]:
    bucket = report.buckets[row.bucket]
    decimals = decimals_for(bucket.period_ns.mean)
    batch, accepted = bucket.shape.batch, row.accepted_drafts
    # Ranks of several files have clocks of their own.
    first_ns = min(each.start_ns for each in report.cycle_rows if each.rank == row.rank)
    at = (row.start_ns - first_ns) / _NS_PER_S
    return (
        cycle_name(row),
        bucket.shape.kind,
        "?" if batch is None else str(batch),
        str(row.rank),
        Cell(f"{at:.3f}", at),
        in_ms(row.period_ns, decimals),
        in_ms(bucket.period_ns.p50, decimals),
        *(in_ms(ns, decimals) for ns in row.windows_ns),
        "-" if accepted is None else str(accepted),
    )
