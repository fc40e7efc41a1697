"""What makes two captures not comparable, or their comparison weak?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.report.comparison import Obstacle
from traceanalyzer.verdict.matching import differences

if TYPE_CHECKING:
    from traceanalyzer.report import Report

_ENOUGH_CYCLES: Final = 30
_ABOUT_THE_BASELINE: Final = "baseline"  # a check of another capture
_HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class Pair:
    """Two captures, and what to call them in a sentence."""

    a: Report
    b: Report
    names: tuple[str, str] = ("A", "B")

    @property
    def named(self) -> tuple[tuple[str, Report], tuple[str, Report]]:
        """Each with its name."""
        return (self.names[0], self.a), (self.names[1], self.b)

    def with_first(self, *, is_a: bool) -> tuple[str, str]:
        """Both names, A's first or B's."""
        return self.names if is_a else (self.names[1], self.names[0])


def obstacles(pair: Pair) -> list[Obstacle]:
    """Everything that stands against comparing two captures, what blocks a verdict first."""
    found = [
        *_time_base(pair),
        *_synchronised(pair),
        *_failed_checks(pair),
        *_gpus(pair),
        *_graph_rows(pair),
        *_inferred(pair),
        *_recorded_alike(pair),
        *_few_cycles(pair),
    ]
    return sorted(found, key=lambda each: not each.blocks)


def no_match(a: Report, b: Report) -> Obstacle:
    """That no bucket of A can be compared with one of B, and in what the largest differ."""
    step = "Record both at the same batch and with the same drafts."
    for name, report in (("A", a), ("B", b)):
        if not report.buckets:
            text = f"{name} holds no complete decode cycle"
            return Obstacle("shape", text, "Record longer, or name its ranges.", True)
    one, other = a.buckets[0].shape, b.buckets[0].shape
    told = differences(one, other) or ["several cycles of unknown shape on one side"]
    text = f"no cycles of A have the shape of cycles of B: {', '.join(told)}"
    if "draft tokens" in text and one.batch == other.batch:
        step += " Captures at several k are for: traceanalyzer sweep."
    return Obstacle("shape", text, step, True)


def gpu_names(report: Report) -> list[str]:
    """Types of the GPUs in a capture, as far as they are told."""
    return sorted({rank.device.name for rank in report.ranks if rank.device and rank.device.name})


def _time_base(pair: Pair) -> list[Obstacle]:
    bases = {pair.a.capture.time_base, pair.b.capture.time_base}
    if len(bases) == 1:
        if bases == {"gpu"}:
            return []
        text = "both are timed on the host, since neither holds GPU work"
        return [Obstacle("time base", text, "Record CUDA too, to compare GPU time.", False)]
    host, _ = pair.with_first(is_a=pair.a.capture.time_base == "host")
    text = f"{host} is timed on the host and the other on the GPU"
    return [Obstacle("time base", text, f"Record {host} with CUDA tracing.", True)]


def _synchronised(pair: Pair) -> list[Obstacle]:
    ours, theirs = _is_synchronised(pair.a), _is_synchronised(pair.b)
    if ours == theirs:
        return []
    one, other = pair.with_first(is_a=ours)
    text = (
        f"{one} was recorded under synchronising timers and {other} was not: what differs is, at "
        "least in part, what the timers cost"
    )
    return [Obstacle("synchronisation", text, f"Record {one} without them.", True)]


def _is_synchronised(report: Report) -> bool:
    found = report.instrumentation
    return found is not None and found.synchronised


def _failed_checks(pair: Pair) -> list[Obstacle]:
    """Failed checks of either; synchronising timers in one of them are told by themselves."""
    told = _is_synchronised(pair.a) != _is_synchronised(pair.b)
    return [
        Obstacle(check.check, f"{name}: {check.text}", check.next_step, True)
        for name, report in pair.named
        for check in report.trust
        if check.status == "failed"
        and check.check != _ABOUT_THE_BASELINE
        and not (told and check.check == "instrumentation")
    ]


def _gpus(pair: Pair) -> list[Obstacle]:
    ours, theirs = gpu_names(pair.a), gpu_names(pair.b)
    if not ours or not theirs or ours == theirs:
        return []
    one, other = pair.names
    text = f"the GPUs differ: {', '.join(ours)} in {one}, {', '.join(theirs)} in {other}"
    return [Obstacle("GPUs", text, "Record both on GPUs of one type.", True)]


def _graph_rows(pair: Pair) -> list[Obstacle]:
    """Recording nodes slows graphs and whole-graph rows hide the gaps in them."""
    ours, theirs = _whole_graphs(pair.a), _whole_graphs(pair.b)
    if ours is None or theirs is None or ours == theirs:
        return []
    one, other = pair.with_first(is_a=ours)
    text = (
        f"{one} recorded graph replays as whole rows and {other} node by node, which slows them; "
        "idle time inside a replay shows in one of them only"
    )
    return [Obstacle("graphs", text, "Record both with the same --cuda-graph-trace.", True)]


def _inferred(pair: Pair) -> list[Obstacle]:
    """Where phases end is told by other evidence on one side than on the other."""
    names = [
        name
        for name, report in pair.named
        if report.inference is not None and report.inference.inferred
    ]
    if len(names) != 1:
        return []
    text = f"the phases of {names[0]} are inferred and those of the other are measured"
    step = f"Record {names[0]} with ranges around its phases."
    return [Obstacle("phases", text, step, False)]


def _whole_graphs(report: Report) -> bool | None:
    """Whether most graph replays are whole-graph rows; None when no graph was replayed."""
    phases = [phase for rank in report.ranks for phase in rank.phases]
    launches = sum(phase.graph_launches for phase in phases)
    if not launches:
        return None
    return sum(phase.graph_rows for phase in phases) > _HALF * launches


def _recorded_alike(pair: Pair) -> list[Obstacle]:
    found, (one, other) = [], pair.names
    products = [report.capture.files[0].product for report in (pair.a, pair.b)]
    if products[0] != products[1]:
        text = f"{one} was recorded by {products[0]} and {other} by {products[1]}"
        found.append(Obstacle("profiler", text, "Record both in the same way.", False))
    ranks = len(pair.a.ranks), len(pair.b.ranks)
    if ranks[0] != ranks[1]:
        text = f"the number of ranks differs: {ranks[0]} in {one}, {ranks[1]} in {other}"
        step = "Make sure that both servers are as large, or compare the same ranks."
        found.append(Obstacle("ranks", text, step, False))
    return found


def _few_cycles(pair: Pair) -> list[Obstacle]:
    told = [
        f"{name} holds {count}"
        for name, report in pair.named
        if report.ranks and report.buckets and (count := _kept(report)) < _ENOUGH_CYCLES
    ]
    if not told:
        return []
    text = f"few complete cycles on the rank with fewest: {', '.join(told)}"
    return [Obstacle("cycles", text, "Record more cycles for figures that repeat.", False)]


def _kept(report: Report) -> int:
    return min((rank.cycles.kept for rank in report.ranks if rank.cycles.kept), default=0)
