"""A server's forwards for one batch size, and their graphs as it captures them when it starts."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from traceanalyzer.simulation.graph_capture import CaptureStyle, capture_graph
from traceanalyzer.simulation.lockstep import FUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.simulation.group import Group
    from traceanalyzer.simulation.settings import Eagle3Settings
    from traceanalyzer.simulation.work import CapturedGraph, Work

_WARM_UP_FACTOR = 1.6


@dataclass(slots=True)
class Forwards:
    """Kernels of the forwards for one batch size, and the graphs captured from them."""

    works: dict[str, list[Work]]
    graphs: dict[str, list[CapturedGraph]] = field(default_factory=dict)
    slow_works: dict[str, list[Work]] = field(default_factory=dict)

    def warming_up(self, phase: str) -> list[Work]:
        """A phase's kernels while the server warms up."""
        if phase not in self.slow_works:
            self.slow_works[phase] = [
                replace(work, duration_ns=int(work.duration_ns * _WARM_UP_FACTOR))
                for work in self.works[phase]
            ]
        return self.slow_works[phase]


def node_ranks(settings: Eagle3Settings, *, detailed: bool) -> int:
    """How many ranks have replays written node by node, in detailed cycles or in others."""
    if settings.graph_mode == "node":
        return settings.ranks
    return settings.detail_ranks if detailed else 0


def capture_forwards(
    settings: Eagle3Settings,
    group: Group,
    by_size: Mapping[int, Forwards],
    *,
    backwards: bool = False,
) -> None:
    """Construct all graphs with the server's own ranges open, as hooks at start-up do."""
    phases = _captured_phases(settings)
    for own in by_size.values():
        for phase in reversed(phases) if backwards else phases:
            _capture(settings, group, own, phase, detailed=settings.detail_cycles > 0)
    if settings.prefill_replayed:
        own = by_size[settings.batch_sizes[0]]
        for phase in ("prefill", "draft_prefill") if settings.speculates else ("prefill",):
            _capture(settings, group, own, phase, detailed=False)


def _captured_phases(settings: Eagle3Settings) -> list[str]:
    if not settings.speculates:
        return ["decode"]
    target = [] if settings.verify_eager else ["verify"]
    phases = [FUSED] if settings.fused else ["draft", *target, "draft_extend"]
    return [*phases, "decode"] if settings.decode_every else phases


def capture_again(settings: Eagle3Settings, group: Group, by_size: Mapping[int, Forwards]) -> None:
    """Destroy all graphs and capture them in another order, with ids from the first on."""
    for rank in group.ranks:
        rank.next_graph = rank.next_node = 1
    capture_forwards(settings, group, by_size, backwards=True)


def fused_works(works: Mapping[str, list[Work]]) -> list[Work]:
    """All phases in the order in which one graph runs them; `works` has sampling too."""
    order = ("verify", "sample", "draft_extend", "draft")
    return [replace(work, phase=phase) for phase in order for work in works[phase]]


def _capture(
    settings: Eagle3Settings, group: Group, own: Forwards, phase: str, *, detailed: bool
) -> None:
    if not own.works[phase]:
        return
    style = CaptureStyle(settings.capture_recorded, settings.inner_ranges, settings.graph_clones)
    with ExitStack() as ranges:
        if style.recorded:
            ranges.enter_context(group.range("capture", 0))
            if phase != FUSED:
                ranges.enter_context(group.range(phase, 0))
        own.graphs[phase] = capture_graph(
            group,
            own.works[phase],
            style,
            node_ranks=node_ranks(settings, detailed=detailed),
        )
