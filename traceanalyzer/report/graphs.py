"""CUDA graphs by identity, and the parts of phases that ranges inside of them tell."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.report.buckets import Estimated
from traceanalyzer.report.ranks import Spread


@dataclass(frozen=True, slots=True)
class GraphReport:
    """One CUDA graph, over all ranks and the whole trace.

    Attributes:
        phases: Phases of its ops, in canonical order; several where ranges tell its parts.
        batches: Batch sizes of the cycles that it was launched for; empty when unknown.
        ranks: Ranks that replay it.
        launches: Replays, those of all ranks counted.
        ops: Kernels, copies and sets of a replay; None where it is recorded as one row.
        period_ns: From the start of a replay to that of the next on one rank, median.
        span_p50_ns: From a replay's first op to the end of its last on the GPU, median.
        span_p99_ns: The same, 99 of 100.
        busy_ns: Time in which any op of a replay runs, median; of one row it is the span.
        summed_ns: The sum of its ops' times, median; above `busy_ns` where they overlap.
        launch_ns: The launch call on the host, median; None without launch rows.
        waited_share: Of the time in its launch calls, the part in which the GPU was idle until
            the replay began.
        waited_ns: The same of a replay, mean.
        blocks: Blocks that recur in its kernels, such as layers; None where none do.
        inside: "capture-time range" where ranges tell what its nodes were captured in, "order of
            kernels" where draft steps or layers are carried over from forwards in which they do,
            "phase at replay only" where nothing tells, "whole-graph row" where its ops are not
            recorded.
    """

    phases: list[str]
    batches: list[int]
    ranks: list[int]
    launches: int
    ops: int | None
    period_ns: int | None
    span_p50_ns: int
    span_p99_ns: int
    launch_ns: int | None
    waited_share: float | None
    blocks: int | None
    inside: str
    busy_ns: int = 0
    summed_ns: int = 0
    waited_ns: float | None = None


@dataclass(frozen=True, slots=True)
class PartTime:
    """One draft step or layer.

    Attributes:
        number: Which; draft steps count from 0, layers as their ranges do.
        cycles: Kept cycles in which it ran.
        busy_ns_per_cycle: GPU time in those cycles.
        share: Of the time of all parts of the phase.
        nodes_per_cycle: Graph nodes of it that one of those cycles replays.
        half_width_ns: Of the mean time; None where one cycle tells no spread.
        corrected_ns: The mean time where it was recorded node by node and the phase's window with
            whole-graph rows: scaled to that window, what recording nodes cost taken out; all other
            times of the part are scaled alike. None elsewhere.
    """

    number: int
    cycles: int
    busy_ns_per_cycle: Spread
    share: float
    nodes_per_cycle: float = 0.0
    half_width_ns: float | None = None
    corrected_ns: Estimated | None = None


@dataclass(frozen=True, slots=True)
class PhaseParts:
    """The draft steps or layers of one phase in the cycles of one bucket.

    Attributes:
        bucket: Place of the bucket in `Report.buckets`.
        phase: The phase.
        part: "draft step" or "layer".
        parts: In order of their numbers.
        mean_ns: Mean time of a part in a cycle.
        longest: Number of the part that takes longest.
        corrected_mean_ns: The mean time with its interval, see `PartTime.corrected_ns`.
        carried_score: Where parts are carried over by the order of kernels: the lowest share of a
            forward's kernels that matched. None where ranges tell all of them.
    """

    bucket: int
    phase: str
    part: str
    parts: list[PartTime]
    mean_ns: float
    longest: int
    corrected_mean_ns: Estimated | None = None
    carried_score: float | None = None


@dataclass(frozen=True, slots=True)
class CarriedPlaces:
    """Draft steps and layers of one phase's replays, carried over by the order of their kernels.

    Attributes:
        phase: The phase.
        source: File of the capture whose ranges tell them; None for this one's own forwards.
        forwards: Replayed forwards that have them by it.
        refused: Replayed forwards that do not match.
        lowest_score: Share of kernels that match in order, the lowest of the first; None when
            there are none.
        refused_score: The same, the highest of the second; None when there are none, and when the
            source tells nothing of the phase on their ranks.
        other_number: Whether that would do, but layers or steps are more or fewer there.
    """

    phase: str
    source: str | None
    forwards: int
    refused: int
    lowest_score: float | None = None
    refused_score: float | None = None
    other_number: bool = False
