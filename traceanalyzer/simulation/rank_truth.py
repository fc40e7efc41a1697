"""The truth about one rank: its phases over the whole trace, and its cycles one by one.

Written as plain loops on purpose: it shares no code with the analyses it judges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from traceanalyzer.simulation.recording import OTHER, TARGET_FORWARDS, UNATTRIBUTED
from traceanalyzer.simulation.truth_tables import CycleTruth, OpTruth, PhaseTruth, RankTruth

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.simulation.recording import Iteration, Op, Process
    from traceanalyzer.simulation.truth_tables import Status

_PREFILL_PHASES = ("prefill", "draft_prefill")


def rank_truth(process: Process, ops: list[Op], iterations: Sequence[Iteration]) -> RankTruth:
    """Sum up one process on its device."""
    borders = _borders(ops)
    cycles = tuple(_cycles(ops, borders, {row.number: row for row in iterations}))
    last_work_ns = max(
        (op.end_ns for op in ops if op.phase not in (OTHER, UNATTRIBUTED)), default=0
    )
    return RankTruth(
        process.process_id,
        process.device_id,
        _phases(ops),
        cycles,
        tuple(_op_truth(op, cycles, last_work_ns) for op in ops),
    )


def _phases(ops: Iterable[Op]) -> dict[str, PhaseTruth]:
    phases: dict[str, PhaseTruth] = defaultdict(PhaseTruth)
    launches: dict[str, set[int]] = defaultdict(set)
    graph_launches: dict[str, set[int]] = defaultdict(set)
    for op in ops:
        _count(phases[op.phase], op)
        if op.method != "no launch row":
            launches[op.phase].add(op.correlation_id)
        if op.graph_id is not None:
            graph_launches[op.phase].add(op.correlation_id)
    for name, phase in phases.items():
        phase.launches = len(launches[name])
        phase.graph_launches = len(graph_launches[name])
    return dict(sorted(phases.items()))


def _count(phase: PhaseTruth, op: Op) -> None:
    duration_ns = op.end_ns - op.start_ns
    phase.ops += 1
    phase.wait_ns += op.wait_ns or 0
    match op.kind:
        case "kernel":
            phase.kernels += 1
            phase.kernel_ns += duration_ns
        case "graph":
            phase.graph_rows += 1
            phase.graph_row_ns += duration_ns
        case "memcpy":
            phase.memcpys += 1
            phase.memcpy_ns += duration_ns
        case "memset":
            phase.memsets += 1
            phase.memset_ns += duration_ns


def _borders(ops: Iterable[Op]) -> list[tuple[int, int]]:
    """First kernel or graph row of each target forward: (start, iteration), by time."""
    first: dict[int, int] = {}
    for op in ops:
        if _opens_cycle(op.phase) and op.kind in ("kernel", "graph"):
            assert op.iteration is not None
            first[op.iteration] = min(op.start_ns, first.get(op.iteration, op.start_ns))
    return sorted((start_ns, number) for number, start_ns in first.items())


def _opens_cycle(phase: str) -> bool:
    members = phase.removeprefix("fused(").removesuffix(")").split(", ")
    return any(member in TARGET_FORWARDS for member in members)


def _cycles(
    ops: Sequence[Op], borders: Sequence[tuple[int, int]], iterations: dict[int, Iteration]
) -> Iterable[CycleTruth]:
    starts = [start_ns for start_ns, _number in borders]
    by_cycle = _ops_by_cycle(ops, starts)
    for place, (start_ns, number) in enumerate(borders):
        end_ns = starts[place + 1] if place + 1 < len(starts) else None
        windows, overlap_ns = (
            ({}, 0) if end_ns is None else _windows(by_cycle[place], start_ns, end_ns)
        )
        row = iterations[number]
        yield CycleTruth(
            number,
            row.kind,
            _status(row, by_cycle[place], start_ns, end_ns),
            start_ns,
            end_ns,
            windows,
            overlap_ns,
            row.batch_size,
            row.draft_tokens,
            row.verified_tokens,
            row.accepted_drafts,
        )


def _ops_by_cycle(ops: Sequence[Op], starts: Sequence[int]) -> list[list[Op]]:
    """Ops that run in each cycle, by start, and the ops at its very end that close its last gap."""
    by_cycle: list[list[Op]] = [[] for _start in starts]
    for op in sorted(ops, key=lambda op: op.start_ns):
        place = bisect_right(starts, op.start_ns) - 1
        if place > 0 and starts[place] == op.start_ns:
            by_cycle[place - 1].append(op)
        if place >= 0:
            by_cycle[place].append(op)
        for later in range(place + 1, bisect_left(starts, op.end_ns)):
            by_cycle[later].append(op)
    return by_cycle


def _status(row: Iteration, inside: Iterable[Op], start_ns: int, end_ns: int | None) -> Status:
    if row.warm_up:
        return "warm_up"
    if row.dummy:
        return "dummy"
    if end_ns is None:
        return "edge"
    interrupted = any(
        op.phase in _PREFILL_PHASES and start_ns <= op.start_ns < end_ns for op in inside
    )
    return "interrupted" if interrupted else "kept"


def _windows(ops: Sequence[Op], start_ns: int, end_ns: int) -> tuple[dict[str, int], int]:
    """Split a span at every op border and give each piece to the phase that owns it."""
    windows: dict[str, int] = defaultdict(int)
    overlap_ns = 0
    changes: dict[int, list[tuple[str, int]]] = {start_ns: [], end_ns: []}
    opening: dict[int, str] = {}
    for op in ops:
        opening.setdefault(op.start_ns, op.phase)
        for time_ns, change in ((op.start_ns, 1), (op.end_ns, -1)):
            inside = min(max(time_ns, start_ns), end_ns)
            changes.setdefault(inside, []).append((op.phase, change))
    running: Counter[str] = Counter()
    borders = sorted(changes)
    for left, right in pairwise(borders):
        for phase, change in changes[left]:
            running[phase] += change
        active = [phase for phase, count in running.items() if count]
        if len(active) > 1:
            overlap_ns += right - left
        else:
            windows[active[0] if active else opening[right]] += right - left
    return dict(sorted(windows.items())), overlap_ns


def _op_truth(op: Op, cycles: Sequence[CycleTruth], last_work_ns: int) -> OpTruth:
    place = bisect_right(cycles, op.start_ns, key=lambda cycle: cycle.start_ns) - 1
    inside = place >= 0 and op.start_ns < last_work_ns
    return OpTruth(
        op.kind,
        op.start_ns,
        op.end_ns,
        op.stream_id,
        op.correlation_id,
        op.phase,
        op.method,
        cycles[place].number if inside else None,
        op.iteration,
        op.step,
        op.wait_ns,
    )
