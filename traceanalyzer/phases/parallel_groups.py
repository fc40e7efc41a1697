"""Which ranks form a tensor-parallel group, and whether all of its ranks are in the trace.

The hooks' `ranks` marks tell; without them every rank of the trace counts as one group.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvtx_hooks.vocabulary import RANKS
from traceanalyzer.phases.marks import read_marks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.phases.ranks import Ranks
    from traceanalyzer.trace import Trace


@dataclass(frozen=True, slots=True)
class ParallelGroup:
    """Ranks that share each of their collectives.

    Attributes:
        lanes: Its lanes, ascending.
        tp_size: How many ranks it has, in the trace or not.
        told: Whether marks tell so; else `tp_size` is the number of devices in the trace.
        complete: Whether every rank is in the trace, once.
        dp_rank: Data-parallel rank, None when no mark tells.
        dp_size: Number of data-parallel ranks; 1 when no mark tells.
    """

    lanes: tuple[int, ...]
    tp_size: int
    told: bool
    complete: bool
    dp_rank: int | None = None
    dp_size: int = 1


def parallel_groups(trace: Trace, ranks: Ranks) -> list[ParallelGroup]:
    """The groups of a trace; every lane is in one.

    Where one process alone speaks for its group, the other lanes are taken to be the rest of it.
    """
    told = {
        row["process"]: row
        for row in reversed(list(read_marks(trace, RANKS).iter_rows(named=True)))
        if row["tp_size"]
    }
    by_lane = {
        lane: told[process]
        for lane, process in enumerate(ranks.process)
        if process in told and ranks.process.count(process) == 1
    }
    if by_lane and len(by_lane) == ranks.size:
        return _told_groups(by_lane)
    lanes = tuple(range(ranks.size))
    sizes = {row["tp_size"] for row in told.values()}
    if len(sizes) == 1 and all(_one_group(row) for row in told.values()):
        size = sizes.pop()
        return [ParallelGroup(lanes, size, told=True, complete=len(lanes) == size)]
    return [ParallelGroup(lanes, len(lanes), told=False, complete=True)]


def _one_group(row: Mapping[str, Any]) -> bool:
    """Whether there is nothing beside the tensor-parallel group."""
    return bool(row["dp_size"] <= 1 and row["pp_size"] <= 1)


def _told_groups(by_lane: Mapping[int, Mapping[str, Any]]) -> list[ParallelGroup]:
    members: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for lane, row in by_lane.items():
        members[row["pp_rank"], row["dp_rank"], row["tp_size"]].append(lane)
    groups = []
    for (_, dp_rank, size), lanes in sorted(members.items()):
        numbers = sorted(by_lane[lane]["tp_rank"] for lane in lanes)
        several = max(by_lane[lane]["dp_size"] for lane in lanes)
        groups.append(
            ParallelGroup(
                tuple(lanes),
                size,
                told=True,
                complete=numbers == list(range(size)),
                dp_rank=dp_rank if several > 1 else None,
                dp_size=max(several, 1),
            )
        )
    return groups
