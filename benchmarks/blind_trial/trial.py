"""One world: recorded, analysed from its files alone, and held against what it really served."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from recording import Habits, recorded, reports
from records import NO_WORD, Number, Recorded, TriedWorld
from screen import Shown, main_verdict, remarks, shown_numbers
from truth import true_numbers

from traceanalyzer.simulation.worlds import World, draw_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from truth import Truth

    from traceanalyzer.report import Report
    from traceanalyzer.simulation.worlds import DrawnWorld, Figures

_ANOTHER_SESSION: Final = 1_000_000_007
_JITTER_SHARE: Final = 0.03
_SHOWN_ONLY: Final = ("host lead ", "collective wait ")
"""Numbers that are no refusal where they are not shown."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a server really did, speculating and plain."""

    speculating: Figures
    plain: Figures

    @classmethod
    def by(cls, world: World) -> Served:
        """Of one session."""
        return cls(world.served, world.plain.served)


def tried(seed: int, commit: str = "") -> TriedWorld:
    """Try one world; its files are gone afterwards.

    Args:
        seed: Of the world and of how it is recorded.
        commit: Of the code, to be kept with the result.
    """
    start_s = time.process_time()
    world, habits = draw_world(seed), Habits.of(seed)
    twin = Served.by(world)
    served = Served.by(World(replace(world.settings, seed=seed + _ANOTHER_SESSION)))
    with TemporaryDirectory(prefix="blind_trial_") as folder:
        files = recorded(world, habits, Path(folder))
        ways = [
            found if isinstance(found, Recorded) else _compared(way, found, twin, served)
            for way, found in reports(files)
        ]
    return TriedWorld(
        seed,
        world.settings.engine,
        sorted(_behaviours(world, habits)),
        ways,
        round(time.process_time() - start_s, 2),
        commit,
    )


def _compared(way: str, report: Report, twin: Served, served: Served) -> Recorded:
    main = main_verdict(report)
    outcome = report.verdict.outcome if report.verdict else NO_WORD
    if main is None:
        return Recorded(way, outcome, [], remarks(report))
    shape = report.buckets[main.bucket].shape
    shown = shown_numbers(report, main)
    own = true_numbers(twin.speculating, twin.plain, shape)
    other = true_numbers(served.speculating, served.plain, shape)
    names = [name for name in {**own, **shown} if name in shown or not name.startswith(_SHOWN_ONLY)]
    numbers = [_number(name, shown.get(name), own, other) for name in names]
    return Recorded(way, outcome, numbers, remarks(report))


def _number(
    name: str, shown: Shown | None, twin: dict[str, Truth], served: dict[str, Truth]
) -> Number:
    true, other = twin.get(name), served.get(name)
    value, low, high, _ = shown or Shown(None)
    return Number(
        name,
        value,
        low,
        high,
        None if true is None else true.value,
        None if other is None else other.value,
        1.0 if true is None or other is None else other.cycles / true.cycles,
        _scale(name, twin),
    )


def _scale(name: str, twin: dict[str, Truth]) -> float:
    if "share" in name:
        return 1.0
    of = twin.get("period" if name.startswith(("window ", *_SHOWN_ONLY)) else name)
    return 0.0 if of is None else of.value


def _behaviours(world: DrawnWorld, habits: Habits) -> Iterator[str]:
    settings, recorder = world.settings, world.recorders.graph
    parallel, host, load = settings.parallel, settings.host, settings.load
    speculation = settings.speculation
    skewed = parallel.slow_rank_share or parallel.late_launch_us
    told = {
        "dependent launch": settings.costs.dependent_launch_us,
        "spinning collectives": parallel.tensor > 1 and skewed,
        "kernel jitter above 3 %": settings.costs.jitter_share > _JITTER_SHARE,
        "buffer flushes": recorder.flush_every_us,
        "lost buffers": habits.lost_buffers,
        "overlap scheduler": settings.steps_ahead,
        "host stalls": host.stall_every,
        "grammar": host.grammar_us,
        "drafts in trees": speculation.method == "tree",
        "n-gram drafts": speculation.method == "ngram",
        "several draft lengths": len(speculation.draft_tokens) > 1,
        "requests come at random": load.arrivals_per_s,
        "prompts in chunks": load.chunk_tokens,
        "unpadded batches": not load.padded,
        "graph in pieces": settings.piecewise,
        "draft phases fused": settings.fused_propose or settings.engine == "tensorrt_llm",
        "data parallel": parallel.data > 1,
        "pipeline": parallel.pipeline > 1,
        "log named": habits.log,
    }
    return (name for name, does in told.items() if does)
