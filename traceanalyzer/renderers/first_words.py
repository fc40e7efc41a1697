"""What stands out of the cycles of one bucket, in words: each sentence only where it holds.

What drafting can buy at most, kernels of a graph that overlap, a launch that the GPU waits for, and
a rank that the others wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import NS_PER_MS, duration, milliseconds
from traceanalyzer.renderers.skew_text import late_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketReport, FreeDrafting, GraphReport, Report

_MAIN_SHARE: Final = 0.1  # of a cycle: what a graph must take to be worth a sentence
_TOLD_SHARE: Final = 0.01
_LATE_SHARE: Final = 0.05


def first_words(report: Report, place: int = 0) -> list[str]:
    """Sentences for the first screen, none where nothing stands out.

    Args:
        report: The report.
        place: Of the bucket they are about.
    """
    if not report.buckets:
        return []
    main = report.buckets[place]
    lines = [_free_drafting(main.free_drafting)] if main.free_drafting else []
    for graph in _graphs_of(report.graphs, main):
        lines += [*_overlap(graph), *_launch(graph, main)]
    lines += [
        line
        for group in report.skew
        if (group.cost_share or 0.0) >= _LATE_SHARE and (line := late_line(group))
    ]
    return lines


def _free_drafting(found: FreeDrafting) -> str:
    text = f"Drafting for free would buy at most {_gain(found.speedup)} tokens/s"
    if found.speedup_with_launch >= (1 + _TOLD_SHARE) * found.speedup:
        text += (
            f"; {_gain(found.speedup_with_launch)} if the {_ms(found.launch_wait_ns)} "
            "in which the GPU waits for the launch of verify went with it"
        )
    return f"{text}."


def _gain(speedup: float) -> str:
    return f"{100 * (speedup - 1):+.1f} %"


def _graphs_of(graphs: Sequence[GraphReport], bucket: BucketReport) -> list[GraphReport]:
    """The graphs that take a good part of the bucket's cycles, the dearest first."""
    phases = {each.phase for each in bucket.phases}
    return [
        graph
        for graph in graphs
        if phases.issuperset(graph.phases)
        and (bucket.shape.batch is None or bucket.shape.batch in graph.batches)
        and graph.span_p50_ns >= _MAIN_SHARE * bucket.period_ns.mean
    ]


def _overlap(graph: GraphReport) -> list[str]:
    """That a sum of kernels is no duration, where it is told and differs."""
    if graph.ops is None or graph.summed_ns < (1 + _TOLD_SHARE) * graph.busy_ns:
        return []
    return [
        f"Kernels of the {_name(graph)} graph overlap: they add up to {_ms(graph.summed_ns)}, "
        f"but keep the GPU busy for {_ms(graph.busy_ns)} of the "
        f"{_ms(graph.span_p50_ns)} from its first to its last."
    ]


def _launch(graph: GraphReport, bucket: BucketReport) -> list[str]:
    """That the GPU waits for the launch, where that takes a part of the cycle."""
    waited_ns, call_ns = graph.waited_ns, graph.launch_ns
    if waited_ns is None or call_ns is None:
        return []
    if waited_ns < _TOLD_SHARE * bucket.period_ns.mean:
        return []
    return [
        f"The launch of the {_name(graph)} graph is exposed: the GPU waits {_ms(waited_ns)} "
        f"a cycle for it (a call of {_ms(call_ns)} on the host)."
    ]


def _name(graph: GraphReport) -> str:
    return ", ".join(graph.phases)


def _ms(ns: float) -> str:
    """In milliseconds like the table beside it, shorter times in their own unit."""
    return duration(ns) if ns < NS_PER_MS else f"{milliseconds(ns, decimals=2)} ms"
