"""The report page's end: by which evidence time was attributed, what was seen, what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.renderers.figures import count, duration, milliseconds, percent
from traceanalyzer.renderers.html.escaping import name
from traceanalyzer.renderers.html.sections import (
    Cell,
    folded,
    in_ms,
    lines,
    table,
    tool_bar,
)
from traceanalyzer.renderers.html.verdict_sections import agreement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.renderers.html.escaping import Markup
    from traceanalyzer.renderers.html.sections import Part
    from traceanalyzer.report import Dropped, HostLead, PhaseReport, Report


def coverage(report: Report) -> Sequence[Part]:
    """By which evidence busy time was attributed, and what was seen of each rank."""
    parts: list[Part] = []
    if report.coverage is not None:
        rows = [
            (each.method, percent(each.share), milliseconds(each.busy_ns), count(each.ops))
            for each in report.coverage.by_method
        ]
        parts.append(table(("busy GPU time by evidence", "share", "ms", "ops"), rows))
    return [*parts, *_ranks(report), *_totals(report), *_waits(report), *agreement(report)]


def _ranks(report: Report) -> list[Markup]:
    rows = [
        (
            str(rank.rank),
            f"{rank.process_id} {rank.process_name or ''}".rstrip(),
            f"{rank.device.index} {rank.device.name or ''}".rstrip() if rank.device else "-",
            *(count(number) for number in (rank.cycles.kept, *_dropped(rank.cycles.dropped))),
            milliseconds(rank.cycles.period_ns.p50) if rank.cycles.period_ns else "-",
            milliseconds(rank.cycles.prefill_stall_ns),
            percent(rank.coverage.covered_share) if rank.device else "-",
        )
        for rank in report.ranks
    ]
    if not rows:
        return []
    titles = (
        "rank",
        "process",
        "GPU",
        "kept cycles",
        "warm-up",
        "edge",
        "interrupted",
        "dummy",
        "median cycle ms",
        "prefill stall ms",
        "coverage",
    )
    return [folded(f"Ranks ({len(rows)})", table(titles, rows, words=(0, 1, 2)))]


def _dropped(found: Dropped) -> tuple[int, ...]:
    return found.warm_up, found.edge, found.interrupted, found.dummy


def _totals(report: Report) -> list[Markup]:
    rows = [_total_row(rank.rank, phase) for rank in report.ranks for phase in rank.phases]
    if not rows:
        return []
    titles = (
        "rank",
        "phase",
        "kernels",
        "graph rows",
        "launches",
        "of graphs",
        "busy ms",
        "summed ms",
        "host lead 5 % ms",
        "host lead median ms",
    )
    id_ = "totals-table"
    shown = table(titles, rows, words=(0, 1), id_=id_, sortable=True)
    return [folded("Whole trace, edge cycles included", tool_bar(id_, "totals"), shown)]


def _total_row(rank: int, phase: PhaseReport) -> tuple[str | Cell, ...]:
    counts = (phase.kernels, phase.graph_rows, phase.launches, phase.graph_launches)
    return (
        str(rank),
        phase.phase,
        *(Cell(count(number), number) for number in counts),
        in_ms(phase.busy_ns),
        in_ms(phase.summed_ns),
        *_lead(phase.host_lead_ns),
    )


def _lead(found: HostLead | None) -> tuple[Cell, Cell]:
    if found is None:
        return Cell("-", ""), Cell("-", "")
    return in_ms(found.p5), in_ms(found.p50)


def _waits(report: Report) -> list[Markup]:
    found = report.instrumentation.sync_calls if report.instrumentation else []
    if not found:
        return []
    rows = [
        (each.phase, each.scope, count(each.calls), milliseconds(each.host_ns)) for each in found
    ]
    titles = ("phase", "waits for", "calls", "host ms")
    return [folded("Calls in which the host waits for the GPU", table(titles, rows, words=(0, 1)))]


def provenance(report: Report) -> Sequence[Part]:
    """What was read, what wrote it, and what wrote this page."""
    rows = [
        (
            name(each.path),
            each.format,
            f"{each.product} {each.product_version or ''}".rstrip(),
            each.schema_version or "-",
            duration(each.duration_ns) if each.duration_ns is not None else "-",
        )
        for each in report.capture.files
    ]
    found = report.capture
    held = (
        f"{count(found.ops)} GPU operations, {count(found.launches)} launches, "
        f"{count(found.ranges)} ranges; timed on the {found.time_base}; clock: "
        f"{report.clock.alignment}."
    )
    titles = ("file", "format", "recorded by", "schema", "length")
    return [
        table(titles, rows, words=(0, 1, 2, 3)),
        *lines(held, f"Written by {report.tool.name} {report.tool.version}."),
    ]
