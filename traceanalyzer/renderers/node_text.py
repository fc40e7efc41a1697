"""What recording nodes cost, and the shares without it, as rows and lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, decimals_for, milliseconds

if TYPE_CHECKING:
    from traceanalyzer.report import Estimated, NodePhase, NodeRecording, Report

NODE_TITLES: Final = (
    "phase",
    "batch",
    "nodes",
    "whole ms",
    "with nodes ms",
    "longer by",
    "us a node",
)
_SMALL_SHARE: Final = 0.01


def node_rows(report: Report) -> list[list[str]]:
    """Each phase that was recorded in both ways, a cell for each of `NODE_TITLES`."""
    return [_row(report, phase) for phase in _phases(report)]


def node_lines(report: Report) -> list[str]:
    """What recording cost, the shares of each phase, and what has none and why."""
    found = report.node_recording
    if found is None:
        return []
    return [
        _cost(found),
        *(f"{_name(report, phase)}: {_shares(phase)}" for phase in found.phases),
        *(f"no shares of {name}: its nodes were not recorded" for name in found.not_matched),
    ]


def _phases(report: Report) -> list[NodePhase]:
    return report.node_recording.phases if report.node_recording else []


def _row(report: Report, phase: NodePhase) -> list[str]:
    whole, nodes = phase.whole_window_ns.value, phase.node_window_ns.value
    decimals = decimals_for(whole)
    return [
        phase.phase,
        _batch(report, phase),
        count(round(phase.nodes_per_cycle)),
        milliseconds(whole, decimals=decimals),
        milliseconds(nodes, decimals=decimals),
        _percent(phase.disturbance_share, sign="+"),
        _microseconds(phase.overhead_ns_per_node),
    ]


def _batch(report: Report, phase: NodePhase) -> str:
    batch = report.buckets[phase.bucket].shape.batch
    return "unknown" if batch is None else str(batch)


def _name(report: Report, phase: NodePhase) -> str:
    return f"{phase.phase} at batch {_batch(report, phase)}"


def _cost(found: NodeRecording) -> str:
    source = "its own cycles with nodes" if found.shares_from is None else found.shares_from
    return (
        f"times are those of whole-graph rows, shares come from {source}; recording nodes cost "
        f"{_microseconds(found.per_node_ns)} us a node and "
        f"{_microseconds(found.per_replay_ns)} us a replay, taken out of the shares below, whose "
        "intervals hold it in the kernels as well as between them"
    )


def _shares(phase: NodePhase) -> str:
    if phase.refused is not None:
        return f"refused: {phase.refused}"
    shown = [
        f"{each.kernel_class} {_percent(each.share)}"
        for each in sorted(phase.shares, key=lambda each: -each.share.value)
        if each.share.value >= _SMALL_SHARE
    ]
    return ", ".join(shown)


def _percent(found: Estimated, *, sign: str = "") -> str:
    text = f"{found.value:{sign}.1%}".replace("%", " %")
    if found.low is None or found.high is None:
        return text
    return f"{text} [{100 * found.low:{sign}.1f}, {100 * found.high:{sign}.1f}]"


def _microseconds(found: Estimated) -> str:
    text = f"{found.value / 1e3:.2f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{found.low / 1e3:.2f}, {found.high / 1e3:.2f}]"
