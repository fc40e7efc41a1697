"""Waiting between ranks in words: who is late, what it costs, or why nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import (
    count,
    decimals_for,
    duration,
    milliseconds,
    percent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import GroupSkew, RankSkew, Report

RANK_TITLES: Final = ("wait ms/cycle", "late share")

_REASONS_SHOWN: Final = 2
_SMALL_SHARE: Final = 0.005
_MOSTLY: Final = 0.5


def rank_cells(report: Report) -> dict[int, tuple[str, str]]:
    """Wait in ms a cycle and late share of each rank; empty where no rank's is known."""
    skews = [rank for group in report.skew for rank in group.by_rank]
    if all(skew.wait_ns_per_cycle is None for skew in skews):
        return {}
    return {skew.rank: _cells(skew) for skew in skews}


def _cells(skew: RankSkew) -> tuple[str, str]:
    if skew.wait_ns_per_cycle is None or skew.late_share is None:
        return "-", "-"
    return milliseconds(skew.wait_ns_per_cycle), percent(skew.late_share)


def skew_lines(report: Report) -> list[str]:
    """A sentence or two for each tensor-parallel group."""
    lines = []
    for group in report.skew:
        name = _name(group) if len(report.skew) > 1 else ""
        lines += [name + line for line in (*_waits(group), *_included(group), *_idle(group))]
    return lines


def _name(group: GroupSkew) -> str:
    if group.dp_rank is not None:
        return f"Data-parallel group {group.dp_rank}: "
    return f"Ranks {_listed(group.ranks)}: "


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))


def _waits(group: GroupSkew) -> list[str]:
    if group.cost_ns_per_cycle is None or group.cost_share is None:
        return []
    named = next((rank for rank in group.by_rank if rank.rank == group.late_rank), None)
    cost = _of_cycle(group, group.cost_ns_per_cycle)
    clock = f"clocks agree to {duration(group.clock_error_ns or 0)}, {group.clock}"
    if group.tp_size_from != "marks":
        clock += f"; taken as one group: all {group.tp_size} {group.tp_size_from}"
    if named is None:
        return [
            f"No rank stands out; waiting for whichever is last costs at most {cost} ({clock})."
        ]
    return [f"Rank {named.rank} is late: {_lateness(group, named)} ({clock})."]


def _of_cycle(group: GroupSkew, ns: float) -> str:
    whole, share = group.cost_ns_per_cycle or 0.0, group.cost_share or 0.0
    of_cycle = share * ns / whole if whole else 0.0
    return f"{milliseconds(ns, decimals=decimals_for(ns))} ms a cycle ({percent(of_cycle)})"


def _lateness(group: GroupSkew, rank: RankSkew) -> str:
    told = f"it costs at most {_of_cycle(group, rank.cost_ns_per_cycle or 0.0)}"
    if rank.late_share is not None and rank.lateness_ns is not None:
        told += (
            f", last in {percent(rank.late_share)} of collectives by {duration(rank.lateness_ns)}"
        )
    if rank.late_in:
        told += f", mostly after its {rank.late_in[0].phase}"
    if rank.idle_share is not None:
        why = "launched late" if rank.idle_share > _MOSTLY else "its kernels run longer"
        told += f"; {why} (idle in {percent(rank.idle_share)} of its lateness)"
    return told


def late_line(group: GroupSkew) -> str | None:
    """Who waits for whom, and what of the collectives it is; None where no rank stands out."""
    named = next((rank for rank in group.by_rank if rank.rank == group.late_rank), None)
    told = [each for each in group.waits if each.wait_ns_per_cycle and each.transfer_ns_per_cycle]
    if named is None or named.cost_ns_per_cycle is None or not told:
        return None
    most = max(told, key=lambda each: each.wait_ns_per_cycle or 0.0)
    wait_ns, transfer_ns = most.wait_ns_per_cycle or 0.0, most.transfer_ns_per_cycle or 0.0
    text = (
        f"Ranks wait for rank {named.rank}: at most {_of_cycle(group, named.cost_ns_per_cycle)}. "
        f"Of rank {most.rank}'s time in collectives of {most.phase}, {_ms(wait_ns)} is "
        f"waiting for it and {_ms(transfer_ns)} transfer"
    )
    text += ": the late rank, not the link." if wait_ns > transfer_ns else "."
    if named.idle_share is not None:
        text += f" It is late {_why_late(named.idle_share)}."
    return text


def _ms(ns: float) -> str:
    return f"{milliseconds(ns, decimals=decimals_for(ns))} ms"


def _why_late(idle_share: float) -> str:
    if idle_share > _MOSTLY:
        return f"for want of launches: its GPU idles in {percent(idle_share)} of its lateness"
    return f"as its kernels run longer: its GPU idles in {percent(idle_share)} of its lateness only"


def _included(group: GroupSkew) -> list[str]:
    """What of the collectives has its waiting in it, and why."""
    reasons = [
        f"{part.text} ({percent(part.share)} of their time)"
        for part in group.waiting_included
        if part.share >= _SMALL_SHARE
    ]
    shown = reasons[:_REASONS_SHOWN]
    if len(reasons) > len(shown):
        shown.append("and more, with --format json")
    if group.hidden_cycles:
        shown.append(f"whole-graph rows hide those of {count(group.hidden_cycles)} cycles")
    return [f"Collectives, waiting included: {'; '.join(shown)}."] if shown else []


def _idle(group: GroupSkew) -> list[str]:
    idle = [rank for rank in group.by_rank if rank.idle_cycles]
    if not idle:
        return []
    ranks = f"Rank{'s' if len(idle) > 1 else ''} {_listed([rank.rank for rank in idle])}"
    most = max(rank.idle_cycles for rank in idle)
    few = "" if len({rank.idle_cycles for rank in idle}) == 1 else "up to "
    cycles = f"{count(most)} cycle{'' if most == 1 else 's'}"
    return [f"{ranks} ran padding only, in {few}{cycles}, for the collectives of others."]
