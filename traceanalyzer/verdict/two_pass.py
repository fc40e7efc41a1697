"""Two passes, one truth: totals from whole-graph rows, shares from a recording of the nodes.

Recording nodes slows graphs, so its shares lean towards phases and classes of many kernels. What it
costs is fitted over the phases that were recorded in both ways, and taken out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import InputError
from traceanalyzer.verdict.matching import SAME_SHAPE, matched
from traceanalyzer.verdict.node_graphs import graphs_in_both
from traceanalyzer.verdict.node_phases import Twice, corrected, replayed_ops
from traceanalyzer.verdict.node_trust import with_trust
from traceanalyzer.verdict.obstacles import Pair, obstacles
from traceanalyzer.verdict.traced_speed import TRACING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.report import BucketPhase, BucketReport, PhaseParts, Report

_NOT_ABOUT_TIMES: Final = ("graphs", "acceptance", "baseline")
_CARRIED: Final = "layers"
_VERDICT_CHECKS: Final = ("acceptance", "baseline", TRACING)


def with_shares(totals: Report, shares: Report) -> Report:
    """The report of a whole-graph pass with the kernel classes of a node pass.

    Args:
        totals: Of the first; all its totals stay.
        shares: Of the second: the same server under the same load.

    Returns:
        The first without a verdict, which rests on classes: judge it anew. Its `classes` of phases
        with whole-graph rows are those of the second with the cost of recording taken out; they
        and idle time add up to the first's window (`class_window_ns`). Draft steps and layers are
        the second's too, scaled alike.

    Raises:
        InputError: The two are not such passes, or not of the same server.
    """
    _check_passes(totals, shares)
    pairs = matched(totals.buckets, shares.buckets)
    partners = {each.a: each.b for each in pairs if each.relation == SAME_SHAPE}
    twice, missing = _in_both(totals, shares, partners)
    if not twice:
        raise InputError(
            "no cycles of both passes have the same shape",
            where="--totals and --shares",
            next_step="Record both at the same batch and with the same drafts.",
        )
    found = corrected(unjudged(totals), twice, shares.capture.files[0].path)
    return _told(_with_carried(found, shares), shares, missing)


def with_own_shares(report: Report) -> Report:
    """A capture in which some cycles hold whole-graph rows and others nodes, corrected alike.

    Returns:
        The report; its phases unchanged when none was recorded in both ways.
    """
    own = range(len(report.buckets))
    twice, _ = _in_both(report, report, dict(zip(own, own, strict=True)))
    if not twice:
        return with_trust(report)
    return _told(corrected(report, twice, None), report, [])


def _with_carried(report: Report, shares: Report) -> Report:
    """With what the second pass's draft steps and layers rest on where ranges do not tell them."""
    told = [check for check in shares.trust if check.check == _CARRIED]
    own = [check for check in report.trust if report.carried or check.check != _CARRIED]
    return replace(report, carried=[*report.carried, *shares.carried], trust=[*own, *told])


def _told(report: Report, shares: Report, missing: Sequence[str]) -> Report:
    """With the graphs of both, and the row that says what it all rests on."""
    found = report.node_recording
    assert found is not None, "phases were recorded in both ways"
    graphs = graphs_in_both(report.graphs, shares.graphs)
    found = replace(found, graphs=graphs, not_matched=list(missing))
    return with_trust(replace(report, node_recording=found))


def unjudged(report: Report) -> Report:
    """A report without its verdict and the checks that judging it added."""
    trust = [check for check in report.trust if check.check not in _VERDICT_CHECKS]
    return replace(report, verdict=None, trust=trust)


def _in_both(
    totals: Report, shares: Report, partners: Mapping[int, int]
) -> tuple[list[Twice], list[str]]:
    """Phases with whole-graph rows whose nodes their partners hold, and names of the others.

    `partners` are places of buckets of the second, by those of the first.
    """
    twice, missing = [], []
    for place, bucket in enumerate(totals.buckets):
        partner = partners.get(place)
        for phase in bucket.phases:
            if phase.whole_window_ns is None or phase.whole_window_ns.value <= 0:
                continue
            nodes = _nodes_of(phase.phase, None if partner is None else shares.buckets[partner])
            if nodes is None:
                missing.append(f"{phase.phase} of {_named(bucket)}")
            else:
                parts = _parts_of(shares, partner, phase.phase)
                twice.append(Twice(place, phase.whole_window_ns, nodes, parts))
    return twice, missing


def _parts_of(shares: Report, bucket: int | None, phase: str) -> tuple[PhaseParts, ...]:
    """Draft steps and layers of a phase; a part that never ran, as edited reports hold, is none."""
    return tuple(
        each
        for each in shares.parts
        if (each.bucket, each.phase) == (bucket, phase)
        and each.parts
        and all(part.cycles > 0 for part in each.parts)
    )


def _check_passes(totals: Report, shares: Report) -> None:
    whole = any(phase.whole_cycles for bucket in totals.buckets for phase in bucket.phases)
    nodes = any(replayed_ops(phase) for bucket in shares.buckets for phase in bucket.phases)
    if not whole:
        raise InputError(
            "no cycle of this capture holds whole-graph rows",
            where="--totals",
            next_step="Record it with: nsys profile --cuda-graph-trace=graph, of Nsight Systems "
            "2024.3 or newer (older ones export no such rows). An eager server needs one pass.",
        )
    if not nodes:
        raise InputError(
            "no cycle of this capture holds the nodes of a graph",
            where="--shares",
            next_step="Record it with: nsys profile --cuda-graph-trace=node.",
        )
    if shares.node_recording is not None:
        raise InputError(
            "this capture holds whole-graph rows and nodes: it is both passes in one",
            where="--shares",
            next_step="Report it alone: traceanalyzer report TRACE.",
        )
    against = [
        each
        for each in obstacles(Pair(totals, shares, ("--totals", "--shares")))
        if each.blocks and each.obstacle not in _NOT_ABOUT_TIMES
    ]
    if against:
        raise InputError(
            f"these are not two passes of one server: {against[0].text}",
            where="--totals and --shares",
            next_step=against[0].next_step,
        )


def _nodes_of(phase: str, bucket: BucketReport | None) -> BucketPhase | None:
    phases = bucket.phases if bucket else []
    return next(
        (
            each
            for each in phases
            if each.phase == phase
            and replayed_ops(each)
            and each.class_window_ns > 0
            and each.class_cycles > 0
        ),
        None,
    )


def _named(bucket: BucketReport) -> str:
    batch = bucket.shape.batch
    return f"{bucket.shape.kind} cycles" + ("" if batch is None else f" at batch {batch}")
