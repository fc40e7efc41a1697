"""Where the time of a cycle goes: its phases one after another, and what is idle in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.charts.chart import (
    Chart,
    bars,
    height_of,
    hover,
    in_ms,
    named_axis,
    value_axis,
    written_ms,
)
from traceanalyzer.renderers.figures import percent
from traceanalyzer.renderers.html.escaping import plotly_text
from traceanalyzer.renderers.palette import BLUE, OTHER_COLOUR, phase_colour

if TYPE_CHECKING:
    from traceanalyzer.report import BucketPhase, BucketReport

OVERLAP: Final = "two or more phases"
CYCLE: Final = "cycle"
_CAUSES: Final = {
    "host late": "#2f3640",
    "launch latency": "#6b7482",
    "dependency": "#a0a8b4",
    "synchronisation": "#d3d8df",
}
"""Greys, for what is not work of any phase."""


def waterfall(bucket: BucketReport) -> Chart | None:
    """The phases of a mean cycle, each bar beginning where the one above it ends."""
    if not bucket.phases:
        return None
    steps = [
        (phase.phase, phase.window_ns_per_cycle.mean, phase.window_share, phase_colour(phase.phase))
        for phase in bucket.phases
    ]
    if bucket.overlap_ns_per_cycle:
        steps.append((OVERLAP, bucket.overlap_ns_per_cycle, bucket.overlap_share, OTHER_COLOUR))
    period = bucket.period_ns.mean
    names = [*(name for name, *_ in steps), CYCLE]
    lengths = [*(ns for _, ns, *_ in steps), period]
    shares = [*(share for *_, share, _ in steps), 1.0]
    texts = [
        f"{written_ms(ns, period)} ms · {percent(share)}"
        for ns, share in zip(lengths, shares, strict=True)
    ]
    trace = bars(
        range(len(names)),
        [in_ms(ns) for ns in lengths],
        texts,
        base=[in_ms(start) for start in _starts(lengths[:-1])] + [0.0],
        hovertext=[hover(name, text) for name, text in zip(names, texts, strict=True)],
        marker={"color": [*(colour for *_, colour in steps), BLUE]},
    )
    layout = {
        "height": height_of(len(names)),
        "xaxis": value_axis("ms of a mean cycle", in_ms(period), headroom=1.4),
        "yaxis": named_axis(names),
        "showlegend": False,
        "bargap": 0.25,
    }
    rows = [
        (name, written_ms(ns, period), percent(share))
        for name, ns, share in zip(names, lengths, shares, strict=True)
    ]
    title = "A mean cycle, phase by phase"
    return Chart("waterfall", title, [trace], layout, ("phase", "ms/cycle", "share"), rows)


def _starts(lengths: list[float]) -> list[float]:
    return [sum(lengths[:place]) for place in range(len(lengths))]


def windows(bucket: BucketReport) -> Chart | None:
    """Each phase's window, and the idle time in it by cause."""
    if not any(phase.gaps for phase in bucket.phases):
        return None
    phases, period = bucket.phases, bucket.period_ns.mean
    names = [phase.phase for phase in phases]
    longest = max(phase.window_ns_per_cycle.mean for phase in phases)
    whole = bars(
        range(len(names)),
        [in_ms(phase.window_ns_per_cycle.mean) for phase in phases],
        [""] * len(names),
        hovertext=[_window_text(phase, period) for phase in phases],
        marker={"color": [phase_colour(name) for name in names]},
        showlegend=False,
    )
    causes = list(dict.fromkeys(gap.cause for phase in phases for gap in phase.gaps))
    layout = {
        "height": height_of(len(names)),
        "xaxis": value_axis("ms of a mean cycle", in_ms(longest)),
        "yaxis": named_axis(names),
        "barmode": "overlay",
        "bargap": 0.25,
    }
    return Chart(
        "windows",
        "Windows, and the time in them when the GPU is idle",
        [whole, *(_idle(phases, cause, period) for cause in causes)],
        layout,
        ("phase", "window ms", "idle ms", *(f"idle ms: {cause}" for cause in causes)),
        [_window_row(phase, causes, period) for phase in phases],
        note="Idle time stands at the right end of each window, whenever it occurred in it.",
    )


def _window_text(phase: BucketPhase, period: float) -> str:
    return hover(
        phase.phase,
        f"window {written_ms(phase.window_ns_per_cycle.mean, period)} ms",
        f"idle {written_ms(phase.gap_ns_per_cycle, period)} ms",
    )


def _idle(phases: list[BucketPhase], cause: str, period: float) -> dict[str, object]:
    """The idle time of one cause, drawn over the right ends of the windows."""
    places, lengths, bases, texts = [], [], [], []
    for place, phase in enumerate(phases):
        end = phase.window_ns_per_cycle.mean
        for gap in phase.gaps:
            end -= gap.ns_per_cycle
            if gap.cause == cause:
                told = f"{written_ms(gap.ns_per_cycle, period)} ms ({percent(gap.share)} of idle)"
                places.append(place)
                lengths.append(in_ms(gap.ns_per_cycle))
                bases.append(in_ms(end))
                texts.append(hover(phase.phase, f"idle, {cause}: {told}"))
    return bars(
        places,
        lengths,
        [""] * len(places),
        base=bases,
        hovertext=texts,
        name=plotly_text(f"idle: {cause}"),
        marker={"color": _CAUSES.get(cause, OTHER_COLOUR)},
    )


def _window_row(phase: BucketPhase, causes: list[str], period: float) -> tuple[str, ...]:
    by_cause = {gap.cause: gap.ns_per_cycle for gap in phase.gaps}
    return (
        phase.phase,
        written_ms(phase.window_ns_per_cycle.mean, period),
        written_ms(phase.gap_ns_per_cycle, period),
        *(written_ms(by_cause[cause], period) if cause in by_cause else "-" for cause in causes),
    )


def classes(bucket: BucketReport) -> Chart | None:
    """Kernel classes, each bar divided by phase."""
    phases = [phase for phase in bucket.phases if phase.classes]
    if not phases:
        return None
    period = bucket.period_ns.mean
    totals: dict[str, float] = {}
    for phase in phases:
        for each in phase.classes:
            totals[each.kernel_class] = totals.get(each.kernel_class, 0.0) + each.busy_ns_per_cycle
    names = sorted(totals, key=lambda name: -totals[name])
    layout = {
        "height": height_of(len(names)),
        "xaxis": value_axis("busy ms of a mean cycle", in_ms(max(totals.values()))),
        "yaxis": named_axis(names),
        "barmode": "stack",
        "bargap": 0.25,
    }
    rows = [
        (phase.phase, each.kernel_class, written_ms(each.busy_ns_per_cycle, period))
        for phase in phases
        for each in phase.classes
    ]
    cycles = min(phase.class_cycles for phase in phases)
    return Chart(
        "classes",
        "Kernel classes by phase",
        [_class_bars(phase, names, period) for phase in phases],
        layout,
        ("phase", "class", "busy ms/cycle"),
        rows,
        words=(0, 1),
        note=f"Over {cycles:,} cycles in which every replay was recorded node by node.",
    )


def _class_bars(phase: BucketPhase, names: list[str], period: float) -> dict[str, object]:
    found = [each for each in phase.classes if each.busy_ns_per_cycle > 0]
    return bars(
        [names.index(each.kernel_class) for each in found],
        [in_ms(each.busy_ns_per_cycle) for each in found],
        [""] * len(found),
        hovertext=[
            hover(
                f"{phase.phase}: {each.kernel_class}",
                f"{written_ms(each.busy_ns_per_cycle, period)} ms, "
                f"{each.ops_per_cycle:,.1f} ops a cycle",
                *([f"longest: {each.longest_kernel}"] if each.longest_kernel else ()),
            )
            for each in found
        ],
        name=plotly_text(phase.phase),
        marker={"color": phase_colour(phase.phase)},
    )
