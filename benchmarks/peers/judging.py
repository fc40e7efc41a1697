"""How far a tool's answer is from the truth of a simulated trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from peers.range_truth import JUDGED

if TYPE_CHECKING:
    from peers.range_truth import Totals

SHOWN: Final = "verify"


@dataclass(frozen=True, slots=True)
class Error:
    """A figure beside its truth.

    Attributes:
        name: Range or phase.
        found_ms: What the tool says; None where it has no such row.
        true_ms: The truth.
    """

    name: str
    found_ms: float | None
    true_ms: float

    @property
    def share(self) -> float:
        """Found against true, as a signed share; a row that is not there is -1."""
        return (self.found_ms or 0.0) / self.true_ms - 1


def errors(found: Totals, truth: Totals) -> list[Error]:
    """Each judged name that the truth has, in nanoseconds by name on both sides."""
    return [
        Error(name, found[name] / 1e6 if name in found else None, truth[name] / 1e6)
        for name in JUDGED
        if truth.get(name)
    ]


def worst(rows: list[Error]) -> Error | None:
    """The row farthest from its truth."""
    return max(rows, key=lambda row: abs(row.share), default=None)


def shown(rows: list[Error]) -> Error | None:
    """The row for the target's forward, else the only one."""
    named = [row for row in rows if row.name == SHOWN]
    return next(iter(named or rows), None)
