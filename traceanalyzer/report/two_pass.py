"""What recording CUDA graphs node by node cost, and the shares with that cost taken out."""

from __future__ import annotations

from dataclasses import dataclass, field

from traceanalyzer.report.buckets import Estimated


@dataclass(frozen=True, slots=True)
class ClassShare:
    """One kernel class of a phase, or "idle" for the time in which nothing runs.

    `share` is of the phase's window; its interval holds whatever part of the cost of recording
    lies in the kernels themselves, the rest lying in the gaps between them.
    """

    kernel_class: str
    share: Estimated


@dataclass(frozen=True, slots=True)
class NodePhase:
    """One phase of a bucket, recorded with whole-graph rows and node by node.

    Attributes:
        bucket: Place of the bucket in `Report.buckets`.
        phase: The phase.
        nodes_per_cycle: Graph nodes that a cycle runs.
        replays_per_cycle: Graph launches of a cycle.
        whole_window_ns: Mean window where replays are whole-graph rows.
        node_window_ns: Mean window where they are recorded node by node.
        disturbance_share: How much longer the second is, of the first.
        overhead_ns_per_node: All that it is longer, over the nodes.
        refused: Why the phase has no shares; None when it has.
        shares: By class, idle time last; they add up to 1.
    """

    bucket: int
    phase: str
    nodes_per_cycle: float
    replays_per_cycle: float
    whole_window_ns: Estimated
    node_window_ns: Estimated
    disturbance_share: Estimated
    overhead_ns_per_node: Estimated
    refused: str | None = None
    shares: list[ClassShare] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """One CUDA graph recorded in both ways: the only one of its phases and batches in each.

    Attributes:
        phases: Phases of its ops.
        batches: Batch sizes of the cycles it was launched for.
        nodes: Ops of a replay.
        whole_span_ns: A replay as one row, median.
        node_span_ns: From its first node to the end of its last, median.
    """

    phases: list[str]
    batches: list[int]
    nodes: int
    whole_span_ns: int
    node_span_ns: int


@dataclass(frozen=True, slots=True)
class NodeRecording:
    """Totals from whole-graph rows, shares from nodes.

    Attributes:
        shares_from: The capture that recorded nodes; None where one capture holds both.
        per_node_ns: What recording costs a node: b of a + b x nodes, over all phases.
        per_replay_ns: What it costs a replay beside its nodes: a.
        phases: Each bucket and phase that was recorded in both ways.
        graphs: Each graph that was.
        not_matched: Phases with whole-graph rows that no nodes were recorded of.
    """

    shares_from: str | None
    per_node_ns: Estimated
    per_replay_ns: Estimated
    phases: list[NodePhase]
    graphs: list[NodeGraph] = field(default_factory=list)
    not_matched: list[str] = field(default_factory=list)
