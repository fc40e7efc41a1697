"""The report on a terminal: a first screen that answers, tables after it that show why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from traceanalyzer.renderers.figures import (
    count,
    decimals_for,
    duration,
    milliseconds,
    percent,
    safe,
)
from traceanalyzer.renderers.screen import capture

if TYPE_CHECKING:
    from rich.console import RenderableType

    from traceanalyzer.report import (
        Acceptance,
        BucketReport,
        Check,
        Gap,
        PhaseReport,
        RankReport,
        Report,
    )

# Okabe and Ito's palette, told apart by colour-blind readers on light and dark grounds; names
# always stand beside the colour.
_COLOURS: Final = {
    "draft": "#56B4E9",
    "verify": "#E69F00",
    "sample": "#F0E442",
    "draft_extend": "#009E73",
    "decode": "#D55E00",
    "prefill": "#CC79A7",
    "draft_prefill": "#CC79A7",
    "mixed": "#CC79A7",
}
_BAR_WIDTH: Final = 24
_BUCKETS_SHOWN: Final = 3
_STATUS: Final = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "failed": "[red]failed[/]"}


def render_terminal(report: Report, *, plain: bool) -> str:
    """Render for a person.

    Args:
        report: The report.
        plain: Whether to leave out colour, for a file.
    """
    parts: list[RenderableType] = [*_capture(report), ""]
    if report.buckets:
        for bucket in report.buckets[:_BUCKETS_SHOWN]:
            parts += [*_bucket(bucket, report), ""]
        parts += _further_buckets(report.buckets[_BUCKETS_SHOWN:])
    else:
        parts += [_no_cycles(report), ""]
    parts += _acceptance(report.acceptance)
    parts += [*_trust(report.trust), ""]
    parts += _totals(report)
    if len(report.ranks) > 1:
        parts += [*_ranks(report.ranks), ""]
    parts += _ledger(report)
    return capture(parts, plain=plain)


def _capture(report: Report) -> list[RenderableType]:
    files = report.capture.files
    names = safe(files[0].path) + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    gpus = sorted({rank.device.name for rank in report.ranks if rank.device and rank.device.name})
    facts = [_tool_name(report)]
    if report.ranks:
        unit = "rank" if report.capture.time_base == "gpu" else "thread"
        facts.append(f"{len(report.ranks)} {unit}{'s' if len(report.ranks) > 1 else ''}")
    if gpus:
        facts.append(safe(", ".join(gpus)))
    return [f"[bold]{names}[/]", " · ".join(facts)]


def _tool_name(report: Report) -> str:
    """Which tool wrote the first file."""
    first = report.capture.files[0]
    version = f" {first.product_version}" if first.product_version else ""
    return safe(first.product + version)


def _bucket(bucket: BucketReport, report: Report) -> list[RenderableType]:
    decimals = decimals_for(bucket.period_ns.mean)
    on_gpu = report.capture.time_base == "gpu"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("phase", no_wrap=True)
    table.add_column("ms/cycle", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("5-95 %", justify="right", no_wrap=True)
    if on_gpu:
        table.add_column("GPU idle", justify="right", no_wrap=True)
        table.add_column("why idle", overflow="fold")
    for phase in bucket.phases:
        window = phase.window_ns_per_cycle
        cells: list[RenderableType] = [
            phase.phase,
            milliseconds(window.mean, decimals=decimals),
            percent(phase.window_share),
            _bar(phase.phase, phase.window_share),
            _between(window.p5, window.p95, decimals),
        ]
        if on_gpu:
            idle = phase.gap_ns_per_cycle
            cells += [milliseconds(idle, decimals=decimals) if idle else "-", _why(phase.gaps)]
        table.add_row(*cells)
    if bucket.overlap_ns_per_cycle:
        table.add_row(
            "two or more phases",
            milliseconds(bucket.overlap_ns_per_cycle, decimals=decimals),
            percent(bucket.overlap_share),
            _bar("", bucket.overlap_share),
        )
    period = bucket.period_ns
    table.add_row(
        "[bold]cycle[/]",
        f"[bold]{milliseconds(period.mean, decimals=decimals)}[/]",
        "100.0 %",
        "",
        _between(period.p5, period.p95, decimals),
    )
    return [
        _bucket_title(bucket, report),
        _headline(bucket, on_gpu=on_gpu),
        "",
        Padding(table, (0, 0, 0, 2)),
    ]


def _bucket_title(bucket: BucketReport, report: Report) -> str:
    shape = bucket.shape
    parts = [f"[bold]{safe(shape.kind)} cycles[/]"]
    if shape.batch is not None:
        padded = (
            f" of {shape.padded_batch}" if shape.padded_batch not in (None, shape.batch) else ""
        )
        parts.append(f"batch {shape.batch}{padded}")
    if shape.verified_tokens is not None:
        parts.append(f"{shape.verified_tokens} tokens")
    if shape.graph is not None:
        parts.append(safe(shape.graph))
    parts.append(
        f"{count(bucket.cycles)} cycles" + (f" on {bucket.ranks} ranks" if bucket.ranks > 1 else "")
    )
    if len(report.buckets) > 1:
        parts.append(f"{percent(bucket.time_share)} of cycle time")
    return " · ".join(parts)


def _headline(bucket: BucketReport, *, on_gpu: bool) -> str:
    """One sentence: where the cycle goes, and what each side could save at most."""
    decimals = decimals_for(bucket.period_ns.mean)
    sides = {rollup.name: rollup for rollup in bucket.rollups}
    told = [
        f"{name} {milliseconds(side.mean_ns_per_cycle, decimals=decimals)} ms "
        f"({percent(side.share_of_period)})"
        for name, text in (("target", "the target"), ("drafting", "drafting"))
        if (side := sides.get(name))
    ]
    cycle = milliseconds(bucket.period_ns.mean, decimals=decimals)
    base = "" if on_gpu else " of host time (no GPU work was recorded)"
    return (
        f"a cycle takes {cycle} ms{base}: " + ", ".join(told)
        if told
        else f"a cycle takes {cycle} ms{base}"
    )


def _bar(phase: str, share: float) -> Text:
    width = share * _BAR_WIDTH
    whole = int(width)
    eighths = " ▏▎▍▌▋▊▉"[int((width - whole) * 8)].strip()
    return Text("█" * whole + eighths, style=_COLOURS.get(phase, "#999999"))


def _between(low_ns: int, high_ns: int, decimals: int) -> str:
    low, high = (milliseconds(ns, decimals=decimals) for ns in (low_ns, high_ns))
    return low if low == high else f"{low}-{high}"


def _why(gaps: list[Gap]) -> str:
    """The causes of idle time, the largest first; those below a tenth are left out."""
    ranked = sorted(gaps, key=lambda gap: -gap.share)
    return ", ".join(f"{gap.cause} {100 * gap.share:.0f} %" for gap in ranked if gap.share >= 0.1)


def _further_buckets(buckets: list[BucketReport]) -> list[RenderableType]:
    if not buckets:
        return []
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for title in ("further cycles of", "graph", "cycles", "of cycle time", "ms/cycle"):
        table.add_column(
            title, justify="left" if title in ("further cycles of", "graph") else "right"
        )
    for bucket in buckets:
        table.add_row(
            safe(bucket.shape.kind),
            safe(bucket.shape.graph or "unknown"),
            count(bucket.cycles),
            percent(bucket.time_share),
            milliseconds(bucket.period_ns.mean, decimals=decimals_for(bucket.period_ns.mean)),
        )
    return [table, ""]


def _acceptance(found: Acceptance | None) -> list[RenderableType]:
    if found is None or found.accept_len is None:
        return []
    counts = ", ".join(
        f"{number}: {count(times)}"
        for number, times in enumerate(found.live_accepted_drafts_histogram)
    )
    stale = (
        f", {count(found.stale_request_cycles)} stale ones left out"
        if found.stale_request_cycles
        else ""
    )
    return [
        f"accept_len {found.accept_len:.2f} (bonus token included), from {found.source} of "
        f"{count(found.live_request_cycles)} request-cycles{stale}; accepted drafts: {counts}",
        "",
    ]


def _no_cycles(report: Report) -> str:
    known = [phase for rank in report.ranks for phase in rank.phases if phase.phase in _COLOURS]
    if known:
        return "No complete decode cycle: the totals below are all that can be said."
    if not report.capture.ranges:
        return (
            "This trace holds no ranges, so its GPU work belongs to no phase.\n"
            "Record with NVTX ranges around the phases (or record_function under torch.profiler)."
        )
    return (
        f"None of the {count(report.capture.ranges)} ranges in this trace means a phase of "
        "speculative decoding.\nList them with [bold]traceanalyzer ranges TRACE[/], and name "
        "their phases in a file for [bold]--phases[/]."
    )


def _trust(checks: list[Check]) -> list[RenderableType]:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        text = safe(check.text) + (f"\n{safe(check.next_step)}" if check.next_step else "")
        table.add_row(_STATUS[check.status], safe(check.check), text)
    return ["[bold]Can it be trusted?[/]", Padding(table, (0, 0, 0, 2))]


def _totals(report: Report) -> list[RenderableType]:
    if not report.ranks:
        return []
    rank = report.ranks[0]
    one = len(report.ranks) == 1
    title = "[bold]Whole trace[/]" + (
        "" if one else f" (rank {rank.rank}; all ranks with --format json)"
    )
    shown = (
        _gpu_totals(rank.phases) if report.capture.time_base == "gpu" else _host_totals(rank.phases)
    )
    return [title, Padding(shown, (0, 0, 0, 2)), ""]


def _gpu_totals(phases: list[PhaseReport]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("phase", no_wrap=True)
    for title in (
        "kernels",
        "graph rows",
        "launches",
        "of graphs",
        "busy ms",
        "summed ms",
        "host lead",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for phase in phases:
        lead = phase.host_lead_ns
        table.add_row(
            phase.phase,
            count(phase.kernels),
            count(phase.graph_rows),
            count(phase.launches),
            count(phase.graph_launches),
            milliseconds(phase.busy_ns),
            milliseconds(phase.summed_ns),
            f"{duration(lead.p50)} (5 %: {duration(lead.p5)})" if lead else "-",
        )
    return table


def _host_totals(phases: list[PhaseReport]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("phase", no_wrap=True)
    table.add_column("host ms", justify="right")
    for phase in phases:
        table.add_row(phase.phase, milliseconds(phase.busy_ns))
    return table


def _ranks(ranks: list[RankReport]) -> list[RenderableType]:
    table = Table(box=None, pad_edge=False, header_style="bold")
    titles = ("rank", "process", "GPU", "kept", "warm-up", "edge", "interrupted", "dummy")
    for title in (*titles, "median cycle ms", "coverage"):
        table.add_column(title, justify="right", no_wrap=True)
    for rank in ranks:
        cycles, dropped = rank.cycles, rank.cycles.dropped
        table.add_row(
            str(rank.rank),
            str(rank.process_id),
            str(rank.device.index) if rank.device else "-",
            count(cycles.kept),
            *(
                count(number)
                for number in (dropped.warm_up, dropped.edge, dropped.interrupted, dropped.dummy)
            ),
            milliseconds(cycles.period_ns.p50) if cycles.period_ns else "-",
            percent(rank.coverage.covered_share) if rank.device else "-",
        )
    return ["[bold]Ranks[/]", Padding(table, (0, 0, 0, 2))]


def _ledger(report: Report) -> list[RenderableType]:
    if report.coverage is None:
        return []
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("busy GPU time by evidence", no_wrap=True)
    for title in ("share", "ms", "ops"):
        table.add_column(title, justify="right", no_wrap=True)
    for method in report.coverage.by_method:
        table.add_row(
            method.method, percent(method.share), milliseconds(method.busy_ns), count(method.ops)
        )
    return ["[bold]Coverage[/]", Padding(table, (0, 0, 0, 2))]
