"""The report on a terminal: a first screen that answers, tables after it that show why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from traceanalyzer.phases.rules import LEFTOVERS
from traceanalyzer.renderers import cycle_words as words
from traceanalyzer.renderers import (
    graph_screen,
    kernel_screen,
    node_screen,
    skew_text,
    verdict_screen,
)
from traceanalyzer.renderers.figures import (
    count,
    decimals_for,
    duration,
    milliseconds,
    percent,
    safe,
)
from traceanalyzer.renderers.first_words import first_words
from traceanalyzer.renderers.palette import phase_colour
from traceanalyzer.renderers.screen import Column, bold, capture, fitted, indented, screen_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from traceanalyzer.report import (
        Acceptance,
        BucketPhase,
        BucketReport,
        Check,
        InferenceReport,
        PhaseReport,
        Report,
    )

_BAR_WIDTH: Final = 10
_BUCKETS_SHOWN: Final = 3
_STATUS: Final = {"ok": "green", "warning": "yellow", "failed": "red"}
_SIDES: Final = {"target": "the target", "drafting": "drafting"}


def render_terminal(report: Report, *, plain: bool, kernels: bool = False) -> str:
    """Render for a person.

    Args:
        report: The report.
        plain: Whether to leave out colour, for a file.
        kernels: Whether to list kernels by name.
    """
    parts: list[RenderableType] = [*_capture(report), ""]
    failed = any(check.status == "failed" for check in report.trust)
    if failed:
        parts += [*_trust(report.trust), ""]
    parts += _inferred(report.inference)
    if report.verdict is not None:
        parts += verdict_screen.headline(report.verdict)
    if report.buckets:
        parts += [*_bucket(report.buckets[0], report), "", *_first_words(report)]
    else:
        parts += [_no_cycles(report), ""]
    parts += verdict_screen.by_batch(report)
    parts += verdict_screen.why_and_what(report) or _acceptance(report.acceptance)
    if not failed:
        parts += [*_trust(report.trust), ""]
    for bucket in report.buckets[1:_BUCKETS_SHOWN]:
        parts += [*_bucket(bucket, report), ""]
    parts += _further_buckets(report.buckets[_BUCKETS_SHOWN:])
    parts += graph_screen.cuda_graphs(report.graphs)
    parts += graph_screen.draft_steps(report)
    parts += node_screen.node_recording(report)
    if kernels:
        parts += kernel_screen.longest_kernels(report)
    parts += _totals(report)
    if len(report.ranks) > 1:
        parts += [*_ranks(report), ""]
    if waiting := skew_text.skew_lines(report):
        parts += [*map(safe, waiting), ""]
    parts += _ledger(report)
    return capture(parts, plain=plain)


def _first_words(report: Report) -> list[RenderableType]:
    """What stands out, one paragraph each."""
    lines = [Padding(safe(line), (0, 0, 0, 2)) for line in first_words(report)]
    return [*lines, ""] if lines else []


def _inferred(found: InferenceReport | None) -> list[RenderableType]:
    """That phases are inferred, and from what."""
    if found is None or not found.inferred:
        return []
    title = f"?  Phases are inferred, not measured (score {found.score:.2f})."
    lines = [Padding(safe(line), (0, 0, 0, 3)) for line in found.evidence]
    return [Text(title, style="bold yellow"), *lines, ""]


def _in_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> RenderableType:
    return indented(fitted(columns, rows, width=screen_width() - 2))


def _capture(report: Report) -> list[RenderableType]:
    files = report.capture.files
    names = safe(files[0].path) + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    gpus = sorted({rank.device.name for rank in report.ranks if rank.device and rank.device.name})
    facts = [_tool_name(report)]
    if report.ranks:
        unit = "rank" if report.capture.time_base == "gpu" else "thread"
        facts.append(words.many(len(report.ranks), unit))
    if gpus:
        facts.append(safe(", ".join(gpus)))
    return [bold(names), " · ".join(facts)]


def _tool_name(report: Report) -> str:
    """Which tool wrote the first file."""
    first = report.capture.files[0]
    return safe(f"{first.product} {first.product_version or ''}".rstrip())


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
    window = phase.window_ns_per_cycle
    return [
        phase.phase,
        milliseconds(window.mean, decimals=decimals),
        percent(phase.window_share),
        _bar(phase.phase, phase.window_share),
        _between(window.p5, window.p95, decimals),
        _idle(phase, decimals),
        words.launched_as(phase),
        words.why_idle(phase.gaps),
    ]


def _idle(phase: BucketPhase, decimals: int) -> str:
    """Idle time that shows; whole-graph rows hide what lies inside of them."""
    idle = phase.gap_ns_per_cycle
    shown = milliseconds(idle, decimals=decimals)
    if phase.whole_cycles:
        return f"≥ {shown}"
    return shown if idle else "-"


def _bucket_title(bucket: BucketReport, report: Report) -> Text:
    first, *facts = map(safe, words.bucket_facts(bucket, of_several=len(report.buckets) > 1))
    inferred = report.inference is not None and report.inference.inferred
    title = f"{first}{' (inferred)' if inferred else ''}"
    return Text.assemble((title, "bold"), " · ", " · ".join(facts))


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
    return Text("█" * whole + eighths, style=phase_colour(phase))


def _between(low_ns: int, high_ns: int, decimals: int) -> str:
    low, high = (milliseconds(ns, decimals=decimals) for ns in (low_ns, high_ns))
    return low if low == high else f"{low}-{high}"


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
    if any(phase.phase not in LEFTOVERS for rank in report.ranks for phase in rank.phases):
        return "No complete decode cycle: the totals below are all that can be said."
    if not report.capture.ranges:
        return (
            "This trace holds no ranges, so its GPU work belongs to no phase.\n"
            f"{_declined(report.inference)}"
            "Record with NVTX ranges around the phases (or record_function under torch.profiler)."
        )
    return (
        f"None of the {count(report.capture.ranges)} ranges in this trace means a phase of "
        f"speculative decoding.\n{_declined(report.inference)}"
        "List them with: traceanalyzer ranges TRACE, and name their phases in a file for --phases."
    )


def _declined(found: InferenceReport | None) -> str:
    """Why phases were not inferred, as a line."""
    if found is None or not found.declined_because:
        return ""
    return f"None could be inferred: {safe('; '.join(found.declined_because))}.\n"


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


def _ranks(report: Report) -> list[RenderableType]:
    waits = skew_text.rank_cells(report)
    needs = {"rank": 9, "kept": 8, "median cycle ms": 7, "coverage": 6, "process": 5, "GPU": 4}
    needs |= dict.fromkeys(skew_text.RANK_TITLES, 6)
    titles = ("rank", "process", "GPU", "kept", "warm-up", "edge", "interrupted", "dummy")
    columns = [
        Column(title, needs.get(title, 3))
        for title in (
            *titles,
            "median cycle ms",
            *(skew_text.RANK_TITLES if waits else ()),
            "coverage",
        )
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
            *(waits.get(rank.rank, ("-", "-")) if waits else ()),
            percent(rank.coverage.covered_share) if rank.device else "-",
        ]
        for rank in report.ranks
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
