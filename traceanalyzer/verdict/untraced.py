"""Cycles of the server that nobody records: what was measured, and what recording may have added.

Two captures that were recorded alike are better compared by what was measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.report import Estimated
from traceanalyzer.verdict.estimates import product_of

if TYPE_CHECKING:
    from traceanalyzer.report import BucketReport
    from traceanalyzer.verdict.baseline import Step

ASSUMED_NODE_US: Final = (0.5, 3.0)
"""What recording may cost a node, microseconds: assumed, until two passes tell. Nsight Systems'
guide gives no figure, only that it may cause significant overhead."""


def nodes_alone(bucket: BucketReport) -> float:
    """Graph nodes a cycle that were recorded one by one, 0 where whole graphs tell the times."""
    if any(phase.whole_cycles for phase in bucket.phases):
        return 0.0
    return sum(each.replayed_ops_per_cycle for phase in bucket.phases for each in phase.classes)


def served_period(bucket: BucketReport) -> Estimated:
    """The mean cycle, with an interval that reaches down by all that recording may have added."""
    return _lower(host_period(bucket), _most_of_nodes_ns(bucket))


def host_period(bucket: BucketReport) -> Estimated:
    """The same, allowing for the recorder's work on the host alone."""
    return _lower(bucket.mean_period_ns, bucket.recorder_ns_per_cycle)


def periods_of_step(bucket: BucketReport, step: Step) -> Estimated:
    """The mean cycle over a plain step, which is the accept length of break-even.

    Where nodes were recorded, one cost a node holds for both: much of it cancels.
    """
    plain = host_period(step.bucket) if step.bucket else step.period_ns
    found = product_of(((host_period(bucket), 1.0), (plain, -1.0)))
    if found.low is None or found.high is None:
        return found
    plain_ns = plain.value - (_most_of_nodes_ns(step.bucket) if step.bucket else 0.0)
    least_ns = bucket.mean_period_ns.value - _most_of_nodes_ns(bucket)
    if plain_ns <= 0 or least_ns <= 0:
        return Estimated(found.value)
    shift = least_ns / plain_ns / found.value
    return replace(found, low=found.low * min(shift, 1.0), high=found.high * max(shift, 1.0))


def _most_of_nodes_ns(bucket: BucketReport) -> float:
    return ASSUMED_NODE_US[1] * 1e3 * nodes_alone(bucket)


def _lower(found: Estimated, by_ns: float) -> Estimated:
    if found.low is None:
        return found
    return replace(found, low=max(found.low - by_ns, 0.0))
