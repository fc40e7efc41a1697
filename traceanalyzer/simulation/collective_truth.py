"""The truth about collectives: what each rank waited and what was transferred, by phase.

Written as plain loops on purpose: it shares no code with the analyses it judges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceanalyzer.simulation.recording import Op, Recording
    from traceanalyzer.simulation.truth import Truth
    from traceanalyzer.simulation.truth_tables import RankTruth


@dataclass(slots=True)
class CollectiveTruth:
    """Collectives of one phase on one rank, in its kept cycles.

    Attributes:
        collectives: How many.
        wait_ns: Time in them before the last rank came.
        transfer_ns: Time in them after that.
        late: How often this rank was the last, by more than nothing.
    """

    collectives: int = 0
    wait_ns: int = 0
    transfer_ns: int = 0
    late: int = 0


def collective_truths(recording: Recording, truth: Truth) -> dict[tuple[int, str], CollectiveTruth]:
    """By process id and phase; whole-graph rows, which hide their collectives, are left out."""
    ends: dict[int, list[Op]] = defaultdict(list)
    for op in recording.ops:
        if op.wait_ns is not None and op.kind == "kernel":
            ends[op.end_ns].append(op)
    ranks = {rank.process_id: rank for rank in truth.ranks}
    found: dict[tuple[int, str], CollectiveTruth] = defaultdict(CollectiveTruth)
    for ops in ends.values():
        waited = Counter(op.wait_ns for op in ops)
        for op in ops:
            if not _kept(ranks[op.process.process_id], op.start_ns):
                continue
            row = found[op.process.process_id, op.phase]
            assert op.wait_ns is not None
            row.collectives += 1
            row.wait_ns += op.wait_ns
            row.transfer_ns += op.end_ns - op.start_ns - op.wait_ns
            row.late += op.wait_ns == 0 and len(waited) > 1
    return dict(found)


def _kept(rank: RankTruth, start_ns: int) -> bool:
    place = bisect_right(rank.cycles, start_ns, key=lambda cycle: cycle.start_ns) - 1
    return place >= 0 and rank.cycles[place].status == "kept"
