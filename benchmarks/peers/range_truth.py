"""What each tool's own question has for a true answer on a simulated recording, by plain loops.

Tools answer different questions: the phase of a kernel, all ranges around its launch, only the
innermost, the span on the GPU. Each is judged by its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.simulation import Recording
    from traceanalyzer.simulation.recording import ApiCall, Op, Range, Thread

Totals = dict[str, float]
"""Nanoseconds by name."""

PHASES: Final = "kernel time by phase"
INCLUSIVE: Final = "kernel time in ranges, inclusive"
INNERMOST: Final = "kernel time by innermost range"
PROJECTED: Final = "span on the GPU by range"
ANNOTATED: Final = "kernel time, and that by innermost range"
BUSY: Final = "busy time"
NO_PHASE: Final = "no phase"
EVERYTHING: Final = "everything"

JUDGED: Final = ("draft", "verify", "sample", "draft_extend", EVERYTHING)
"""Names by which a tool is judged, where the truth has them."""

_OUTSIDE: Final = frozenset({"other", "unattributed"})


def truths(recording: Recording) -> dict[str, Totals]:
    """The true answer to each question, in nanoseconds."""
    ops = [op for op in recording.ops if op.kind in ("kernel", "graph")]
    total: Totals = {EVERYTHING: sum(op.end_ns - op.start_ns for op in ops)}
    ranges = _by_range(recording, ops)
    return {
        PHASES: {**_by_phase(ops), **total},
        **ranges,
        ANNOTATED: {**ranges[INNERMOST], **total},
        BUSY: {EVERYTHING: _busy_ns(recording.ops)},
    }


def phase_name(phase: str) -> str:
    """The name under which a phase is compared: the two of no phase are one."""
    return NO_PHASE if phase in _OUTSIDE else phase


def _by_phase(ops: Iterable[Op]) -> Totals:
    totals: Totals = defaultdict(float)
    for op in ops:
        totals[phase_name(op.phase)] += op.end_ns - op.start_ns
    return dict(totals)


def _by_range(recording: Recording, ops: Iterable[Op]) -> dict[str, Totals]:
    """Ranges nest on a thread, so that of those around a call the last to start is innermost."""
    ops_of: dict[tuple[int, int], list[Op]] = defaultdict(list)
    for op in ops:
        ops_of[op.process.process_id, op.correlation_id].append(op)
    calls_of: dict[Thread, list[ApiCall]] = defaultdict(list)
    for call in sorted(recording.calls, key=lambda call: call.start_ns):
        calls_of[call.thread].append(call)
    inclusive: Totals = defaultdict(float)
    projected: Totals = defaultdict(float)
    innermost_of: dict[int, Range] = {}
    last_ns = recording.end_ns
    ranges = [row for row in recording.ranges if row.style == "push_pop"]
    for row in sorted(ranges, key=lambda row: (row.start_ns, -(row.end_ns or last_ns))):
        inside = _calls_in(row, calls_of[row.thread], last_ns)
        work = [op for call in inside for op in _ops_of(call, ops_of)]
        innermost_of.update((id(call), row) for call in inside)
        inclusive[row.name] += sum(op.end_ns - op.start_ns for op in work)
        if work:
            projected[row.name] += max(op.end_ns for op in work) - min(op.start_ns for op in work)
    innermost: Totals = defaultdict(float)
    for calls in calls_of.values():
        for call in calls:
            if (owner := innermost_of.get(id(call))) is not None:
                innermost[owner.name] += sum(
                    op.end_ns - op.start_ns for op in _ops_of(call, ops_of)
                )
    return {INCLUSIVE: dict(inclusive), INNERMOST: dict(innermost), PROJECTED: dict(projected)}


def _ops_of(call: ApiCall, ops_of: dict[tuple[int, int], list[Op]]) -> list[Op]:
    return ops_of.get((call.thread.process.process_id, call.correlation_id), [])


def _calls_in(row: Range, calls: list[ApiCall], last_ns: int) -> list[ApiCall]:
    end_ns = last_ns if row.end_ns is None else row.end_ns
    first = bisect_left(calls, row.start_ns, key=lambda call: call.start_ns)
    after = bisect_left(calls, end_ns + 1, key=lambda call: call.start_ns)
    return [call for call in calls[first:after] if call.end_ns <= end_ns]


def _busy_ns(ops: Iterable[Op]) -> float:
    busy = 0
    reached: dict[int, int] = defaultdict(int)
    for op in sorted(ops, key=lambda op: op.start_ns):
        device = op.process.process_id
        busy += max(0, op.end_ns - max(op.start_ns, reached[device]))
        reached[device] = max(reached[device], op.end_ns)
    return busy
