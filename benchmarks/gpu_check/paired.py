"""Is one way slower than another? Rounds that run both in turn, and an interval of their medians.

A machine's clock and neighbours drift; what runs within one round drifts together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A median with an interval that holds the true one with `CONFIDENCE`.

    Attributes:
        value: The sample's median.
        low: Lower end.
        high: Upper end.
        count: How many values it is from.
    """

    value: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The median of independent values and its interval between two order statistics.

        The number of values below the true median is binomial with p = 1/2 whatever their
        distribution (David and Nagaraja, Order Statistics, 3rd ed., section 7.1). Fewer than six
        values have no such interval of 95 %: it is then all of them.

        Raises:
            ValueError: There are no values.
        """
        ordered, count = sorted(values), len(values)
        if not count:
            raise ValueError("no values")
        rank, below = 0, 0.5**count
        while 1 - 2 * (below + math.comb(count, rank + 1) * 0.5**count) >= CONFIDENCE:
            rank += 1
            below += math.comb(count, rank) * 0.5**count
        return cls(median(ordered), ordered[rank], ordered[count - 1 - rank], count)

    def text(self, spec: str) -> str:
        """The three figures, each in a format such as ".2f"."""
        return f"{self.value:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


def rounds(ways: Mapping[str, Callable[[], float]], count: int) -> dict[str, list[float]]:
    """Run every way once a round, each round beginning with another one.

    Args:
        ways: What to run, by name; a call returns its cost.
        count: Rounds.

    Returns:
        Costs by name, in order of the rounds.
    """
    names = list(ways)
    costs: dict[str, list[float]] = {name: [] for name in names}
    for number in range(count):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            costs[name].append(ways[name]())
    return costs


def ratio(costs: Sequence[float], baseline: Sequence[float]) -> Interval:
    """How many times as much a way costs, round by round."""
    return Interval.of([one / other for one, other in zip(costs, baseline, strict=True)])


def saving(costs: Sequence[float], baseline: Sequence[float]) -> Interval:
    """How much less a way costs, round by round."""
    return Interval.of([other - one for one, other in zip(costs, baseline, strict=True)])
