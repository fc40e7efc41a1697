"""Draft steps and layers of phases recorded in both ways: their times undisturbed by recording.

A part is treated as a kernel class is: its share of the undisturbed window, of the window that
whole-graph rows show. It gets no more certain than where the cost lies, in kernels or gaps.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.report import Estimated, Spread
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.verdict.estimates import estimated, plain
from traceanalyzer.verdict.node_overhead import ClassWork, undisturbed_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import PartTime, PhaseParts
    from traceanalyzer.verdict.node_overhead import Overhead, RecordedPhase
    from traceanalyzer.verdict.node_phases import Twice


def corrected_parts(found: Twice, recorded: RecordedPhase, overhead: Overhead) -> list[PhaseParts]:
    """The parts of a phase, scaled to its window with whole-graph rows.

    Args:
        found: The phase, with the parts that were recorded node by node.
        recorded: Its work as recorded, with its doubts.
        overhead: What recording nodes costs.

    Returns:
        Its draft steps and its layers; none where the overhead is as long as the window.
    """
    tables = []
    for phases in found.parts:
        each = _means(found, [[part] for part in phases.parts], recorded, overhead)
        of_all = _means(found, [phases.parts], recorded, overhead)
        if each and of_all:
            tables.append(_scaled(found.bucket, phases, each, of_all[0]))
    return tables


def _means(
    found: Twice,
    groups: Sequence[Sequence[PartTime]],
    recorded: RecordedPhase,
    overhead: Overhead,
) -> list[Estimated] | None:
    """Mean time of a part of each group in a cycle in which it runs, ns."""
    runs = [sum(part.cycles for part in group) / found.nodes.class_cycles for group in groups]
    works = [_work(group, found.nodes.class_cycles) for group in groups]
    shares = undisturbed_shares(replace(recorded, classes=_with_rest(works, recorded)), overhead)
    if shares is None:
        return None
    whole = plain(found.whole_ns)
    known = found.whole_ns.low is not None and found.node_ns.low is not None
    means = [
        estimated(_product(share, whole), 1 / times)
        for share, times in zip(shares, runs, strict=False)
    ]
    return means if known else [Estimated(mean.value) for mean in means]


def _work(parts: Sequence[PartTime], cycles: int) -> ClassWork:
    """Several parts as one class of a cycle of the phase; their doubts may go together."""
    weights = [part.cycles / cycles for part in parts]
    pairs = list(zip(parts, weights, strict=True))
    return ClassWork(
        math.fsum(part.busy_ns_per_cycle.mean * weight for part, weight in pairs),
        math.fsum((part.half_width_ns or 0.0) * weight for part, weight in pairs),
        math.fsum(part.nodes_per_cycle * weight for part, weight in pairs),
    )


def _with_rest(works: Sequence[ClassWork], recorded: RecordedPhase) -> list[ClassWork]:
    """The works, time in which streams overlap, and all other kernels of the phase."""
    left_ns = math.fsum(each.ns for each in recorded.classes) - math.fsum(w.ns for w in works)
    overlap_ns = max(0.0, min(recorded.overlap_ns, left_ns))
    rest = ClassWork(
        max(0.0, left_ns - overlap_ns),
        math.hypot(*(each.half_ns for each in recorded.classes)),
        max(0.0, recorded.nodes - math.fsum(each.nodes for each in works)),
    )
    return [*works, rest, ClassWork(overlap_ns, 0.0, 0.0, overlaps=True)]


def _product(share: Estimate, window: Estimate) -> Estimate:
    value = share.value * window.value
    below = (share.value - share.low) * window.value, (window.value - window.low) * share.value
    above = (share.high - share.value) * window.value, (window.high - window.value) * share.value
    return Estimate(value, max(0.0, value - math.hypot(*below)), value + math.hypot(*above))


def _scaled(
    bucket: int, phases: PhaseParts, means: Sequence[Estimated], of_all: Estimated
) -> PhaseParts:
    """The table with other mean times; spreads keep their form."""
    whole_ns = math.fsum(
        mean.value * part.cycles for mean, part in zip(means, phases.parts, strict=True)
    )
    parts = [
        replace(
            part,
            busy_ns_per_cycle=_spread(part.busy_ns_per_cycle, mean.value),
            share=mean.value * part.cycles / whole_ns if whole_ns else 0.0,
            half_width_ns=None if mean.high is None else mean.high - mean.value,
            corrected_ns=mean,
        )
        for part, mean in zip(phases.parts, means, strict=True)
    ]
    return replace(
        phases,
        bucket=bucket,
        parts=parts,
        mean_ns=of_all.value,
        longest=max(parts, key=lambda part: part.busy_ns_per_cycle.mean).number,
        corrected_mean_ns=of_all,
    )


def _spread(found: Spread, mean_ns: float) -> Spread:
    factor = mean_ns / found.mean if found.mean else 0.0
    quantiles = (found.p50, found.p5, found.p95, found.p99)
    return Spread(mean_ns, *(round(each * factor) for each in quantiles))
