from __future__ import annotations

import random
from collections import defaultdict
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measured import waits_of
from tests.strategies import build, examples
from traceanalyzer.analyses.collective_wait import REASONS
from traceanalyzer.kernels.collectives import shipped_families
from traceanalyzer.phases.parallel_groups import ParallelGroup, parallel_groups
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.rules import Rules

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace

    Row = dict[str, Any]

RING = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
GATHER = "ncclDevKernel_AllGather_RING_LL"
ONE_SHOT = "cross_device_reduce_1stage"
GEMM = "nvjet_gemm"
SEPARABLE = {RING, GATHER}
COLLECTIVE = {*SEPARABLE, ONE_SHOT}


class Ranks:
    """Ranks that run one program side by side; each knows its clock and its rows."""

    def __init__(self, lanes: int, *, numbered: bool = True) -> None:
        self.lanes, self.numbered = lanes, numbered
        self.now = [100] * lanes
        self.ops: list[Row] = []
        self.launches: list[Row] = []
        self.ranges: list[Row] = []
        self.round = 0

    def open_round(self) -> None:
        self.round += 1
        host = 1000 * self.round
        for lane in range(self.lanes):
            marked = {"domain": "eagle", "payload": self.round} if self.numbered else {}
            self.ranges.append(
                {"name": "verify", "thread": lane, "start_ns": host, "end_ns": host + 999, **marked}
            )

    def run(self, lane: int, name: str, start: int, end: int, stream: int = 7) -> None:
        host, number = 1000 * self.round + 5, len(self.ops)
        self.ops.append(
            {"name": name, "process": lane, "stream_id": stream, "correlation_id": number}
            | {"start_ns": start, "end_ns": end}
        )
        self.launches.append(
            {"thread": lane, "start_ns": host, "end_ns": host + 1, "correlation_id": number}
        )
        if stream == 7:
            self.now[lane] = max(self.now[lane], end)

    def together(self, name: str, starts: list[int], transfer: int) -> None:
        for lane, start in enumerate(starts):
            self.run(lane, name, start, max(starts) + transfer)

    def phased(self) -> PhasedTrace:
        trace = build(
            ops=self.ops,
            launches=self.launches,
            ranges=self.ranges,
            threads=tuple(range(self.lanes)),
        )
        return settle_phases(trace, Rules.shipped())


def whole(lanes: int) -> ParallelGroup:
    return ParallelGroup(tuple(range(lanes)), lanes, told=False, complete=True)


def drawn(seed: int) -> Ranks:
    """Rounds of kernels with the hard cases common: lost ops, early starts, ends apart."""
    rng = random.Random(seed)
    ranks = Ranks(rng.choice((1, 2, 2, 3)), numbered=rng.random() < 0.8)
    careless = rng.choice((0.0, 0.0, 0.1))
    for _ in range(rng.randrange(1, 6)):
        ranks.open_round()
        for lane, now in enumerate([*ranks.now]):
            ranks.run(lane, GEMM, now, now + 1)
        for _ in range(rng.randrange(1, 5)):
            name = rng.choice((GEMM, RING, RING, GATHER, ONE_SHOT))
            lost = [rng.random() < careless / 2 for _ in range(ranks.lanes)]
            starts = [now + rng.choice((0, 1, 4, 9)) for now in ranks.now]
            if rng.random() < careless:
                starts[0] -= rng.choice((1, 12))
            transfer, last = rng.randrange(1, 12), max(starts)
            for lane, start in enumerate(starts):
                if lost[lane]:
                    continue
                end = last + transfer + rng.choice((0, 0, 0, 1))
                if name == GEMM or rng.random() < careless:
                    end = start + rng.randrange(1, 15)
                ranks.run(lane, name, start, end)
                if rng.random() < 0.3:
                    ranks.run(lane, GEMM, start + rng.randrange(6), start + 9, stream=9)
    return ranks


class Reference:
    """The same answers, found by looking at every pair of rows and every nanosecond."""

    def __init__(self, ranks: Ranks, phased: PhasedTrace) -> None:
        self.ranks, self.phased, self.ops = ranks, phased, ranks.ops
        self.reason = {
            op: "no counterpart" if row["name"] in SEPARABLE else "family"
            for op, row in enumerate(self.ops)
            if row["name"] in COLLECTIVE
        }
        self.matched = self._matched()
        if ranks.lanes == 1:
            self.reason = {
                op: "ranks missing" if reason == "no counterpart" else reason
                for op, reason in self.reason.items()
            }
            self.matched = []
        self._judge()
        self.known = [ops for ops in self.matched if self.reason[ops[0]] == "separated"]
        spreads = sorted(self.spread(ops, "end_ns") for ops in self.known)
        self.error = spreads[ceil(0.95 * len(spreads)) - 1] if spreads else None

    def spread(self, ops: list[int], edge: str) -> int:
        times = [self.ops[op][edge] for op in ops]
        return max(times) - min(times)

    def identity(self, op: int) -> tuple[str, int]:
        if self.ranks.numbered:
            return "number", self.round_of(op)
        cycle = int(self.phased.cycle[op])
        mine = [
            row
            for row, lane in enumerate(self.phased.cycles.spans.lane)
            if lane == self.ops[op]["process"]
        ]
        return "order", mine.index(cycle)

    def round_of(self, op: int) -> int:
        return int(self.ranks.launches[op]["start_ns"] // 1000)

    def _matched(self) -> list[list[int]]:
        groups: dict[Any, list[list[int]]] = defaultdict(lambda: [[] for _ in self.lanes()])
        for op in sorted(self.reason, key=lambda op: (self.ops[op]["start_ns"], op)):
            if self.reason[op] != "family":
                row = self.ops[op]
                groups[self.identity(op), row["name"]][row["process"]].append(op)
        return [
            list(ops)
            for by_lane in groups.values()
            if len({len(ops) for ops in by_lane}) == 1
            for ops in zip(*by_lane, strict=True)
        ]

    def lanes(self) -> range:
        return range(self.ranks.lanes)

    def _is_early(self, op: int) -> bool:
        own = self.ops[op]
        return any(
            other["process"] == own["process"]
            and other["stream_id"] == own["stream_id"]
            and (other["start_ns"], place) < (own["start_ns"], op)
            and other["end_ns"] > own["start_ns"]
            for place, other in enumerate(self.ops)
        )

    def _judge(self) -> None:
        early = {id(ops) for ops in self.matched if any(map(self._is_early, ops))}
        for name in SEPARABLE:
            own = [ops for ops in self.matched if self.ops[ops[0]]["name"] == name]
            many = own and sum(id(ops) in early for ops in own) / len(own) > 0.05
            left = []
            for ops in own:
                last = max(self.ops[op]["start_ns"] for op in ops)
                if last >= min(self.ops[op]["end_ns"] for op in ops):
                    self._set(ops, "not at once")
                elif many or id(ops) in early:
                    self._set(ops, "early start")
                else:
                    left.append(ops)
            if not left:
                continue
            transfers = [
                max(self.ops[op]["end_ns"] for op in ops)
                - max(self.ops[op]["start_ns"] for op in ops)
                for ops in left
            ]
            apart = median(self.spread(ops, "end_ns") for ops in left) > 0.5 * median(transfers)
            for ops in left:
                self._set(ops, "ends apart" if apart else "separated")

    def _set(self, ops: list[int], reason: str) -> None:
        for op in ops:
            self.reason[op] = reason

    def runs(self, lane: int, instant: int, *, collectives: bool) -> bool:
        return any(
            row["process"] == lane
            and row["start_ns"] <= instant < row["end_ns"]
            and (collectives or row["name"] not in COLLECTIVE)
            for row in self.ops
        )

    def waits(self) -> dict[int, tuple[int, int, int, int | None]]:
        """Wait, exposed wait, lateness and cost of each separated op."""
        found = {}
        for ops in self.known:
            starts = [self.ops[op]["start_ns"] for op in ops]
            last = max(starts)
            exposed = [
                sum(not self.runs(lane, at, collectives=False) for at in range(start, last))
                for lane, start in enumerate(starts)
            ]
            counts = self.spread(ops, "start_ns") >= max(1, 3 * (self.error or 0))
            for lane, op in enumerate(ops):
                late = counts and lane == starts.index(last)
                wait = last - starts[lane]
                cost = max(exposed) if late else None
                found[op] = wait, exposed[lane], starts[lane] - min(starts), cost
        return found

    def idle(self) -> dict[int, int]:
        """The lateness of each separated op in which its device idled."""
        found = {}
        before: list[int] | None = None
        for ops in sorted(self.known, key=lambda ops: (self.ops[ops[0]]["start_ns"], ops[0])):
            starts = [self.ops[op]["start_ns"] for op in ops]
            idle = []
            for lane, start in enumerate(starts):
                free = start if before is None else min(self.ops[before[lane]]["end_ns"], start)
                idle.append(
                    sum(not self.runs(lane, at, collectives=True) for at in range(free, start))
                )
            quickest = idle[starts.index(min(starts))]
            for lane, op in enumerate(ops):
                lateness = starts[lane] - min(starts)
                found[op] = min(max(idle[lane] - quickest, 0), lateness)
            before = ops
        return found


@examples(0.2)
@given(st.integers(0, 1 << 40))
def test_waits_agree_with_the_reference(seed: int) -> None:
    ranks = drawn(seed)
    phased = ranks.phased()
    found = waits_of(phased, whole(ranks.lanes))
    want = Reference(ranks, phased)
    rows = found.ops.rows(named=True)
    assert {row["op"]: REASONS[row["reason"]] for row in rows} == want.reason
    assert found.clock_error_ns == want.error
    known = [row for row in rows if row["wait_ns"] is not None]
    columns = ("wait_ns", "exposed_ns", "lateness_ns", "cost_ns")
    assert {row["op"]: tuple(row[name] for name in columns) for row in known} == want.waits()
    assert {row["op"]: row["idle_ns"] for row in known} == want.idle()


@examples(0.1)
@given(st.integers(0, 1 << 40))
def test_laws_of_waiting(seed: int) -> None:
    ranks = drawn(seed)
    found = waits_of(ranks.phased(), whole(ranks.lanes)).ops
    for row in found.drop_nulls("collective").rows(named=True):
        assert 0 <= row["exposed_ns"] <= row["wait_ns"] < row["duration_ns"]
        assert row["wait_ns"] + row["lateness_ns"] == row["spread_ns"]
        assert 0 <= row["idle_ns"] <= row["lateness_ns"]
    by_collective = found.drop_nulls("collective").group_by("collective")
    for _, rows in by_collective:
        assert rows.height == ranks.lanes
        assert rows["wait_ns"].min() == 0
        assert rows["cost_ns"].count() <= 1


def reasons(ranks: Ranks, group: ParallelGroup | None = None) -> dict[str, str]:
    """Reason by kernel name, which must be one."""
    phased = ranks.phased()
    found = waits_of(phased, group or whole(ranks.lanes))
    told: dict[str, set[str]] = defaultdict(set)
    for op, reason in found.ops.select("op", "reason").iter_rows():
        told[ranks.ops[op]["name"]].add(REASONS[reason])
    return {name: ", ".join(sorted(each)) for name, each in told.items()}


def steady(lanes: int, late_ns: int = 30, *, rounds: int = 20, numbered: bool = True) -> Ranks:
    ranks = Ranks(lanes, numbered=numbered)
    for _ in range(rounds):
        ranks.open_round()
        for lane in range(lanes):
            ranks.run(lane, GEMM, ranks.now[lane], ranks.now[lane] + 50 + late_ns * (lane == 1))
        ranks.together(RING, [*ranks.now], 40)
    return ranks


def test_the_last_rank_waits_for_nobody_and_the_others_for_it() -> None:
    found = waits_of(steady(3).phased(), whole(3))
    assert found.clock_error_ns == 0
    assert found.one_session
    by_lane = {
        lane: (rows["wait_ns"].sum(), rows["cost_ns"].count(), rows["cost_ns"].sum())
        for (lane,), rows in found.ops.group_by("lane")
    }
    assert by_lane == {0: (600, 0, 0), 1: (0, 20, 600), 2: (600, 0, 0)}


def test_one_shot_collectives_are_never_separated() -> None:
    ranks = steady(2)
    for row in ranks.ops:
        row["name"] = ONE_SHOT if row["name"] == RING else row["name"]
    assert reasons(ranks) == {ONE_SHOT: "family"}


def test_programmatic_launch_is_no_arrival() -> None:
    ranks = steady(2)
    for row in ranks.ops:
        row["start_ns"] -= 5 if row["name"] == RING and row["process"] == 0 else 0
    assert reasons(ranks) == {RING: "early start"}


def test_one_rank_of_eight_tells_nothing() -> None:
    ranks = steady(2)
    eight = ParallelGroup((0, 1), 8, told=True, complete=False)
    assert reasons(ranks, eight) == {RING: "ranks missing"}
    assert reasons(steady(1), whole(1)) == {RING: "ranks missing"}


def test_a_rank_with_fewer_collectives_in_a_cycle_is_not_matched_by_guess() -> None:
    ranks = steady(2, rounds=3)
    ranks.run(0, RING, ranks.now[0], ranks.now[0] + 3)
    phased = ranks.phased()
    found = waits_of(phased, whole(2)).ops
    told = {op: REASONS[reason] for op, reason in found.select("op", "reason").iter_rows()}
    lost = {op for op, reason in told.items() if reason == "no counterpart"}
    last_round = {op for op in told if ranks.launches[op]["start_ns"] // 1000 == 3}
    assert lost == last_round
    assert set(told.values()) == {"separated", "no counterpart"}


def test_a_small_difference_between_skewed_clocks_names_nobody() -> None:
    ranks = steady(2, late_ns=9)
    for row in ranks.ops:
        if row["process"] == 1:
            row["start_ns"] += 4
            row["end_ns"] += 4
    found = waits_of(ranks.phased(), whole(2))
    assert found.clock_error_ns == 4
    assert found.ops["cost_ns"].count() == 20, "13 ns are above three times 4 ns"
    for row in ranks.ops:
        if row["process"] == 1:
            row["start_ns"] += 2
            row["end_ns"] += 2
    found = waits_of(ranks.phased(), whole(2))
    assert found.clock_error_ns == 6
    assert found.ops["cost_ns"].count() == 0, "15 ns are not above three times 6 ns"


@pytest.mark.parametrize(("spans", "reason"), [(True, "beyond the group"), (False, "separated")])
def test_collectives_of_several_data_parallel_groups(spans: bool, reason: str) -> None:
    ranks = steady(4)
    shift = 0 if spans else 700_000
    for row in ranks.ops:
        if row["process"] > 1:
            row["start_ns"] += shift
            row["end_ns"] += shift
    group = ParallelGroup((0, 1), 2, told=True, complete=True, dp_rank=0, dp_size=2)
    assert reasons(ranks, group) == {RING: reason}


def test_data_parallel_groups_outside_the_trace_may_take_part() -> None:
    group = ParallelGroup((0, 1), 2, told=True, complete=True, dp_rank=0, dp_size=2)
    assert reasons(steady(2), group) == {RING: "beyond the group"}


def test_without_marks_all_devices_are_one_group() -> None:
    phased = steady(3).phased()
    assert parallel_groups(phased.trace, phased.ranks) == [whole(3)]


def test_families_of_the_kernels_used_here() -> None:
    families = {family.name: family.ends_together for family in shipped_families()}
    assert families["ring NCCL"]
    assert not families["one-shot or two-shot"]
