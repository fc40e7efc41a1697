"""What whole-graph rows hide, what recording nodes would add, and what it costs or has cost.

A capture of nodes alone cannot tell what they cost: its times are not those of the server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.report import Check
from traceanalyzer.verdict.growth import IDLE
from traceanalyzer.verdict.untraced import ASSUMED_NODE_US, nodes_alone

if TYPE_CHECKING:
    from traceanalyzer.report import NodeRecording, Report

_MOST_ASSUMED_SHARE: Final = 0.01
"""Of a cycle: above it what nodes may have cost is a warning, wider than most intervals."""

_GRAPHS: Final = "graphs"
_NODES: Final = "node recording"
_HOW_TO_ADD_NODES: Final = (
    "Record totals and nodes with: traceanalyzer capture --two-pass (or nsys profile "
    "--cuda-graph-trace=node in a second run, then report --totals --shares): it adds kernel "
    "classes, idle time inside replays, and draft steps."
)

_HOW_TO_ADD_TOTALS: Final = (
    "Take times from a second run that records graphs as wholes: traceanalyzer capture --two-pass "
    "(or report --totals --shares); shares of kernel classes lean towards many small kernels too."
)


def with_trust(report: Report) -> Report:
    """The report whose checks tell what recording nodes costs, or has cost: measured or assumed."""
    found = report.node_recording
    rows = [
        check
        if check.check != _GRAPHS
        else replace(check, text=_whole_graphs(report, check.text), next_step=_HOW_TO_ADD_NODES)
        for check in report.trust
        if found is None or check.check != _GRAPHS
    ]
    return replace(report, trust=[*rows, *([_measured(found)] if found else _assumed(report))])


def _assumed(report: Report) -> list[Check]:
    """What recording nodes may have added to the cycles with most time, where nothing tells."""
    if not report.buckets or report.buckets[0].mean_period_ns.value <= 0:
        return []
    bucket = report.buckets[0]
    nodes = nodes_alone(bucket)
    if not nodes:
        return []
    low, high = (us * nodes * 1e3 for us in ASSUMED_NODE_US)
    period_ns = bucket.mean_period_ns.value
    text = (
        f"{nodes:,.0f} graph nodes a cycle are recorded one by one, which slows them: untraced the "
        f"cycle may be {low / 1e6:.2g}-{high / 1e6:.2g} ms shorter ({low / period_ns:.0%}-"
        f"{high / period_ns:.0%}), if {ASSUMED_NODE_US[0]:g}-{ASSUMED_NODE_US[1]:g} us a node, as "
        "assumed"
    )
    if high <= _MOST_ASSUMED_SHARE * period_ns:
        return [Check(_NODES, "ok", text)]
    return [Check(_NODES, "warning", text, _HOW_TO_ADD_TOTALS)]


def _whole_graphs(report: Report, text: str) -> str:
    """How many launches a cycle that is, and what recording their nodes would cost."""
    if not report.buckets:
        return text
    phases = [each for each in report.buckets[0].phases if each.whole_cycles]
    launches = sum(each.graph_launches_per_cycle for each in phases)
    low, high = ASSUMED_NODE_US
    known = {tuple(each.phases): each.ops for each in report.graphs if each.ops is not None}
    nodes = sum(
        phase.graph_launches_per_cycle * (known.get((phase.phase,)) or 0) for phase in phases
    )
    cost = f"{low:g}-{high:g} ms in every 1,000 nodes"
    if nodes:
        period_us = report.buckets[0].mean_period_ns.value / 1e3
        cost = (
            f"{low * nodes / 1e3:.2g}-{high * nodes / 1e3:.2g} ms a cycle of {nodes:,.0f} known "
            f"nodes ({low * nodes / period_us:.0%}-{high * nodes / period_us:.0%})"
        )
    return (
        f"{text}; {launches:.3g} graph launches a cycle; recording their nodes would cost {cost}, "
        f"if {low:g}-{high:g} us a node, as assumed"
    )


def cost_of_nodes(found: NodeRecording) -> str:
    """What recording nodes cost, or at most, as a clause."""
    node, replay = found.per_node_ns, found.per_replay_ns
    if not _is_told(found):
        return (
            "recording nodes cost nothing that can be told, at most "
            f"{(node.high or 0) / 1e3:.2f} us a node and {(replay.high or 0) / 1e3:.1f} us a replay"
        )
    return (
        f"recording cost {node.value / 1e3:.2f} us a node and {replay.value / 1e3:.1f} us a "
        "replay, which is taken out"
    )


def _is_told(found: NodeRecording) -> bool:
    """Whether the cost is above 0 for sure; a number without an interval counts as sure."""
    parts = (found.per_node_ns, found.per_replay_ns)
    return any((each.value if each.low is None else each.low) > 0 for each in parts)


def _doubt(found: NodeRecording) -> str:
    """How far idle time may be off, which is most where nobody sees where the cost lies."""
    known = [
        ((idle.high - idle.low) / 2 * phase.whole_window_ns.value, phase.phase)
        for phase in found.phases
        for idle in [each.share for each in phase.shares if each.kernel_class == IDLE]
        if idle.high is not None and idle.low is not None
    ]
    if not known:
        return ""
    most_ns, phase = max(known)
    unseen = "whether it lies in kernels or in gaps cannot be seen: " if _is_told(found) else ""
    return f"; {unseen}{phase}'s idle time and kernels may be off by {most_ns / 1e6:.2f} ms"


def _measured(found: NodeRecording) -> Check:
    source = "cycles recorded node by node" if found.shares_from is None else found.shares_from
    worst = max(found.phases, key=lambda each: abs(each.disturbance_share.value))
    text = (
        f"kernel classes are from {source}, times from whole-graph rows; {cost_of_nodes(found)}; "
        f"most in {worst.phase}: {worst.disturbance_share.value:+.1%}{_doubt(found)}"
    )
    refused = [each.phase for each in found.phases if each.refused]
    if not refused and not found.not_matched:
        return Check(_NODES, "ok", text)
    told, steps = [], []
    if refused:
        told.append(f"no shares of {', '.join(dict.fromkeys(refused))}: disturbed too much")
        steps.append(
            "Windows hold even so; for the kernels in them record with hardware tracing (newer "
            "Nsight Systems, on GPUs that have it), or with graphs switched off."
        )
    if found.not_matched:
        told.append(f"no nodes of {', '.join(found.not_matched)}")
        steps.append("Record both passes at the same load, so that both hold the same cycles.")
    return Check(_NODES, "warning", f"{text}; {'; '.join(told)}", " ".join(steps))
