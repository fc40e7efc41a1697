"""Waiting in collectives by rank and phase, and the rank that the others wait for."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.analyses.collective_wait import (
    FAMILY,
    RANKS_MISSING,
    REASONS,
    RESOLVABLE,
    SEPARATED,
)
from traceanalyzer.intervals import total_by
from traceanalyzer.kernels.classification import WHOLE_GRAPH
from traceanalyzer.kernels.collectives import shipped_families
from traceanalyzer.report import (
    CollectiveWait,
    GroupSkew,
    LatePhase,
    RankSkew,
    WaitingIncluded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.analyses.collective_wait import CollectiveWaits
    from traceanalyzer.assembly.timing import Timing

_BEYOND_CHANCE: Final = 3
"""Standard errors by which a rank's cost must exceed the next one's for the rank to be named."""

_TEXTS: Final = {
    "no cycle numbers": "cycles of several files without numbers cannot be matched",
    "no counterpart": "they are not on every rank as often",
    "clocks": "too few of them to align the clocks of several files",
    "not at once": "matched ones do not run at the same time",
    "early start": "they start before their stream is free (programmatic dependent launch)",
    "ends apart": "they do not end together on all ranks",
    "beyond the group": "ranks of other data-parallel groups take part, or may",
}
_TOLD: Final = (
    "lane",
    "cycle",
    "label",
    "reason",
    "duration_ns",
    "wait_ns",
    "exposed_ns",
    "lateness_ns",
    "idle_ns",
    "cost_ns",
    "before",
)


@dataclass(frozen=True, slots=True)
class SkewSources:
    """What the skew of every group is told from, beside its waits.

    Attributes:
        numbers: Rank number of each lane.
        classes: See `class_time`.
        idle_cycles: Cycles of each lane in which it ran padding only.
    """

    numbers: Sequence[int]
    classes: pl.DataFrame
    idle_cycles: NDArray[np.int64]


def group_skew(timing: Timing, sources: SkewSources, waits: CollectiveWaits) -> GroupSkew | None:
    """Waiting between the ranks of a group that has collectives, or ranks that idle."""
    group = _Group(timing, sources, waits)
    return group.report() if group.has_any() else None


class _Group:
    """One group's ops with their cycles, and the cycles to average over."""

    def __init__(self, timing: Timing, sources: SkewSources, waits: CollectiveWaits) -> None:
        self.timing, self.sources, self.waits = timing, sources, waits
        self.lanes = waits.group.lanes
        own = timing.kept() & np.isin(timing.cycles.spans.lane, self.lanes)
        classes = _in_cycles(sources.classes, np.flatnonzero(own))
        self.graphs = classes.filter(pl.col("class") == WHOLE_GRAPH)
        self.busy = _by_cycle_and_label(classes, own.size, len(timing.labels))
        ops = _in_cycles(waits.ops.select(_TOLD), np.flatnonzero(own))
        by_lane = ops.partition_by("lane", as_dict=True)
        self.ops = {lane: by_lane.get((lane,), ops.clear()) for lane in self.lanes}
        self.resolved = self._resolved_labels()

    def has_any(self) -> bool:
        """Whether there is anything to say."""
        hidden = self.waits.group.tp_size > 1 and self.waits.group.told and self.graphs.height > 0
        idle = self.sources.idle_cycles[list(self.lanes)].any()
        return bool(self.waits.ops.height or hidden or idle)

    def report(self) -> GroupSkew:
        """All that is known of the group."""
        group, by_rank = self.waits.group, [self._rank(lane) for lane in self.lanes]
        costs = [rank.cost_ns_per_cycle for rank in by_rank if rank.cost_ns_per_cycle is not None]
        period = self._mean_period_ns()
        return GroupSkew(
            ranks=[self.sources.numbers[lane] for lane in self.lanes],
            tp_size=group.tp_size,
            tp_size_from="marks" if group.told else "devices in the trace",
            dp_rank=group.dp_rank,
            clock="one session" if self.waits.one_session else "aligned by collectives",
            clock_error_ns=self.waits.clock_error_ns,
            resolved=bool(self.resolved),
            waiting_included=self._waiting_included(),
            hidden_cycles=self.graphs.n_unique("cycle"),
            late_rank=self._late_rank(),
            cost_ns_per_cycle=sum(costs) if costs else None,
            cost_share=sum(costs) / period if costs and period else None,
            by_rank=by_rank,
            waits=self._phases(),
        )

    def _resolved_labels(self) -> list[int]:
        """Phases whose ranks differ by enough for the clocks to tell."""
        known = self.waits.ops.filter(pl.col("reason") == SEPARATED)
        spread = known.group_by("label").agg(pl.mean("spread_ns"))
        least = RESOLVABLE * (self.waits.clock_error_ns or 0)
        return spread.filter(pl.col("spread_ns") >= least)["label"].sort().to_list()

    def _mean_period_ns(self) -> float:
        own = self.timing.kept() & np.isin(self.timing.cycles.spans.lane, self.lanes)
        return float(self.timing.cycles.spans.duration_ns[own].mean()) if own.any() else 0.0

    def _seen_cycles(self, lane: int, label: int | None = None) -> NDArray[np.int64]:
        """Kept cycles of a lane in which no whole-graph row (of a phase) hides collectives."""
        kept = np.flatnonzero(self.timing.kept() & (self.timing.cycles.spans.lane == lane))
        if not self.graphs.height:
            return kept
        graphs = self.graphs if label is None else self.graphs.filter(pl.col("label") == label)
        return np.setdiff1d(kept, graphs["cycle"].to_numpy())

    def _phases(self) -> list[CollectiveWait]:
        found = []
        for lane in sorted(self.lanes):
            of_label = self.ops[lane].partition_by("label", as_dict=True)
            found += [self._phase(of_label[label], lane, *label) for label in sorted(of_label)]
        return [phase for phase in found if phase is not None]

    def _phase(self, own: pl.DataFrame, lane: int, label: int) -> CollectiveWait | None:
        """Of a phase on a lane; `own` are its collectives."""
        seen = self._seen_cycles(lane, label)
        ops = _in_cycles(own, seen)
        if not ops.height:
            return None
        known = ops.filter(pl.col("reason") == SEPARATED)
        cycles = seen.size
        busy = int(self.busy[seen, label].sum()) / cycles
        told = known.height > 0 and label in self.resolved
        wait = _total(known, "wait_ns") / cycles
        separated = _total(known, "duration_ns") / cycles
        net = busy - _total(known, "exposed_ns") / cycles
        return CollectiveWait(
            rank=self.sources.numbers[lane],
            phase=self.timing.labels[label],
            cycles=cycles,
            collectives_per_cycle=ops.height / cycles,
            collective_ns_per_cycle=_total(ops, "duration_ns") / cycles,
            separated_ns_per_cycle=separated,
            wait_ns_per_cycle=wait if told else None,
            transfer_ns_per_cycle=separated - wait if told else None,
            busy_ns_per_cycle=busy,
            net_ns_per_cycle=net if told and known.height == ops.height else None,
        )

    def _rank(self, lane: int) -> RankSkew:
        number, idle = self.sources.numbers[lane], int(self.sources.idle_cycles[lane])
        seen = self._seen_cycles(lane)
        known = self.ops[lane].filter(
            pl.col("reason") == SEPARATED,
            pl.col("label").is_in(self.resolved),
        )
        known = _in_cycles(known, seen)
        if not known.height:
            return RankSkew(number, None, None, None, None, None, [], idle)
        late = known.drop_nulls("cost_ns")
        lateness = _total(late, "lateness_ns")
        return RankSkew(
            rank=number,
            wait_ns_per_cycle=_total(known, "wait_ns") / seen.size,
            late_share=late.height / known.height,
            lateness_ns=lateness / late.height if late.height else None,
            idle_share=_total(late, "idle_ns") / lateness if lateness else None,
            cost_ns_per_cycle=_total(late, "cost_ns") / seen.size,
            late_in=self._late_in(late, seen.size),
            idle_cycles=idle,
        )

    def _late_in(self, late: pl.DataFrame, cycles: int) -> list[LatePhase]:
        rows = late.group_by("before").agg(pl.len().alias("times"), pl.sum("cost_ns"))
        names = {-1: "nothing", **dict(enumerate(self.timing.labels))}
        return [
            LatePhase(names[label], times, cost / cycles)
            for label, times, cost in rows.sort(-pl.col("cost_ns"), "before").iter_rows()
        ]

    def _late_rank(self) -> int | None:
        """The rank that costs most, where it does so in cycle after cycle.

        Its cost less that of the next rank, cycle by cycle, must differ from none by
        `_BEYOND_CHANCE` standard errors.
        """
        costs = self._cost_by_cycle()
        if costs.shape[0] < 2 or costs.shape[1] < 2:
            return None
        next_, first = np.argsort(costs.sum(axis=0))[-2:]
        ahead = costs[:, first] - costs[:, next_]
        error = float(ahead.std(ddof=1)) / sqrt(ahead.size)
        beyond = ahead.mean() > max(_BEYOND_CHANCE * error, 0.0)
        return self.sources.numbers[self.lanes[first]] if beyond else None

    def _cost_by_cycle(self) -> NDArray[np.int64]:
        """What each lane costs, by the order of its cycles: shape (cycles, lanes)."""
        seen = [self._seen_cycles(lane) for lane in self.lanes]
        costs = np.zeros((min(rows.size for rows in seen), len(self.lanes)), np.int64)
        for place, cycles in enumerate(seen):
            own = self.ops[self.lanes[place]].drop_nulls("cost_ns")
            own = own.filter(pl.col("label").is_in(self.resolved))
            own = _in_cycles(own, cycles[: len(costs)])
            at = np.searchsorted(cycles, own["cycle"].to_numpy())
            np.add.at(costs[:, place], at, own["cost_ns"].to_numpy())
        return costs

    def _waiting_included(self) -> list[WaitingIncluded]:
        whole = _total(self.waits.ops, "duration_ns")
        rows = (
            self.waits.ops.filter((pl.col("reason") != SEPARATED) | self._is_unresolved())
            .with_columns(
                family=pl.when(pl.col("reason") == FAMILY).then("family").otherwise(-1),
                reason=pl.when(self._is_unresolved()).then(len(REASONS)).otherwise("reason"),
            )
            .group_by("reason", "family")
            .agg(pl.len().alias("ops"), pl.sum("duration_ns"))
            .sort(-pl.col("duration_ns"), "reason", "family")
        )
        return [
            WaitingIncluded(*self._why(reason, family), ops, ns / whole if whole else 0.0)
            for reason, family, ops, ns in rows.iter_rows()
        ]

    def _is_unresolved(self) -> pl.Expr:
        return (pl.col("reason") == SEPARATED) & ~pl.col("label").is_in(self.resolved)

    def _why(self, reason: int, family: int) -> tuple[str, str]:
        if reason == len(REASONS):
            error = (self.waits.clock_error_ns or 0) / 1e3
            return "not resolvable", (
                f"ranks differ by less than {RESOLVABLE} times the clock error of {error:.1f} us"
            )
        name = REASONS[reason]
        if reason == FAMILY:
            return name, f"{shipped_families()[family].name}: ranks need not end together"
        if reason == RANKS_MISSING:
            group = self.waits.group
            there = f"{len(group.lanes)} of {group.tp_size} ranks" if group.told else "one rank"
            return name, f"only {there} of the group in the trace"
        return name, _TEXTS[name]


def _in_cycles(rows: pl.DataFrame, cycles: NDArray[np.int64]) -> pl.DataFrame:
    """The rows of some cycles."""
    cycle = rows["cycle"].to_numpy()
    chosen = np.zeros(2 + max(int(cycle.max(initial=-1)), int(cycles.max(initial=-1))), bool)
    chosen[cycles] = True  # the last stays false, for -1
    return rows.filter(pl.Series(chosen[cycle]))


def _by_cycle_and_label(classes: pl.DataFrame, cycles: int, labels: int) -> NDArray[np.int64]:
    """Busy time in cycles, of shape (cycles, labels)."""
    place = classes["cycle"].cast(pl.Int64).to_numpy() * labels + classes["label"].to_numpy()
    busy_ns = total_by(place, cycles * labels, classes["busy_ns"].to_numpy())
    return busy_ns.reshape(cycles, labels)


def _total(rows: pl.DataFrame, column: str) -> int:
    return int(rows[column].sum())
