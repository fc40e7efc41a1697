"""From tried worlds to counts: how often intervals hold the truth, how far estimates lie off."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from records import SCOPE
from refusals import NO_VERDICT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from records import Number, Recorded, TriedWorld

MOST_UNTOLD_BIAS: Final = 0.02
ALL_CYCLES: Final = "speed-up of all cycles"
AT_RANDOM: Final = "requests come at random"
TOLD_BY: Final = frozenset(
    {
        "instrumentation",
        "node recording",
        "profiler overhead",
        "profiler_overhead",
        "recorder",
        "buffers_lost",
        "synchronisation_in_phases",
        "acceptance",
        "baseline",
    }
)
"""Checks and findings that say that figures of this capture are not those of the server."""


@dataclass(frozen=True, slots=True)
class Case:
    """One number of one world, recorded in one way."""

    world: TriedWorld
    recorded: Recorded
    number: Number

    @property
    def told(self) -> bool:
        """Whether the tool says that figures are off, or withholds its verdict."""
        return is_told(self.recorded)

    @property
    def untold_bias(self) -> float | None:
        """Its bias where that is a fault.

        It is where the number has no interval, is off by more than `MOST_UNTOLD_BIAS`, by more
        than any interval shown beside it and by more than two untraced sessions differ, and nothing
        says so.
        """
        bias = self.number.bias
        if bias is None or self.number.has_interval or self.told or self._hangs_on_arrivals:
            return None
        within = max(MOST_UNTOLD_BIAS, widest(self.recorded), self.number.chance or 0.0)
        return bias if abs(bias) > within else None

    @property
    def _hangs_on_arrivals(self) -> bool:
        """Whether each session has a truth of its own, not the server's: how busy it was."""
        return self.number.name.startswith("host lead") and AT_RANDOM in self.world.behaviours


@dataclass(frozen=True, slots=True)
class Row:
    """Cases of one kind.

    Attributes:
        cases: With an estimate and a truth.
        refused: With a truth and no estimate, or no verdict.
        intervals: With an interval and the server's truth.
        served: Of those, with the truth inside.
        twins: With an interval and the same session's truth.
        twin: Of those, with the truth inside.
        untold: Intervals without the server's truth where nothing says that figures are off.
        median_bias: Of all, as a share; None without any.
        worst: Case with the largest bias.
    """

    cases: int
    refused: int
    intervals: int
    served: int
    twins: int
    twin: int
    untold: int
    median_bias: float | None
    worst: Case | None


def is_told(recorded: Recorded) -> bool:
    """Whether anything said beside the numbers says that they are off."""
    return recorded.outcome in NO_VERDICT or any(
        each.name in TOLD_BY and each.kind != "missing" for each in recorded.remarks
    )


def widest(recorded: Recorded) -> float:
    """The widest interval shown, as a share of its number to the farther end."""
    shares = [
        max(each.high - each.estimate, each.estimate - each.low) / abs(each.estimate)
        for each in recorded.numbers
        if each.estimate and each.low is not None and each.high is not None
    ]
    return max(shares, default=0.0)


def cases_of(worlds: Iterable[TriedWorld], way: str) -> list[Case]:
    """All numbers of one way that have a truth."""
    return [
        Case(world, recorded, number)
        for world in worlds
        for recorded in world.ways
        if recorded.way == way
        for number in recorded.numbers
        if number.twin is not None
    ]


def grouped(cases: Iterable[Case], key: Callable[[Case], str]) -> dict[str, list[Case]]:
    """Cases by a name, in the order in which names come first."""
    found: dict[str, list[Case]] = defaultdict(list)
    for each in cases:
        found[key(each)].append(each)
    return dict(found)


def row_of(cases: Sequence[Case]) -> Row:
    """Counts over some cases."""
    given = [each for each in cases if each.number.estimate is not None]
    served = [(each, each.number.covers_served()) for each in given]
    judged = [(each, covers) for each, covers in served if covers is not None]
    twins = [covers for each in given if (covers := each.number.covers_twin()) is not None]
    biased = [each for each in given if each.number.bias is not None]
    biases = [each.number.bias or 0.0 for each in biased]
    return Row(
        len(given),
        sum(each.number.estimate is None or each.recorded.outcome in NO_VERDICT for each in cases),
        len(judged),
        sum(covers for _, covers in judged),
        len(twins),
        sum(twins),
        sum(not covers and not each.told for each, covers in judged),
        median(biases) if biases else None,
        max(biased, key=lambda each: abs(each.number.bias or 0.0), default=None),
    )


def headline(recorded: Recorded) -> Number | None:
    """The speed-up that the verdict rests on."""
    return recorded.number(ALL_CYCLES) or recorded.number("speed-up")


def wrong_signs(worlds: Iterable[TriedWorld], *, of_twin: bool) -> list[tuple[TriedWorld, str]]:
    """Verdicts whose truth lies on the other side of 1, and outside of their interval.

    Args:
        worlds: Tried ones.
        of_twin: By the truth of the same session, else by that of another one, of which a
            verdict about one request says nothing.
    """
    found = []
    for world in worlds:
        for recorded in world.ways:
            number = headline(recorded)
            if recorded.outcome not in ("winning", "losing") or number is None:
                continue
            if not of_twin and any(each.kind == SCOPE for each in recorded.remarks):
                continue
            truth = number.twin if of_twin else number.served
            covers = number.covers_twin() if of_twin else number.covers_served()
            if truth and not covers and (recorded.outcome == "winning") != (truth > 1):
                found.append((world, recorded.way))
    return found
