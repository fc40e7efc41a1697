"""Phases of a trace in which no range means one: inferred from what its GPU work repeats, or not.

What is inferred is never mixed with what ranges say, is marked so wherever it shows, and rests on
evidence that is told. Where the evidence leaves a doubt there is no answer, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers, Intervals
from traceanalyzer.phases.inferred.sizes import Unclear, sizes_of
from traceanalyzer.phases.rules import FLAGS, PHASES, phase_order, phase_text
from traceanalyzer.phases.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.phases.inferred.placing import InferredRanges
    from traceanalyzer.phases.inferred.sequence import LaunchedOps
    from traceanalyzer.phases.ranks import Ranks
    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]

DOMAIN: Final = "traceanalyzer"
"""Domain of the ranges that stand for inferred phases; their names begin with "inferred"."""

_LEAST_SHARE: Final = 0.9
_TRAINING_SHARE: Final = 0.001
_IDLE_SHARE: Final = 0.01
_MOST_STRAY: Final = 0.02


@dataclass(frozen=True, slots=True)
class Inference:
    """What phases could be inferred, and from what.

    Attributes:
        ranges: Stretches of launches with their phases, None when the inference declined.
        score: The weakest of: share of GPU time that was given a phase, share of neighbouring
            cycles that run the same forwards; 0 when declined.
        evidence: Sentences that tell what the phases rest on; of the first rank.
        reasons: Why it declined; empty when it did not.
        lanes: What each lane that was looked at shows.
    """

    ranges: InferredRanges | None
    score: float
    evidence: tuple[str, ...]
    reasons: tuple[str, ...]
    lanes: tuple[LaneInference, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneInference:
    """What one lane shows.

    Attributes:
        lane: The lane.
        lane_ns: Length of all of its ops.
        thread: Row in `trace.threads` of the thread that launches them.
        reason: Why its phases cannot be told; None when they can, and only then the rest counts.
        score: See `Inference`; of this lane.
        kind: Phase bits of its recurring target forward.
        draft_tokens: Forwards of the draft model a cycle; 0 where none shows.
        evidence: Sentences that tell what its phases rest on.
    """

    lane: int
    lane_ns: int
    thread: int
    reason: str | None
    score: float = 0.0
    kind: int = 0
    draft_tokens: int = 0
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """What all lanes together show.

    Attributes:
        lanes: Those whose phases are inferred; none when a doubt is left.
        score: The lowest of theirs.
        evidence: That of the one with most work.
        reasons: The doubt; empty without.
    """

    lanes: tuple[int, ...]
    score: float
    evidence: tuple[str, ...]
    reasons: tuple[str, ...]


def infer_phases(
    trace: Trace, ranks: Ranks, launch: Int64s, lanes: Collection[int] | None = None
) -> Inference:
    """Infer the phases of a trace's launches.

    Args:
        trace: The tables; it has ops.
        ranks: Lane of each op.
        launch: Row in `trace.launches` of each op, -1 for none.
        lanes: Those whose phases are known to be inferred; None to look at all of them.
    """
    from traceanalyzer.phases.inferred.placing import InferredRanges

    found = _lanes(trace, ranks, launch, lanes)
    told = tuple(lane for lane, _ in found)
    agreed = agreement(told)
    if lanes is not None:
        agreed = replace(agreed, lanes=tuple(lanes), reasons=())
    parts = [ranges for lane, ranges in found if ranges is not None and lane.lane in agreed.lanes]
    if not parts:
        return Inference(None, 0.0, (), agreed.reasons, told)
    ranges = InferredRanges(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("thread", "start_ns", "end_ns", "phase")
        )
    )
    return Inference(ranges, agreed.score, agreed.evidence, (), told)


def agreement(lanes: Sequence[LaneInference]) -> Agreement:
    """Whether the lanes of a capture can be told together; those that idle do not count."""
    try:
        working = _working(lanes)
    except Unclear as reason:
        return Agreement((), 0.0, (), (str(reason),))
    return Agreement(
        tuple(lane.lane for lane in working),
        min(lane.score for lane in working),
        working[0].evidence,
        (),
    )


def _working(lanes: Sequence[LaneInference]) -> list[LaneInference]:
    order = sorted(lanes, key=lambda each: -each.lane_ns)
    working = [lane for lane in order if lane.lane_ns > _IDLE_SHARE * order[0].lane_ns]
    for lane in working:
        if lane.reason is not None:
            raise Unclear(lane.reason)
    if not working:
        raise Unclear("no GPU work has a launch row")
    if len({lane.thread for lane in working}) < len(working):
        raise Unclear("one thread drives several GPUs")
    kinds = {lane.kind for lane in working}
    shown = {lane.draft_tokens for lane in working} - {0}  # whole-graph rows show none
    if len(kinds) > 1 or len(shown) > 1:
        raise Unclear("the ranks do not show the same order of forwards")
    return working


def _lanes(
    trace: Trace, ranks: Ranks, launch: Int64s, wanted: Collection[int] | None
) -> list[tuple[LaneInference, InferredRanges | None]]:
    """The lanes up to the first that cannot be told, those with most work first."""
    from traceanalyzer.phases.inferred.sequence import launched_ops

    busiest = 0
    found: list[tuple[LaneInference, InferredRanges | None]] = []
    for ops in sorted(launched_ops(trace, ranks, launch), key=lambda each: -each.lane_ns):
        busiest = max(busiest, ops.lane_ns)
        if ops.lane not in wanted if wanted is not None else ops.lane_ns <= _IDLE_SHARE * busiest:
            continue
        try:
            found.append(_lane(trace, ops))
        except Unclear as reason:
            found.append((LaneInference(ops.lane, ops.lane_ns, ops.thread, str(reason)), None))
            break
    return found


def _lane(trace: Trace, ops: LaunchedOps) -> tuple[LaneInference, InferredRanges]:
    """Infer one lane.

    Raises:
        Unclear: It cannot be told.
    """
    # What infers is imported where it does, which is where no range means a phase.
    from traceanalyzer.phases.inferred.evidence import evidence_of
    from traceanalyzer.phases.inferred.forwards import find_forwards
    from traceanalyzer.phases.inferred.placing import ranges_of
    from traceanalyzer.phases.inferred.recurrence import roles_of
    from traceanalyzer.phases.inferred.signs import TRAINING

    training = ops.any_of(TRAINING)
    if training.size and training.mean() > _TRAINING_SHARE:
        raise Unclear("backward or optimizer kernels: this is training")
    forwards = find_forwards(ops)
    if forwards is None:
        raise Unclear("no attention kernel and no whole-graph row")
    if (stray := forwards.stray_ns / ops.lane_ns) > _MOST_STRAY:
        raise Unclear(f"{stray:.0%} of GPU time is a model's work without attention that is known")
    sizes = sizes_of(ops, forwards)
    if sizes.layers == 1:
        raise Unclear("the deepest forward has one layer")
    roles = roles_of(ops, forwards, sizes)
    ranges, share = ranges_of(ops, forwards, roles)
    if share < _LEAST_SHARE:
        raise Unclear(f"only {share:.0%} of GPU time is in forwards that could be named")
    told = evidence_of(trace, ops, forwards, sizes, roles)
    score = min(share, roles.regular_share)
    lane = LaneInference(
        *(ops.lane, ops.lane_ns, ops.thread, None),
        *(score, roles.kind, roles.draft_tokens, told),
    )
    return lane, ranges


def with_inferred_ranges(trace: Trace, spans: Spans, ranges: InferredRanges) -> tuple[Trace, Spans]:
    """The trace and the meaning of its ranges, with the inferred ones after the others.

    They carry the flag "inferred", and those of the ranges around them.
    """
    texts = {int(bits): _text(int(bits)) for bits in np.unique(ranges.phase)}
    phases = tuple(sorted(texts.values(), key=phase_order))
    code = {bits: phases.index(text) for bits, text in texts.items()}
    added = Intervals(ranges.thread, ranges.start_ns, ranges.end_ns)
    size = added.size
    flags = np.full(size, 1 << FLAGS.index("inferred"))
    for bit in range(len(FLAGS)):
        around = spans.rows((spans.flags >> bit) & 1 == 1)
        if around.size:
            inside = Containers(spans.intervals.take(around)).innermost(added) >= 0
            flags[inside] |= 1 << bit
    both = Spans(
        phases=phases,
        phase=np.append(spans.phase, [code[bits] for bits in ranges.phase.tolist()]),
        is_cycle=np.append(spans.is_cycle, np.zeros(size, bool)),
        flags=np.append(spans.flags, flags),
        batch=np.append(spans.batch, np.full(size, -1)),
        number=np.append(spans.number, np.full(size, -1)),
        intervals=_joined(spans.intervals, added),
        same_thread=np.append(spans.same_thread, np.ones(size, bool)),
    )
    return _with_rows(trace, ranges, texts), both


def _text(bits: int) -> str:
    return phase_text(tuple(phase for place, phase in enumerate(PHASES) if bits >> place & 1))


def _joined(first: Intervals, second: Intervals) -> Intervals:
    return Intervals(
        np.append(first.lane, second.lane),
        np.append(first.start_ns, second.start_ns),
        np.append(first.end_ns, second.end_ns),
    )


def _with_rows(trace: Trace, ranges: InferredRanges, texts: dict[int, str]) -> Trace:
    """The trace with a row for each inferred range, and the texts of their names."""
    known = trace.names.height
    words = [DOMAIN, *(f"inferred {text}" for text in texts.values())]
    names = pl.DataFrame(
        {"name": np.arange(known, known + len(words)), "text": words}, schema=trace.names.schema
    )
    place = {bits: known + 1 + row for row, bits in enumerate(texts)}
    rows = pl.DataFrame(
        {
            "start_ns": ranges.start_ns,
            "end_ns": ranges.end_ns,
            "thread": ranges.thread,
            "style": "annotation",
            "domain": known,
            "name": [place[bits] for bits in ranges.phase.tolist()],
            "closed": True,
        }
    )
    columns = trace.ranges.schema
    added = rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in columns.items()
    )
    return replace(
        trace, names=pl.concat([trace.names, names]), ranges=pl.concat([trace.ranges, added])
    )
