"""What makes two captures not comparable, or their comparison weak?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.report.comparison import Obstacle
from traceanalyzer.verdict.baseline import is_synchronised
from traceanalyzer.verdict.matching import differences

if TYPE_CHECKING:
    from traceanalyzer.report import Report

_ENOUGH_CYCLES: Final = 30
_ABOUT_THE_BASELINE: Final = "baseline"  # a check of another capture
_HALF: Final = 0.5


def obstacles(a: Report, b: Report) -> list[Obstacle]:
    """Everything that stands against comparing A with B, what blocks a verdict first.

    Args:
        a: One capture.
        b: The other one.
    """
    found = [
        *_time_base(a, b),
        *_synchronised(a, b),
        *_failed_checks(a, b),
        *_gpus(a, b),
        *_graph_rows(a, b),
        *_recorded_alike(a, b),
        *_few_cycles(a, b),
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


def _time_base(a: Report, b: Report) -> list[Obstacle]:
    bases = {a.capture.time_base, b.capture.time_base}
    if len(bases) == 1:
        if bases == {"gpu"}:
            return []
        text = "both are timed on the host, since neither holds GPU work"
        return [Obstacle("time base", text, "Record CUDA too, to compare GPU time.", False)]
    host = "A" if a.capture.time_base == "host" else "B"
    text = f"{host} is timed on the host and the other on the GPU"
    return [Obstacle("time base", text, f"Record {host} with CUDA tracing.", True)]


def _synchronised(a: Report, b: Report) -> list[Obstacle]:
    ours, theirs = _is_synchronised(a), _is_synchronised(b)
    if ours == theirs:
        return []
    one, other = ("A", "B") if ours else ("B", "A")
    text = (
        f"{one} was recorded under synchronising timers and {other} was not: what differs is, at "
        "least in part, what the timers cost"
    )
    return [Obstacle("synchronisation", text, f"Record {one} without them.", True)]


def _is_synchronised(report: Report) -> bool:
    found = report.instrumentation
    return found is not None and is_synchronised(found.device_syncs_per_cycle)


def _failed_checks(a: Report, b: Report) -> list[Obstacle]:
    """Failed checks of either; synchronising timers in one of them are told by themselves."""
    told = _is_synchronised(a) != _is_synchronised(b)
    return [
        Obstacle(check.check, f"{name}: {check.text}", check.next_step, True)
        for name, report in (("A", a), ("B", b))
        for check in report.trust
        if check.status == "failed"
        and check.check != _ABOUT_THE_BASELINE
        and not (told and check.check == "instrumentation")
    ]


def _gpus(a: Report, b: Report) -> list[Obstacle]:
    ours, theirs = gpu_names(a), gpu_names(b)
    if not ours or not theirs or ours == theirs:
        return []
    text = f"the GPUs differ: {', '.join(ours)} in A, {', '.join(theirs)} in B"
    return [Obstacle("GPUs", text, "Record both on GPUs of one type.", True)]


def _graph_rows(a: Report, b: Report) -> list[Obstacle]:
    """Recording nodes slows graphs and whole-graph rows hide the gaps in them."""
    ours, theirs = _whole_graphs(a), _whole_graphs(b)
    if ours is None or theirs is None or ours == theirs:
        return []
    one, other = ("A", "B") if ours else ("B", "A")
    text = (
        f"{one} recorded graph replays as whole rows and {other} node by node, which slows them; "
        "idle time inside a replay shows in one of them only"
    )
    return [Obstacle("graphs", text, "Record both with the same --cuda-graph-trace.", True)]


def _whole_graphs(report: Report) -> bool | None:
    """Whether most graph replays are whole-graph rows; None when no graph was replayed."""
    phases = [phase for rank in report.ranks for phase in rank.phases]
    launches = sum(phase.graph_launches for phase in phases)
    if not launches:
        return None
    return sum(phase.graph_rows for phase in phases) > _HALF * launches


def _recorded_alike(a: Report, b: Report) -> list[Obstacle]:
    found = []
    products = [report.capture.files[0].product for report in (a, b)]
    if products[0] != products[1]:
        text = f"A was recorded by {products[0]} and B by {products[1]}, which cost differently"
        found.append(Obstacle("profiler", text, "Record both in the same way.", False))
    if len(a.ranks) != len(b.ranks):
        text = f"the number of ranks differs: {len(a.ranks)} in A, {len(b.ranks)} in B"
        step = "Make sure that both servers are as large, or compare the same ranks."
        found.append(Obstacle("ranks", text, step, False))
    return found


def _few_cycles(a: Report, b: Report) -> list[Obstacle]:
    told = [
        f"{name} holds {count}"
        for name, report in (("A", a), ("B", b))
        if report.ranks and report.buckets and (count := _kept(report)) < _ENOUGH_CYCLES
    ]
    if not told:
        return []
    text = f"few complete cycles on the rank with fewest: {', '.join(told)}"
    return [Obstacle("cycles", text, "Record more cycles for figures that repeat.", False)]


def _kept(report: Report) -> int:
    return min((rank.cycles.kept for rank in report.ranks if rank.cycles.kept), default=0)
