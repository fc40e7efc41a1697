"""Ranks that wait for one another: what collectives cost, and which rank the others wait for.

A wait is told only where a collective ends together on all ranks of its group and all of them are
in the trace; elsewhere a collective's time has its waiting in it. `..._per_cycle` is over kept
cycles in which kernels were recorded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CollectiveWait:
    """The collectives of one phase on one rank.

    Attributes:
        rank: The rank.
        phase: The phase.
        cycles: How many cycles the means are over.
        collectives_per_cycle: How many.
        collective_ns_per_cycle: Their time, summed, waiting included.
        separated_ns_per_cycle: The part of it in which wait and transfer are told apart.
        wait_ns_per_cycle: Waiting for the last rank to start; None where nothing is separated or
            the clocks do not resolve it.
        transfer_ns_per_cycle: The rest of the separated time.
        busy_ns_per_cycle: The phase's busy time.
        net_ns_per_cycle: Busy time without the time in which the device only waited; None unless
            every collective of the phase is separated.
    """

    rank: int
    phase: str
    cycles: int
    collectives_per_cycle: float
    collective_ns_per_cycle: float
    separated_ns_per_cycle: float
    wait_ns_per_cycle: float | None
    transfer_ns_per_cycle: float | None
    busy_ns_per_cycle: float
    net_ns_per_cycle: float | None


@dataclass(frozen=True, slots=True)
class LatePhase:
    """What a late rank ran last before the collectives that the others waited in."""

    phase: str
    collectives: int
    cost_ns_per_cycle: float


@dataclass(frozen=True, slots=True)
class RankSkew:
    """One rank among those of its group; None where nothing is resolved.

    Attributes:
        rank: The rank.
        wait_ns_per_cycle: Its waiting for others, over all phases.
        late_share: In what share of the separated collectives it is the last to start, by more
            than `RESOLVABLE` clock errors.
        lateness_ns: How far it is then behind the first rank, mean.
        idle_share: The part of that in which its device idled (launched late); in the rest it ran
            longer.
        cost_ns_per_cycle: What removing its lateness saves at most: the longest wait it causes in
            each collective in which it is last, while no other kernel of a phase runs.
        late_in: The same by what it ran before, the dearest first.
        idle_cycles: Cycles in which it ran padding only, all of the trace.
    """

    rank: int
    wait_ns_per_cycle: float | None
    late_share: float | None
    lateness_ns: float | None
    idle_share: float | None
    cost_ns_per_cycle: float | None
    late_in: list[LatePhase]
    idle_cycles: int


@dataclass(frozen=True, slots=True)
class WaitingIncluded:
    """Collectives whose waiting cannot be told from transfer, over the whole trace.

    Attributes:
        reason: Why not, the same in every version.
        text: The same for a person.
        collectives: Ops, over all ranks.
        share: Of the time in collectives.
    """

    reason: str
    text: str
    collectives: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSkew:
    """One tensor-parallel group.

    Attributes:
        ranks: Its ranks in the trace.
        tp_size: How many it has.
        tp_size_from: "marks", or "devices in the trace" where no mark tells.
        dp_rank: Data-parallel rank, where marks tell.
        clock: "one session", or "aligned by collectives" where its ranks are in several files.
        clock_error_ns: How far the ends of its collectives lie apart, 95th percentile.
        resolved: Whether waiting is told in any phase.
        waiting_included: What is not separated, most time first.
        hidden_cycles: Kept cycles, over its ranks, whose collectives whole-graph rows hide.
        late_rank: The rank that the others wait for, None when none stands out from chance.
        cost_ns_per_cycle: What the skew of all ranks costs at most; None when not resolved.
        cost_share: The same, of the mean period.
        by_rank: Each rank.
        waits: Each rank and phase with collectives.
    """

    ranks: list[int]
    tp_size: int
    tp_size_from: str
    dp_rank: int | None
    clock: str
    clock_error_ns: int | None
    resolved: bool
    waiting_included: list[WaitingIncluded]
    hidden_cycles: int
    late_rank: int | None
    cost_ns_per_cycle: float | None
    cost_share: float | None
    by_rank: list[RankSkew] = field(default_factory=list)
    waits: list[CollectiveWait] = field(default_factory=list)
