"""The definitions once more, as plain loops over rows: what the fast path is compared with.

Nothing of `traceanalyzer` is used but the Trace. Every answer is found by trying all rows, so
that it can be read beside the definitions; speed does not matter here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.trace import Trace

PHASES = (
    "draft",
    "verify",
    "sample",
    "draft_extend",
    "decode",
    "prefill",
    "draft_prefill",
    "mixed",
    "other",
    "unattributed",
)
TARGET = {"verify", "decode", "mixed"}
PROMPT = {"prefill", "draft_prefill"}
COVERED = ("launch in range", "graph launch in range", "whole-graph row", "capture-time range")
METHODS = (*COVERED, "launched outside ranges", "no launch row")
STATES = ("kept", "warm_up", "dummy", "edge", "interrupted")
CAUSES = ("host late", "launch latency", "dependency", "synchronisation", "unknown")

Row = dict[str, Any]


@dataclass(frozen=True)
class Meaning:
    """What ranges of one name mean: a phase, an engine's cycle, or nothing; flags; batch size."""

    phase: str | None = None
    cycle: bool = False
    flags: frozenset[str] = frozenset()
    batch: int | None = None


Meanings = dict[tuple[str | None, str], Meaning]


def members(phase: str) -> set[str]:
    """The phases in "verify" or "fused(verify, decode)"."""
    inner = phase.removeprefix("fused(").removesuffix(")")
    return set(inner.split(", "))


def canonical(phase: str) -> list[int]:
    """Sort key of the canonical order of phases."""
    return sorted(PHASES.index(member) for member in members(phase))


def is_target(phase: str | None) -> bool:
    return phase is not None and bool(members(phase) & TARGET)


def is_prompt(phase: str | None) -> bool:
    """Prompt work that is no target forward of its own."""
    return phase is not None and bool(members(phase) & PROMPT) and not is_target(phase)


def api(name: str) -> str:
    """ "GraphLaunch" of "cudaGraphLaunch_v10000", "cuGraphLaunch" or "hipGraphLaunch"."""
    for prefix in ("cuda", "hip", "cu"):
        if name.startswith(prefix):
            return name.removeprefix(prefix).split("_")[0]
    return ""


def is_graph_call(name: str) -> bool:
    return api(name) == "GraphLaunch"


def launches_work(name: str) -> bool:
    return api(name) in {
        "LaunchKernel",
        "LaunchCooperativeKernel",
        "LaunchKernelExC",
        "GraphLaunch",
    }


def blocks(name: str) -> bool:
    """Calls in which the host waits for the GPU."""
    return api(name).endswith("Synchronize") or api(name) in {"Memcpy", "MemcpyDtoH", "MemcpyHtoD"}


@dataclass
class Cycle:
    """One cycle of a lane; `forward` is the row of the target forward's range."""

    lane: int
    start_ns: int
    end_ns: int
    forward: int
    state: str = "kept"

    def holds(self, lane: int, time_ns: int) -> bool:
        return self.lane == lane and self.start_ns <= time_ns < self.end_ns


@dataclass(frozen=True)
class Piece:
    """A stretch of a lane with one set of phases; a gap has a phase and a cause instead."""

    lane: int
    start_ns: int
    end_ns: int
    phases: frozenset[str]
    cycle: int | None
    gap_phase: str | None = None
    cause: str | None = None

    @property
    def ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class CycleTime:
    """Windows and overlap of one cycle, and the gaps within the windows by (phase, cause)."""

    windows: dict[str, int]
    overlap: int
    gaps: dict[tuple[str, str], int]


def rows_of(trace: Trace, table: str) -> list[Row]:
    """A table's rows with texts instead of name rows."""
    texts = trace.names["text"].to_list()
    rows: list[Row] = getattr(trace, table).rows(named=True)
    if table in ("ops", "launches", "ranges"):
        for row in rows:
            row["text"] = texts[row["name"]]
            if "domain" in row:
                row["domain_text"] = None if row["domain"] is None else texts[row["domain"]]
    return rows


def contains(outer: Row, inner: Row) -> bool:
    """Whether a range contains a range or an API call: on its own thread, ends included."""
    return (
        outer["end_thread"] is None
        and outer["thread"] == inner["thread"]
        and outer["start_ns"] <= inner["start_ns"]
        and inner["end_ns"] <= outer["end_ns"]
    )


def depth(ranges: Sequence[Row], row: int) -> tuple[int, int, int]:
    """How far inside a range lies: latest start, then earliest end, then row order."""
    return ranges[row]["start_ns"], -ranges[row]["end_ns"], -row


class Reference:
    """Every answer about one trace, found by trying all rows.

    Answers about ops are lists as long as `trace.ops`; None stands for "none".
    """

    def __init__(self, trace: Trace, meanings: Meanings) -> None:
        self.trace = trace
        self.ops = rows_of(trace, "ops")
        self.launches = rows_of(trace, "launches")
        self.ranges = rows_of(trace, "ranges")
        self.syncs = rows_of(trace, "syncs")
        self.lanes = list(trace.devices.select("process", "device_id").rows())
        self.lane = [self.lanes.index((op["process"], op["device_id"])) for op in self.ops]
        self.collected = [op["start_ns"] != 0 or op["end_ns"] != 0 for op in self.ops]
        self.meaning = [self._meaning(meanings, row) for row in range(len(self.ranges))]
        self.phase, self.is_cycle = self._phases()
        self.flags = self._flags()
        self.launch = [self._launch(op) for op in self.ops]
        self.span = [
            None if row is None else self.phase_range(self.launches[row]) for row in self.launch
        ]
        self.method = [self._method(op) for op in range(len(self.ops))]
        self.cycles = self._cycles()
        self.cycle = [
            self.cycle_at(self.lane[op], self.ops[op]["start_ns"]) if self.collected[op] else None
            for op in range(len(self.ops))
        ]
        self._judge_cycles()
        self.label = [self._label(op) for op in range(len(self.ops))]
        self.pieces = self._pieces()

    # Spans.

    def _meaning(self, meanings: Meanings, row: int) -> Meaning:
        return meanings.get((self.ranges[row]["domain_text"], self.ranges[row]["text"]), Meaning())

    def _phases(self) -> tuple[list[str | None], list[bool]]:
        """Phase of each range, and which are cycles: "decode" around drafts and verifies too."""
        phase = [meaning.phase for meaning in self.meaning]
        is_cycle = [meaning.cycle for meaning in self.meaning]
        inner = [
            row
            for row, text in enumerate(phase)
            if text is not None and members(text) & {"draft", "verify", "draft_extend"}
        ]
        for row, text in enumerate([*phase]):
            if text == "decode" and any(
                self._is_same_thread(other) and contains(self.ranges[row], self.ranges[other])
                for other in inner
            ):
                phase[row], is_cycle[row] = None, True
        settled = [
            None if self._is_contradicted(row, phase) else text for row, text in enumerate(phase)
        ]
        return settled, is_cycle

    def _is_contradicted(self, row: int, phases: Sequence[str | None]) -> bool:
        """Whether a phase that was only inferred stands in one that does not hold it."""
        own = phases[row]
        if (
            own is None
            or "inferred" not in self.meaning[row].flags
            or not self._is_same_thread(row)
        ):
            return False
        around = [
            other
            for other, span in enumerate(self.ranges)
            if other != row and phases[other] is not None and contains(span, self.ranges[row])
        ]
        if not around:
            return False
        outer = phases[max(around, key=lambda other: depth(self.ranges, other))]
        return outer is not None and not members(own) <= members(outer)

    def _is_same_thread(self, row: int) -> bool:
        return self.ranges[row]["end_thread"] is None

    def _flags(self) -> list[set[str]]:
        """Flags of each range: its own, and those of the ranges that contain it."""
        return [
            set(self.meaning[row].flags).union(
                *(
                    self.meaning[other].flags
                    for other in range(len(self.ranges))
                    if contains(self.ranges[other], self.ranges[row])
                )
            )
            for row in range(len(self.ranges))
        ]

    # Attribution.

    def _launch(self, op: Row) -> int | None:
        if op["correlation_id"] is None:
            return None
        for row, launch in enumerate(self.launches):
            same = launch["correlation_id"] == op["correlation_id"]
            if same and launch["process"] == op["process"]:
                return row
        return None

    def phase_range(self, call: Row) -> int | None:
        """The innermost range with a phase that contains a call."""
        found = [
            row
            for row, span in enumerate(self.ranges)
            if self.phase[row] is not None and contains(span, call)
        ]
        return max(found, key=lambda row: depth(self.ranges, row), default=None)

    def _method(self, op: int) -> str:
        launch = self.launch[op]
        if launch is None:
            return "no launch row"
        if self.span[op] is None:
            return "launched outside ranges"
        if self.ops[op]["kind"] == "graph":
            return "whole-graph row"
        if self.ops[op]["graph_node_id"] is not None or is_graph_call(
            self.launches[launch]["text"]
        ):
            return "graph launch in range"
        return "launch in range"

    def _label(self, op: int) -> str:
        span, launch = self.span[op], self.launch[op]
        if launch is None:
            return "unattributed"
        if span is not None:
            phase = self.phase[span]
            assert phase is not None
            return phase
        in_cycle_range = any(
            self.is_cycle[row] and contains(self.ranges[row], self.launches[launch])
            for row in range(len(self.ranges))
        )
        return "other" if in_cycle_range else "unattributed"

    # Cycles.

    def forward_of(self, row: int) -> int | None:
        """The outermost target forward around a range, itself at least; None for others."""
        if not is_target(self.phase[row]) or not self._is_same_thread(row):
            return None
        around = [
            other
            for other in range(len(self.ranges))
            if is_target(self.phase[other]) and contains(self.ranges[other], self.ranges[row])
        ]
        return min(around, key=lambda other: depth(self.ranges, other))

    def _cycles(self) -> list[Cycle]:
        first: dict[tuple[int, int], int] = {}
        work_end: dict[int, int] = {}
        for op, row in enumerate(self.ops):
            span, lane = self.span[op], self.lane[op]
            if span is None or not self.collected[op]:
                continue
            work_end[lane] = max(work_end.get(lane, row["end_ns"]), row["end_ns"])
            forward = self.forward_of(span)
            if forward is not None and row["kind"] in ("kernel", "graph"):
                key = lane, forward
                first[key] = min(first.get(key, row["start_ns"]), row["start_ns"])
        found = sorted((lane, start, forward) for (lane, forward), start in first.items())
        cycles = []
        for place, (lane, start, forward) in enumerate(found):
            if place + 1 < len(found) and found[place + 1][0] == lane:
                cycles.append(Cycle(lane, start, found[place + 1][1], forward))
            else:
                cycles.append(Cycle(lane, start, max(start, work_end[lane]), forward, "edge"))
        return cycles

    def cycle_at(self, lane: int, time_ns: int) -> int | None:
        for number, cycle in enumerate(self.cycles):
            if cycle.holds(lane, time_ns):
                return number
        return None

    def _judge_cycles(self) -> None:
        lost = self._spans_with_lost_ops()
        unclosed = {row for row, span in enumerate(self.ranges) if not span["closed"]}
        vanished = {self._forward_before(row) for row in lost - self._placed()}
        for number, cycle in enumerate(self.cycles):
            inside = [op for op, place in enumerate(self.cycle) if place == number]
            flags = self.flags[cycle.forward]
            spans = {self.span[op] for op in inside} - {None}
            incomplete = (
                cycle.forward in unclosed | vanished
                or any(self.launch[op] is None for op in inside)
                or bool(spans & (lost | unclosed))
            )
            if flags & {"warm-up", "capture"}:
                cycle.state = "warm_up"
            elif flags & {"dummy", "idle"}:
                cycle.state = "dummy"
            elif incomplete:
                cycle.state = "edge"
            elif cycle.state == "kept" and any(
                span is not None and is_prompt(self.phase[span]) for span in spans
            ):
                cycle.state = "interrupted"

    def _spans_with_lost_ops(self) -> set[int]:
        """Phase ranges with a call that launches work, but whose id no op has."""
        ids = {(op["process"], op["correlation_id"]) for op in self.ops}
        found = {
            self.phase_range(call)
            for call in self.launches
            if launches_work(call["text"])
            and (
                call["correlation_id"] is None
                or (call["process"], call["correlation_id"]) not in ids
            )
        }
        # While a graph is captured no call leaves an op.
        return {row for row in found if row is not None and "capture" not in self.flags[row]}

    def _placed(self) -> set[int | None]:
        """Ranges with an op in some cycle."""
        return {
            span for span, cycle in zip(self.span, self.cycle, strict=True) if cycle is not None
        }

    def _forward_before(self, row: int) -> int | None:
        """The forward of a cycle that a range's thread launched last before the range.

        Of a range that left no op nothing tells the cycle; what it would have run, the next
        target forward perhaps, is missing from that one.
        """
        lost = self.ranges[row]
        before = {
            cycle.forward
            for cycle in self.cycles
            if self.ranges[cycle.forward]["thread"] == lost["thread"]
            and self.ranges[cycle.forward]["start_ns"] <= lost["start_ns"]
        }
        return max(before, key=lambda forward: depth(self.ranges, forward), default=None)

    # Time.

    def _pieces(self) -> list[Piece]:
        """The timeline of every lane, cut at each op's start and end and at cycle borders."""
        pieces: list[Piece] = []
        for lane in range(len(self.lanes)):
            work = [
                op
                for op, row in enumerate(self.ops)
                if self.lane[op] == lane and row["end_ns"] > row["start_ns"]
            ]
            times = {self.ops[op][edge] for op in work for edge in ("start_ns", "end_ns")}
            times |= {
                time
                for cycle in self.cycles
                if cycle.lane == lane
                for time in (cycle.start_ns, cycle.end_ns)
            }
            for start, end in pairwise(sorted(times)):
                running = [
                    op
                    for op in work
                    if self.ops[op]["start_ns"] <= start and end <= self.ops[op]["end_ns"]
                ]
                pieces.extend(self._piece(lane, (start, end), work, running))
        return pieces

    def _piece(
        self, lane: int, when: tuple[int, int], work: list[int], running: list[int]
    ) -> Iterable[Piece]:
        phases = frozenset(self.label[op] for op in running)
        cycle = self.cycle_at(lane, when[0])
        if running:
            yield Piece(lane, *when, phases, cycle)
            return
        later = [op for op in work if self.ops[op]["start_ns"] >= when[1]]
        if not later:
            # No op ends it; within a cycle it is time that has to be somebody's all the same.
            if cycle is not None:
                yield Piece(lane, *when, phases, cycle, "unattributed", "unknown")
            return
        ender = min(later, key=self._precedence)
        ended = [self.ops[op]["end_ns"] for op in work if self.ops[op]["end_ns"] <= when[0]]
        # Before a lane's first op there can be idle time only where a cycle has begun.
        idle_since = (
            max(ended)
            if ended
            else min(cycle.start_ns for cycle in self.cycles if cycle.lane == lane)
        )
        cause = self._cause(ender, idle_since)
        yield Piece(lane, *when, phases, cycle, self.label[ender], cause)

    def _precedence(self, op: int) -> tuple[int, list[int], int, int]:
        """Which op ends a gap: the first to start; then by phase, by launch time, by row.

        An op without launch counts as launched first.
        """
        launch = self.launch[op]
        calls = self.launches if launch is None else [self.launches[launch]]
        called = min((call["start_ns"] for call in calls), default=0)
        return self.ops[op]["start_ns"], canonical(self.label[op]), called, op

    def _cause(self, op: int, idle_since_ns: int) -> str:
        launch = self.launch[op]
        if launch is None:
            return "unknown"
        call = self.launches[launch]
        if call["start_ns"] >= idle_since_ns:
            waiting = any(
                blocks(other["text"])
                and other["thread"] == call["thread"]
                and other["start_ns"] <= idle_since_ns <= other["end_ns"]
                for other in self.launches
            )
            return "synchronisation" if waiting else "host late"
        if self._told_to_wait(op) or self._other_branch_ended(op, idle_since_ns):
            return "dependency"
        return "launch latency"

    def _told_to_wait(self, op: int) -> bool:
        """A stream-wait-event record between the launches of the stream's last two ops."""
        stream = self._stream(op)
        before = [
            other
            for other in range(len(self.ops))
            if self.collected[other]
            and self._stream(other) == stream
            and (self.ops[other]["start_ns"], other) < (self.ops[op]["start_ns"], op)
        ]
        previous = max(before, key=lambda other: (self.ops[other]["start_ns"], other), default=None)
        since = None if previous is None else self.launch[previous]
        launched_ns = self._called(op)
        return any(
            sync["kind"] == "stream_wait_event"
            and (sync["process"], sync["stream_id"]) == (stream[0], stream[2])
            and sync["device_id"] in (None, stream[1])
            and sync["start_ns"] <= launched_ns
            and (since is None or sync["start_ns"] > self.launches[since]["start_ns"])
            for sync in self.syncs
        )

    def _stream(self, op: int) -> tuple[int, int, int]:
        row = self.ops[op]
        return row["process"], row["device_id"], row["stream_id"]

    def _called(self, op: int) -> int:
        launch = self.launch[op]
        assert launch is not None
        return int(self.launches[launch]["start_ns"])

    def _other_branch_ended(self, op: int, idle_since_ns: int) -> bool:
        """Whether an op of the same launch on another stream ended as the device went idle."""
        return any(
            self.launch[other] == self.launch[op]
            and self.lane[other] == self.lane[op]
            and row["stream_id"] != self.ops[op]["stream_id"]
            and row["end_ns"] == idle_since_ns
            and self.collected[other]
            for other, row in enumerate(self.ops)
        )

    def time_of(self, cycle: int) -> CycleTime:
        """Windows, overlap and gaps of one cycle."""
        windows: dict[str, int] = defaultdict(int)
        gaps: dict[tuple[str, str], int] = defaultdict(int)
        overlap = 0
        for piece in self.pieces:
            if piece.cycle != cycle:
                continue
            if len(piece.phases) > 1:
                overlap += piece.ns
            elif piece.phases:
                windows[next(iter(piece.phases))] += piece.ns
            elif piece.gap_phase is not None and piece.cause is not None:
                windows[piece.gap_phase] += piece.ns
                gaps[piece.gap_phase, piece.cause] += piece.ns
        return CycleTime(dict(windows), overlap, dict(gaps))

    def gaps_of(self, lane: int) -> dict[tuple[str, str], int]:
        """Gaps of a lane over the whole trace, by (phase, cause)."""
        gaps: dict[tuple[str, str], int] = defaultdict(int)
        for piece in self.pieces:
            if piece.lane == lane and piece.gap_phase is not None and piece.cause is not None:
                gaps[piece.gap_phase, piece.cause] += piece.ns
        return dict(gaps)

    # Totals.

    def totals(self) -> dict[tuple[int, str], dict[str, int]]:
        """Totals by lane and phase over the whole trace."""
        return {
            key: self._totals(*key) for key in sorted(set(zip(self.lane, self.label, strict=True)))
        }

    def _totals(self, lane: int, phase: str) -> dict[str, int]:
        ops = [
            op for op in range(len(self.ops)) if (self.lane[op], self.label[op]) == (lane, phase)
        ]
        launched = {launch for op in ops if (launch := self.launch[op]) is not None}
        running = [piece for piece in self.pieces if piece.lane == lane and phase in piece.phases]
        alone = [piece for piece in running if len(piece.phases) == 1]
        return {
            "ops": len(ops),
            "kernels": sum(self.ops[op]["kind"] == "kernel" for op in ops),
            "kernel_ns": sum(self._ns(op) for op in ops if self.ops[op]["kind"] == "kernel"),
            "graph_rows": sum(self.ops[op]["kind"] == "graph" for op in ops),
            "graph_row_ns": sum(self._ns(op) for op in ops if self.ops[op]["kind"] == "graph"),
            "launches": len(launched),
            "graph_launches": sum(is_graph_call(self.launches[row]["text"]) for row in launched),
            "summed_ns": sum(self._ns(op) for op in ops),
            "busy_ns": sum(piece.ns for piece in running),
            "exclusive_ns": sum(piece.ns for piece in alone),
            "overlap_ns": sum(piece.ns for piece in running) - sum(piece.ns for piece in alone),
        }

    def _ns(self, op: int) -> int:
        return int(self.ops[op]["end_ns"] - self.ops[op]["start_ns"])

    def coverage(self) -> dict[tuple[int, str], tuple[int, int]]:
        """(busy ns, ops) by lane and method; of ops that overlap the earlier keeps the time."""
        order = sorted(
            (op for op in range(len(self.ops)) if self.collected[op]),
            key=lambda op: (self.ops[op]["start_ns"], METHODS.index(self.method[op])),
        )
        covered: dict[int, set[int]] = defaultdict(set)
        result = {(lane, method): (0, 0) for lane in range(len(self.lanes)) for method in METHODS}
        for op in order:
            key = self.lane[op], self.method[op]
            own = set(range(self.ops[op]["start_ns"], self.ops[op]["end_ns"]))
            busy, count = result[key]
            result[key] = busy + len(own - covered[self.lane[op]]), count + 1
            covered[self.lane[op]] |= own
        return result

    def host_leads(self) -> dict[tuple[int, str], list[int]]:
        """Sorted leads of the launches of each lane and phase, by the first op of each."""
        leads: dict[tuple[int, str, int], int] = {}
        for op, row in enumerate(self.ops):
            launch = self.launch[op]
            if launch is None or not self.collected[op]:
                continue
            key = self.lane[op], self.label[op], launch
            lead = row["start_ns"] - self._called(op)
            leads[key] = min(leads.get(key, lead), lead)
        grouped = defaultdict(list)
        for (lane, label, _), lead in sorted(leads.items()):
            grouped[lane, label].append(lead)
        return {key: sorted(group) for key, group in grouped.items()}

    # Buckets.

    def bucket_keys(self) -> list[tuple[str, int | None, object]]:
        """What makes cycles of one lane comparable: kind, batch, and the graphs they replayed."""
        return [
            (
                self.phase[cycle.forward] or "",
                self.meaning[cycle.forward].batch,
                self._graphs_of(number),
            )
            for number, cycle in enumerate(self.cycles)
        ]

    def _graphs_of(self, cycle: int) -> object:
        """Executable graphs, else graphs, else nodes replayed in the target forward."""
        replayed = [
            row
            for op, row in enumerate(self.ops)
            if self.cycle[op] == cycle
            and (span := self.span[op]) is not None
            and is_target(self.phase[span])
            and (row["kind"] == "graph" or row["graph_node_id"] is not None)
        ]
        nodes = [row["graph_node_id"] for row in replayed if row["graph_node_id"] is not None]
        for column in ("graph_exec_id", "graph_id"):
            ids = {row[column] for row in replayed} - {None}
            if ids:
                return column, len(nodes), frozenset(ids)
        return ("nodes", len(nodes), frozenset(nodes)) if replayed else None


def nearest_rank(values: Sequence[int], percent: int) -> int:
    """The smallest of the values that at least `percent` % of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(1, -(-percent * len(ordered) // 100)) - 1]


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Time that intervals cover together."""
    covered, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            reached = start
        covered += max(0, end - reached)
        reached = max(reached, end)
    return covered


# Range tables.


def range_label(row: Row) -> str:
    return row["text"] if row["domain_text"] is None else f"{row['domain_text']}:{row['text']}"


def kernel_rows(trace: Trace) -> dict[tuple[str, str, int | None, int | None, str], list[int]]:
    """Range instances, kernel instances and ns by (range, style, process, thread, kernel)."""
    ranges, launches = rows_of(trace, "ranges"), rows_of(trace, "launches")
    threads, processes = rows_of(trace, "threads"), rows_of(trace, "processes")
    first = _first_launches(launches)
    table: dict[Any, tuple[set[int], list[int]]] = defaultdict(lambda: (set(), []))
    for op in rows_of(trace, "ops") if ranges else []:
        if op["kind"] not in ("kernel", "graph"):
            continue
        launch = first.get((op["process"], op["correlation_id"]))
        caller: tuple[int | None, int | None] = (None, None)
        around: list[int] = []
        if launch is not None:
            thread = threads[launches[launch]["thread"]]
            caller = processes[thread["process"]]["process_id"], thread["thread_id"]
            around = [row for row, span in enumerate(ranges) if contains(span, launches[launch])]
        names = {(range_label(ranges[row]), ranges[row]["style"]) for row in around}
        for name, style in names or {("", "")}:
            instances, kernels = table[name, style, *caller, op["text"]]
            kernels.append(op["end_ns"] - op["start_ns"])
            instances.update(
                row
                for row in around
                if (range_label(ranges[row]), ranges[row]["style"]) == (name, style)
            )
    return {
        key: [len(instances), len(kernels), sum(kernels)]
        for key, (instances, kernels) in table.items()
    }


def _first_launches(launches: Sequence[Row]) -> dict[tuple[int, int], int]:
    first: dict[tuple[int, int], int] = {}
    for row, launch in enumerate(launches):
        if launch["correlation_id"] is not None:
            first.setdefault((launch["process"], launch["correlation_id"]), row)
    return first


def range_rows(reference: Reference) -> dict[tuple[str, str], dict[str, Any]]:
    """The table of ranges by (range, style)."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, span in enumerate(reference.ranges):
        groups[range_label(span), span["style"]].append(row)
    return {key: _range_row(reference, rows) for key, rows in groups.items()}


def _range_row(reference: Reference, rows: list[int]) -> dict[str, Any]:
    ranges = [reference.ranges[row] for row in rows]
    phases = ["cycle" if reference.is_cycle[row] else reference.phase[row] for row in rows]
    inside = [
        op
        for op, launch in enumerate(reference.launch)
        if launch is not None and any(contains(span, reference.launches[launch]) for span in ranges)
    ]
    host = {
        thread: union_ns(
            (span["start_ns"], span["end_ns"]) for span in ranges if span["thread"] == thread
        )
        for thread in {span["thread"] for span in ranges}
    }
    return {
        "phase": next((phase for phase in phases if phase is not None), None),
        "instances": len(rows),
        "host_ns": sum(host.values()),
        "ops": len(inside),
        "kernels": sum(reference.ops[op]["kind"] == "kernel" for op in inside),
        "gpu_ns": sum(reference.ops[op]["end_ns"] - reference.ops[op]["start_ns"] for op in inside),
        "cross_thread": sum(span["end_thread"] is not None for span in ranges),
    }


# Phases timed on the host.


class HostReference:
    """Host time of each thread that opened phase ranges; `reference` supplies the spans."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.rows = [
            row
            for row, span in enumerate(reference.ranges)
            if reference.phase[row] is not None and span["end_thread"] is None
        ]
        self.threads = sorted({reference.ranges[row]["thread"] for row in self.rows})
        self.cycles = self._cycles()

    def _cycles(self) -> list[Cycle]:
        """From the start of each outermost target forward to the start of its thread's next."""
        reference, ranges = self.reference, self.reference.ranges
        cycles = []
        for lane, thread in enumerate(self.threads):
            own = [row for row in self.rows if ranges[row]["thread"] == thread]
            forwards = sorted(
                (ranges[row]["start_ns"], row) for row in own if reference.forward_of(row) == row
            )
            ends = [start for start, _ in forwards[1:]] + [
                max(ranges[row]["end_ns"] for row in own)
            ]
            for place, (start, row) in enumerate(forwards):
                cycle = Cycle(lane, start, ends[place], row)
                cycle.state = self._state(cycle, own, last=place == len(forwards) - 1)
                cycles.append(cycle)
        return cycles

    def _state(self, cycle: Cycle, own: list[int], *, last: bool) -> str:
        reference = self.reference
        flags = reference.flags[cycle.forward]
        if flags & {"warm-up", "capture"}:
            return "warm_up"
        if flags & {"dummy", "idle"}:
            return "dummy"
        unclosed = [row for row in own if not reference.ranges[row]["closed"]]
        if last or any(
            row == cycle.forward or cycle.holds(cycle.lane, reference.ranges[row]["start_ns"])
            for row in unclosed
        ):
            return "edge"
        prompt = any(
            is_prompt(reference.phase[row])
            and cycle.holds(cycle.lane, reference.ranges[row]["start_ns"])
            for row in own
        )
        return "interrupted" if prompt else "kept"

    def phase_at(self, lane: int, start_ns: int, end_ns: int) -> str | None:
        """The innermost phase of a stretch that no range border cuts."""
        stretch = {"thread": self.threads[lane], "start_ns": start_ns, "end_ns": end_ns}
        row = self.reference.phase_range(stretch)
        return None if row is None else self.reference.phase[row]

    def pieces(self) -> list[tuple[int, int, int, str]]:
        """(lane, start, end, phase) of every stretch; "other" where no phase range is open."""
        found = []
        for lane, thread in enumerate(self.threads):
            own = [self.reference.ranges[row] for row in self.rows]
            times = {
                span[edge]
                for span in own
                if span["thread"] == thread
                for edge in ("start_ns", "end_ns")
            }
            for start, end in pairwise(sorted(times)):
                found.append((lane, start, end, self.phase_at(lane, start, end) or "other"))
        return found

    def windows_of(self, cycle: Cycle) -> dict[str, int]:
        """Time by phase in one cycle."""
        windows: dict[str, int] = defaultdict(int)
        for lane, start, end, phase in self.pieces():
            if cycle.holds(lane, start):
                windows[phase] += end - start
        return dict(windows)


def nonzero(counts: Mapping[Any, int]) -> dict[Any, int]:
    """Without the zeros, which one side may leave out."""
    return {key: value for key, value in counts.items() if value}
