"""What the tool refused to say, and whether it names the measurement that would let it be said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from records import NO_WORD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from records import Recorded, TriedWorld

NO_VERDICT: Final = ("withheld", "unknown", "no report", NO_WORD)
_A_MEASUREMENT: Final = re.compile(
    r"(?i)\brecord|\bmeasure|\bcapture|\btraceanalyzer \w|--[a-z]|\bfind out which count"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal.

    Attributes:
        seed: Of the world.
        way: How it was recorded.
        why: What the tool says; empty where it says nothing.
        next_step: What it names.
    """

    seed: int
    way: str
    why: str
    next_step: str | None

    @property
    def names_a_measurement(self) -> bool:
        """Whether there is something that a user can record or name."""
        return self.next_step is not None and bool(_A_MEASUREMENT.search(self.next_step))


def refusals(worlds: Sequence[TriedWorld]) -> list[Refusal]:
    """Every verdict or report that was refused, and every phase without classes."""
    return [
        Refusal(world.seed, recorded.way, why, step)
        for world in worlds
        for recorded in world.ways
        for why, step in _of(recorded)
    ]


def _of(recorded: Recorded) -> Iterator[tuple[str, str | None]]:
    told = {
        "withheld": ("failed",),
        "no report": ("no report",),
        "unknown": ("missing",),
        NO_WORD: ("nothing",),
    }.get(recorded.outcome, ())
    reasons = [each for each in recorded.remarks if each.kind in told]
    if told and not reasons:
        yield "", None
    for each in reasons:
        yield each.text, each.next_step
    for each in recorded.remarks:
        if each.name == "node recording" and "no shares of" in each.text:
            yield each.text, each.next_step
