"""CUDA graphs, draft steps and layers as rows of text, for the terminal and for Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, decimals_for, duration, milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import GraphReport, PhaseParts, Report

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

_REPLAY_ONLY: Final = (
    "Phase at replay only: of the graphs recorded node by node no range tells what their nodes "
    "were captured in, so draft steps and layers inside them are unknown. Start recording before "
    "the server captures its graphs, or record with: "
    "nsys profile --cuda-graph-trace=node:nvtx-precapture."
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
    return _REPLAY_ONLY if any(graph.inside == "phase at replay only" for graph in graphs) else None


def step_rows(report: Report) -> list[list[str]]:
    """Every draft step of every bucket, a cell for each of `STEP_TITLES`."""
    return [
        [
            f"{phases.phase} {part.number}",
            _batch(report, phases),
            milliseconds(time.mean, decimals=decimals_for(time.mean)),
            f"{milliseconds(time.p5)}-{milliseconds(time.p95)}",
            percent(part.share),
        ]
        for phases in report.parts
        if phases.part == "draft step"
        for part in phases.parts
        for time in [part.busy_ns_per_cycle]
    ]


def layer_lines(report: Report) -> list[str]:
    """One sentence for the layers of each phase."""
    return [
        _layers(phases, _batch(report, phases)) for phases in report.parts if phases.part == "layer"
    ]


def _layers(phases: PhaseParts, batch: str) -> str:
    where = f"{phases.phase} at batch {batch}: "
    if len(phases.parts) == 1:
        return f"{where}1 layer, {duration(phases.mean_ns)} in a cycle"
    return (
        f"{where}{count(len(phases.parts))} layers, {duration(phases.mean_ns)} each in a cycle; "
        f"layer {phases.longest} takes longest"
    )


def _batch(report: Report, phases: PhaseParts) -> str:
    batch = report.buckets[phases.bucket].shape.batch
    return "unknown" if batch is None else str(batch)
