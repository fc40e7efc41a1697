"""The report on a terminal: a first screen that answers, tables after it that show why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from traceanalyzer.renderers import verdict_screen
from traceanalyzer.renderers.figures import (
    count,
    decimals_for,
    duration,
    milliseconds,
    percent,
    safe,
)
from traceanalyzer.renderers.screen import Column, bold, capture, fitted, indented, screen_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from traceanalyzer.report import (
        Acceptance,
        BucketPhase,
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
_BAR_WIDTH: Final = 10
_BUCKETS_SHOWN: Final = 3
_STATUS: Final = {"ok": "green", "warning": "yellow", "failed": "red"}
_SIDES: Final = {"target": "the target", "drafting": "drafting"}
_SMALL_SHARE: Final = 0.1


def render_terminal(report: Report, *, plain: bool) -> str:
    """Render for a person.

    Args:
        report: The report.
        plain: Whether to leave out colour, for a file.
    """
    parts: list[RenderableType] = [*_capture(report), ""]
    failed = any(check.status == "failed" for check in report.trust)
    if failed:
        parts += [*_trust(report.trust), ""]
    if report.verdict is not None:
        parts += verdict_screen.headline(report.verdict)
    if report.buckets:
        parts += [*_bucket(report.buckets[0], report), ""]
    else:
        parts += [_no_cycles(report), ""]
    parts += verdict_screen.by_batch(report)
    parts += verdict_screen.why_and_what(report) or _acceptance(report.acceptance)
    if not failed:
        parts += [*_trust(report.trust), ""]
    for bucket in report.buckets[1:_BUCKETS_SHOWN]:
        parts += [*_bucket(bucket, report), ""]
    parts += _further_buckets(report.buckets[_BUCKETS_SHOWN:])
    parts += _totals(report)
    if len(report.ranks) > 1:
        parts += [*_ranks(report.ranks), ""]
    parts += _ledger(report)
    return capture(parts, plain=plain)


def _in_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> RenderableType:
    return indented(fitted(columns, rows, width=screen_width() - 2))


def _capture(report: Report) -> list[RenderableType]:
    files = report.capture.files
    names = safe(files[0].path) + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    gpus = sorted({rank.device.name for rank in report.ranks if rank.device and rank.device.name})
    facts = [_tool_name(report)]
    if report.ranks:
        unit = "rank" if report.capture.time_base == "gpu" else "thread"
        facts.append(_many(len(report.ranks), unit))
    if gpus:
        facts.append(safe(", ".join(gpus)))
    return [bold(names), " · ".join(facts)]


def _tool_name(report: Report) -> str:
    """Which tool wrote the first file."""
    first = report.capture.files[0]
    return safe(f"{first.product} {first.product_version or ''}".rstrip())


def _many(number: int, thing: str) -> str:
    return f"{count(number)} {thing}" + ("" if number == 1 else "s")


def _bucket(bucket: BucketReport, report: Report) -> list[RenderableType]:
    on_gpu = report.capture.time_base == "gpu"
    decimals = decimals_for(bucket.period_ns.mean)
    columns = [
        Column("phase", 9, figures=False),
        Column("ms/cycle", 8),
        Column("share", 7),
        Column("", 3, figures=False),
        Column("5-95 %", 4),
    ]
    if on_gpu:
        columns += [
            Column("GPU idle", 6),
            Column("launched as", 3, figures=False),
            Column("why idle", 5, figures=False, wraps=True, least_width=14),
        ]
    rows = [_phase_row(phase, decimals) for phase in bucket.phases]
    if bucket.overlap_ns_per_cycle:
        overlap = milliseconds(bucket.overlap_ns_per_cycle, decimals=decimals)
        share = bucket.overlap_share
        rows.append(["two or more phases", overlap, percent(share), _bar("", share), *[""] * 4])
    period = bucket.period_ns
    mean = bold(milliseconds(period.mean, decimals=decimals))
    rows.append(
        [bold("cycle"), mean, "100.0 %", "", _between(period.p5, period.p95, decimals), *[""] * 3]
    )
    return [
        _bucket_title(bucket, report),
        _headline(bucket, on_gpu=on_gpu),
        "",
        _in_table(columns, rows),
    ]


def _phase_row(phase: BucketPhase, decimals: int) -> list[str | Text]:
    window, idle = phase.window_ns_per_cycle, phase.gap_ns_per_cycle
    return [
        phase.phase,
        milliseconds(window.mean, decimals=decimals),
        percent(phase.window_share),
        _bar(phase.phase, phase.window_share),
        _between(window.p5, window.p95, decimals),
        milliseconds(idle, decimals=decimals) if idle else "-",
        _launched_as(phase),
        _why(phase.gaps),
    ]


def _launched_as(phase: BucketPhase) -> str:
    """How many graph and kernel launches a cycle needs; those in a tenth of cycles are left out."""
    parts = [
        f"{count(round(number))} {what}{'' if round(number) == 1 else 's'}"
        for number, what in (
            (phase.graph_launches_per_cycle, "graph"),
            (phase.kernel_launches_per_cycle, "kernel"),
        )
        if number >= _SMALL_SHARE and round(number)
    ]
    return " + ".join(parts)


def _bucket_title(bucket: BucketReport, report: Report) -> Text:
    shape = bucket.shape
    parts = []
    if shape.batch is not None:
        padded = (
            f" of {shape.padded_batch}" if shape.padded_batch not in (None, shape.batch) else ""
        )
        parts.append(f"batch {shape.batch}{padded}")
    if shape.verified_tokens is not None:
        parts.append(_many(shape.verified_tokens, "token"))
    if shape.graph is not None:
        parts.append(safe(shape.graph))
    cycles = _many(bucket.cycles, "cycle")
    parts.append(cycles + (f" on {bucket.ranks} ranks" if bucket.ranks > 1 else ""))
    if len(report.buckets) > 1:
        parts.append(f"{percent(bucket.time_share)} of cycle time")
    return Text.assemble((f"{safe(shape.kind)} cycles", "bold"), " · ", " · ".join(parts))


def _headline(bucket: BucketReport, *, on_gpu: bool) -> str:
    """One sentence: where the cycle goes, and what each side could save at most."""
    decimals = decimals_for(bucket.period_ns.mean)
    told = [
        f"{_SIDES[side.name]} {milliseconds(side.mean_ns_per_cycle, decimals=decimals)} ms "
        f"({percent(side.share_of_period)})"
        for side in bucket.rollups
    ]
    cycle = f"a cycle takes {milliseconds(bucket.period_ns.mean, decimals=decimals)} ms"
    if not on_gpu:
        cycle += " of host time (no GPU work was recorded)"
    return f"{cycle}: {', '.join(told)}" if told else cycle


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
    return ", ".join(
        f"{gap.cause} {100 * gap.share:.0f} %" for gap in ranked if gap.share >= _SMALL_SHARE
    )


def _further_buckets(buckets: list[BucketReport]) -> list[RenderableType]:
    if not buckets:
        return []
    columns = [
        Column("further cycles of", 9, figures=False),
        Column("batch", 6),
        Column("graph", 4, figures=False),
        Column("cycles", 5),
        Column("of cycle time", 7),
        Column("ms/cycle", 8),
    ]
    rows = [
        [
            safe(bucket.shape.kind),
            "-" if bucket.shape.batch is None else str(bucket.shape.batch),
            safe(bucket.shape.graph or "unknown"),
            count(bucket.cycles),
            percent(bucket.time_share),
            milliseconds(bucket.period_ns.mean, decimals=decimals_for(bucket.period_ns.mean)),
        ]
        for bucket in buckets
    ]
    return [_in_table(columns, rows), ""]


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
        "speculative decoding.\nList them with: traceanalyzer ranges TRACE, and name their "
        "phases in a file for --phases."
    )


def _trust(checks: list[Check]) -> list[RenderableType]:
    columns = [
        Column("", 9, figures=False),
        Column("", 8, figures=False),
        Column("", 9, figures=False, wraps=True, least_width=20),
    ]
    rows: list[list[str | Text]] = [
        [
            Text(check.status, style=_STATUS[check.status]),
            safe(check.check),
            safe(check.text) + (f"\n{safe(check.next_step)}" if check.next_step else ""),
        ]
        for check in checks
    ]
    return [bold("Can it be trusted?"), _in_table(columns, rows)]


def _totals(report: Report) -> list[RenderableType]:
    if not report.ranks:
        return []
    rank = report.ranks[0]
    title = bold("Whole trace")
    if len(report.ranks) > 1:
        title.append(f" (rank {rank.rank}; all ranks with --format json)", style="not bold")
    on_gpu = report.capture.time_base == "gpu"
    return [title, _gpu_totals(rank.phases) if on_gpu else _host_totals(rank.phases), ""]


def _gpu_totals(phases: list[PhaseReport]) -> RenderableType:
    columns = [
        Column("phase", 9, figures=False),
        Column("kernels", 7),
        Column("graph rows", 5),
        Column("launches", 4),
        Column("of graphs", 3),
        Column("busy ms", 8),
        Column("summed ms", 6),
        Column("host lead", 2),
    ]
    rows = [
        [
            phase.phase,
            count(phase.kernels),
            count(phase.graph_rows),
            count(phase.launches),
            count(phase.graph_launches),
            milliseconds(phase.busy_ns),
            milliseconds(phase.summed_ns),
            f"{duration(lead.p50)} (5 %: {duration(lead.p5)})" if lead else "-",
        ]
        for phase in phases
        for lead in [phase.host_lead_ns]
    ]
    return _in_table(columns, rows)


def _host_totals(phases: list[PhaseReport]) -> RenderableType:
    columns = [Column("phase", 9, figures=False), Column("host ms", 8)]
    return _in_table(columns, [[phase.phase, milliseconds(phase.busy_ns)] for phase in phases])


def _ranks(ranks: list[RankReport]) -> list[RenderableType]:
    needs = {"rank": 9, "kept": 8, "median cycle ms": 7, "coverage": 6, "process": 5, "GPU": 4}
    titles = ("rank", "process", "GPU", "kept", "warm-up", "edge", "interrupted", "dummy")
    columns = [
        Column(title, needs.get(title, 3)) for title in (*titles, "median cycle ms", "coverage")
    ]
    rows = [
        [
            str(rank.rank),
            str(rank.process_id),
            str(rank.device.index) if rank.device else "-",
            count(rank.cycles.kept),
            *(
                count(number)
                for number in (dropped.warm_up, dropped.edge, dropped.interrupted, dropped.dummy)
            ),
            milliseconds(rank.cycles.period_ns.p50) if rank.cycles.period_ns else "-",
            percent(rank.coverage.covered_share) if rank.device else "-",
        ]
        for rank in ranks
        for dropped in [rank.cycles.dropped]
    ]
    return [bold("Ranks"), _in_table(columns, rows)]


def _ledger(report: Report) -> list[RenderableType]:
    if report.coverage is None:
        return []
    columns = [
        Column("busy GPU time by evidence", 9, figures=False),
        Column("share", 8),
        Column("ms", 7),
        Column("ops", 6),
    ]
    rows = [
        [method.method, percent(method.share), milliseconds(method.busy_ns), count(method.ops)]
        for method in report.coverage.by_method
    ]
    return [bold("Coverage"), _in_table(columns, rows)]
