"""CUDA graphs, draft steps and layers as rows of text, for the terminal and for Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, decimals_for, duration, milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import Estimated, GraphReport, PartTime, PhaseParts, Report

GRAPH_TITLES: Final = (
    "graph of",
    "batch",
    "ops",
    "launches",
    "every ms",
    "GPU ms",
    "99 %",
    "launch call",
    "GPU waits",
    "ranks",
    "blocks",
)
STEP_TITLES: Final = ("draft step", "batch", "GPU ms/cycle", "5-95 %", "share")

_CARRIED: Final = " (carried over)"
_REPLAY_ONLY: Final = (
    "Phase at replay only: of the graphs recorded node by node no range tells what their nodes "
    "were captured in, so draft steps and layers inside them are unknown. Start recording before "
    "the server captures its graphs, or record with: "
    "nsys profile --cuda-graph-trace=node:nvtx-precapture. Or name a capture of the same server "
    "in which ranges do: --layers-from TRACE."
)


def graph_row(graph: GraphReport) -> list[str]:
    """One graph, a cell for each of `GRAPH_TITLES`."""
    decimals = decimals_for(graph.span_p50_ns)
    return [
        ", ".join(graph.phases),
        ", ".join(str(batch) for batch in graph.batches) or "-",
        "one row" if graph.ops is None else count(graph.ops),
        count(graph.launches),
        "-" if graph.period_ns is None else milliseconds(graph.period_ns, decimals=2),
        milliseconds(graph.span_p50_ns, decimals=decimals),
        milliseconds(graph.span_p99_ns, decimals=decimals),
        "-" if graph.launch_ns is None else duration(graph.launch_ns),
        "-" if graph.waited_share is None else percent(graph.waited_share),
        _numbers(graph.ranks),
        "-" if graph.blocks is None else count(graph.blocks),
    ]


def _numbers(numbers: Sequence[int]) -> str:
    """Numbers in order, a run of them by its ends."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers))


def replay_only_note(graphs: Sequence[GraphReport]) -> str | None:
    """What to do where ranges do not reach into graphs; None where they do."""
    lacking = [graph for graph in graphs if graph.inside == "phase at replay only"]
    if not lacking:
        return None
    if not any(graph.inside == "order of kernels" for graph in graphs):
        return _REPLAY_ONLY
    phases = dict.fromkeys(", ".join(graph.phases) for graph in lacking)
    return (
        f"Phase at replay only: draft steps and layers inside the graphs of {', '.join(phases)} "
        "are unknown; the other capture does not tell them."
    )


def step_rows(report: Report) -> list[list[str]]:
    """Every draft step of every bucket, a cell for each of `STEP_TITLES`."""
    return [
        [
            f"{phases.phase} {part.number}{_CARRIED if phases.carried_score is not None else ''}",
            _batch(report, phases),
            _mean(part),
            f"{milliseconds(time.p5)}-{milliseconds(time.p95)}",
            percent(part.share),
        ]
        for phases in report.parts
        if phases.part == "draft step"
        for part in phases.parts
        for time in [part.busy_ns_per_cycle]
    ]


def _mean(part: PartTime) -> str:
    """The mean, and its interval where it rests on two passes."""
    mean = part.busy_ns_per_cycle.mean
    decimals = decimals_for(mean)
    text = milliseconds(mean, decimals=decimals)
    found = part.corrected_ns
    if found is None or found.low is None or found.high is None:
        return text
    low, high = (milliseconds(end, decimals=decimals) for end in (found.low, found.high))
    return f"{text} [{low}, {high}]"


def layer_lines(report: Report) -> list[str]:
    """One sentence for the layers of each phase."""
    return [
        _layers(phases, _batch(report, phases)) + _evidence(report, phases)
        for phases in report.parts
        if phases.part == "layer"
    ]


def _layers(phases: PhaseParts, batch: str) -> str:
    where = f"{phases.phase} at batch {batch}: "
    time = duration(phases.mean_ns) + _interval(phases.corrected_mean_ns)
    if len(phases.parts) == 1:
        return f"{where}1 layer, {time} in a cycle"
    return (
        f"{where}{count(len(phases.parts))} layers, {time} each in a cycle; "
        f"layer {phases.longest} takes longest"
    )


def _interval(found: Estimated | None) -> str:
    if found is None or found.low is None or found.high is None:
        return ""
    return f" [{duration(found.low)}, {duration(found.high)}]"


def _evidence(report: Report, phases: PhaseParts) -> str:
    """Where ranges do not tell the layers: what does, and how well it fits."""
    if phases.carried_score is None:
        return ""
    sources = [
        "forwards of this capture" if each.source is None else each.source
        for each in report.carried
        if each.phase == phases.phase and each.forwards
    ]
    source = f" from {' and '.join(sources)}" if sources else ""
    return (
        f"; carried over{source} by the order of kernels, "
        f"{percent(phases.carried_score)} of which match"
    )


def _batch(report: Report, phases: PhaseParts) -> str:
    batch = report.buckets[phases.bucket].shape.batch
    return "unknown" if batch is None else str(batch)
