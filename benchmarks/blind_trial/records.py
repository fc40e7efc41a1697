"""What the trial keeps of one world: numbers beside their truths, and what the tool remarked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

NO_WORD: Final = "none"
"""Outcome of a report without a verdict."""

_CLOCK_SHARE: Final = 1e-5
"""Of a number, by which drifting clocks may move it: an interval of no width is not missed so."""


@dataclass(frozen=True, slots=True)
class Number:
    """One number of the first screen.

    Attributes:
        name: Its name; of windows and shares with their phase.
        estimate: As printed; None where the tool gives none, though there is a truth.
        low: Lower end of its 95 % interval, None without one.
        high: Upper end.
        twin: Truth of the same session, served untraced: what differs is the recorder's and the
            tool's doing.
        served: Truth of another session of the same server: the chance of the session recorded
            is in the difference too, which is what the interval speaks of.
        more_cycles: Of that session, over those behind the estimate.
        scale: What a difference is divided by to be a share: the value itself, for windows,
            waits and leads the period, for shares 1.
    """

    name: str
    estimate: float | None
    low: float | None
    high: float | None
    twin: float | None
    served: float | None
    more_cycles: float
    scale: float

    @property
    def has_interval(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None

    def covers_twin(self) -> bool | None:
        """Whether the interval holds the same session's truth; None where nothing can be said."""
        if self.low is None or self.high is None or self.twin is None:
            return None
        slack = _CLOCK_SHARE * abs(self.twin)
        return self.low - slack <= self.twin <= self.high + slack

    def covers_served(self) -> bool | None:
        """Whether the interval holds the server's truth, that one's own chance allowed for.

        The other session's mean is off as well, by an interval that differs by the root of how
        many more cycles it has: the two add up in squares.
        """
        if self.low is None or self.high is None or self.served is None or self.estimate is None:
            return None
        wider = math.sqrt(1 + 1 / self.more_cycles)
        below = wider * (self.estimate - self.low)
        above = wider * (self.high - self.estimate)
        slack = _CLOCK_SHARE * abs(self.served)
        return self.estimate - below - slack <= self.served <= self.estimate + above + slack

    @property
    def bias(self) -> float | None:
        """Estimate less the same session's truth, as a share."""
        if self.estimate is None or self.twin is None or not self.scale:
            return None
        return (self.estimate - self.twin) / self.scale

    @property
    def chance(self) -> float | None:
        """By how much the two untraced sessions differ, as a share."""
        if self.twin is None or self.served is None or not self.scale:
            return None
        return abs(self.served - self.twin) / self.scale


SCOPE: Final = "scope"


@dataclass(frozen=True, slots=True)
class Remark:
    """A failed or warning check, a finding, a refusal, or something that is missing.

    Attributes:
        kind: "failed", "warning", "finding", "missing", "refused phase", "no report", or `SCOPE`:
            whom the verdict is about, where that is less than the server.
        name: Of the check or finding.
        text: What it says.
        next_step: What would mend it.
    """

    kind: str
    name: str
    text: str
    next_step: str | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """One way to record a world.

    Attributes:
        way: The way.
        outcome: Of the verdict; "no report" where the tool refused its input, `NO_WORD`
            where it has none.
        numbers: Of the main bucket.
        remarks: What was said beside them.
    """

    way: str
    outcome: str
    numbers: list[Number] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def number(self, name: str) -> Number | None:
        """The number of a name."""
        return next((each for each in self.numbers if each.name == name), None)


@dataclass(frozen=True, slots=True)
class TriedWorld:
    """One world.

    Attributes:
        seed: Draws it.
        engine: Its engine.
        behaviours: What it does.
        ways: Each way in which it was recorded.
        cpu_s: What simulating, recording and analysing it cost.
        commit: Of the code that did.
    """

    seed: int
    engine: str
    behaviours: list[str]
    ways: list[Recorded]
    cpu_s: float
    commit: str
