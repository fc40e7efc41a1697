"""The report page's evidence: cycles, acceptance, kernels, ranks, and where it all comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers import charts, graph_text
from traceanalyzer.renderers import cycle_words as words
from traceanalyzer.renderers.charts.cycle import CYCLE, OVERLAP
from traceanalyzer.renderers.figures import count, decimals_for, duration, milliseconds, percent
from traceanalyzer.renderers.first_words import first_words
from traceanalyzer.renderers.html.escaping import element, name
from traceanalyzer.renderers.html.sections import Cell, in_ms, lines, table, tool_bar
from traceanalyzer.renderers.palette import phase_colour

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.renderers.html.escaping import Markup
    from traceanalyzer.renderers.html.sections import Part
    from traceanalyzer.report import (
        BucketPhase,
        BucketReport,
        HostLead,
        Report,
    )

_BUCKETS_SHOWN: Final = 3
_SIDES: Final = {"target": "the target", "drafting": "drafting"}


def drawn(*names: str) -> Callable[[Report], Sequence[Part]]:
    """A section of charts."""

    def parts(report: Report) -> Sequence[Part]:
        found = (charts.chart_of(report, each) for each in names)
        return [chart for chart in found if chart is not None]

    return parts


def cycles(report: Report) -> Sequence[Part]:
    """The windows of a cycle, for the bucket that speaks for the capture and those after it."""
    if not report.buckets:
        return []
    main = charts.main_place(report)
    places = [main, *(place for place in range(len(report.buckets)) if place != main)]
    parts: list[Part] = []
    for place in places[:_BUCKETS_SHOWN]:
        parts += _cycle_table(report, report.buckets[place])
        if place == main:
            parts += lines(*first_words(report, main))
    return parts


def _cycle_table(report: Report, bucket: BucketReport) -> list[Markup]:
    on_gpu = report.capture.time_base == "gpu"
    leads = _host_leads(report) if on_gpu else {}
    titles = ["phase", "ms/cycle", "share", "", "5-95 % ms"]
    if on_gpu:
        titles += ["GPU idle ms", "why idle", "launched as", "host lead (5 %)"]
    decimals = decimals_for(bucket.period_ns.mean)
    rows = [_phase_row(phase, decimals, leads) for phase in bucket.phases]
    if bucket.overlap_ns_per_cycle:
        overlap = milliseconds(bucket.overlap_ns_per_cycle, decimals=decimals)
        share = bucket.overlap_share
        rows.append((OVERLAP, overlap, percent(share), _bar("", share), *[""] * 5))
    period = bucket.period_ns
    mean = element("b", milliseconds(period.mean, decimals=decimals))
    spread = _between(period.p5, period.p95, decimals)
    rows.append((element("b", CYCLE), mean, percent(1.0), "", spread, *[""] * 4))
    facts = words.bucket_facts(bucket, of_several=len(report.buckets) > 1)
    return [
        element("h3", " · ".join(facts)),
        *lines(_sides(bucket, on_gpu=on_gpu)),
        table(titles, [row[: len(titles)] for row in rows], words=(0, 3, 6, 7)),
    ]


def _phase_row(phase: BucketPhase, decimals: int, leads: dict[str, HostLead]) -> tuple[str, ...]:
    window, idle, lead = phase.window_ns_per_cycle, phase.gap_ns_per_cycle, leads.get(phase.phase)
    return (
        phase.phase,
        milliseconds(window.mean, decimals=decimals),
        percent(phase.window_share),
        _bar(phase.phase, phase.window_share),
        _between(window.p5, window.p95, decimals),
        milliseconds(idle, decimals=decimals) if idle else "-",
        words.why_idle(phase.gaps),
        words.launched_as(phase),
        f"{duration(lead.p50)} ({duration(lead.p5)})" if lead else "-",
    )


def _host_leads(report: Report) -> dict[str, HostLead]:
    """By phase, of the first rank."""
    phases = report.ranks[0].phases if report.ranks else []
    return {phase.phase: phase.host_lead_ns for phase in phases if phase.host_lead_ns}


def _sides(bucket: BucketReport, *, on_gpu: bool) -> str:
    """Where the cycle goes, and what each side could save at most."""
    decimals = decimals_for(bucket.period_ns.mean)
    told = [
        f"{_SIDES.get(side.name, side.name)} "
        f"{milliseconds(side.mean_ns_per_cycle, decimals=decimals)} ms "
        f"({percent(side.share_of_period)})"
        for side in bucket.rollups
    ]
    cycle = f"A cycle takes {milliseconds(bucket.period_ns.mean, decimals=decimals)} ms"
    if not on_gpu:
        cycle += " of host time (no GPU work was recorded)"
    return f"{cycle}: {', '.join(told)}." if told else f"{cycle}."


def _bar(phase: str, share: float) -> Markup:
    """A bar of the phase's colour, as long as its share of the cycle."""
    length = f"{100 * min(max(share, 0.0), 1.0):.2f}"
    rect = element("rect", width=length, height="10", fill=phase_colour(phase))
    frame = "0 0 100 10"
    return element(
        "svg", rect, viewBox=frame, preserveAspectRatio="none", class_="share", aria_hidden="true"
    )


def _between(low_ns: int, high_ns: int, decimals: int) -> str:
    low, high = (milliseconds(ns, decimals=decimals) for ns in (low_ns, high_ns))
    return low if low == high else f"{low}-{high}"


def buckets(report: Report) -> Sequence[Part]:
    """Every bucket in one row, where there are several."""
    if len(report.buckets) < 2:
        return []
    rows = [
        (
            each.shape.kind,
            _known(each.shape.batch),
            _known(each.shape.padded_batch),
            _known(each.shape.verified_tokens),
            _known(each.shape.draft_tokens),
            each.shape.graph or "unknown",
            Cell(count(each.cycles), each.cycles),
            Cell(percent(each.time_share), each.time_share),
            in_ms(each.period_ns.mean, decimals_for(each.period_ns.mean)),
        )
        for each in report.buckets
    ]
    titles = (
        "cycles of",
        "batch",
        "padded",
        "tokens",
        "drafts",
        "graph",
        "cycles",
        "of cycle time",
        "ms/cycle",
    )
    return [table(titles, rows, words=(0, 5), id_="buckets-table", sortable=True)]


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def graphs(report: Report) -> Sequence[Part]:
    """CUDA graphs by identity, and the draft steps and layers that ranges tell inside of them."""
    parts: list[Part] = []
    if report.graphs:
        rows = [graph_text.graph_row(graph) for graph in report.graphs]
        parts.append(table(graph_text.GRAPH_TITLES, rows, id_="graphs-table", sortable=True))
        parts += lines(graph_text.replay_only_note(report.graphs) or "")
    steps = graph_text.step_rows(report)
    if steps:
        parts.append(table(graph_text.STEP_TITLES, steps))
    return [*parts, *lines(*graph_text.layer_lines(report))]


def kernels(report: Report) -> Sequence[Part]:
    """Kernel classes by phase, each with its longest kernel: to sort, filter and copy."""
    if not report.buckets:
        return []
    place = charts.main_place(report)
    rows = [
        (
            phase.phase,
            each.kernel_class,
            Cell(f"{each.ops_per_cycle:,.1f}", each.ops_per_cycle),
            in_ms(each.busy_ns_per_cycle),
            name(each.longest_kernel or ""),
        )
        for phase in report.buckets[place].phases
        for each in phase.classes
    ]
    if not rows:
        return []
    titles = ("phase", "class", "ops/cycle", "busy ms/cycle", "longest kernel")
    id_ = "kernels-table"
    shown = table(titles, rows, words=(0, 1, 4), id_=id_, sortable=True)
    chart = charts.chart_of(report, "classes")
    return [*([chart] if chart else []), tool_bar(id_, "kernels"), shown]
