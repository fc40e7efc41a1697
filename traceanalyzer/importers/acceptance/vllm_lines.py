"""One "SpecDecoding metrics" line of vLLM: its figures, and what they tell together.

Whether the mean includes the bonus token is told by the line's own arithmetic: the positions'
shares add up to the accepted drafts of a draft.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from traceanalyzer.importers.acceptance.lines import CUT, fields_of, number_in, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

_METRICS: Final = re.compile(r"SpecDecoding metrics: ((?:(?!SpecDecoding metrics: ).)*)")
_THREE_DECIMALS: Final = re.compile(r"\d\.\d{3}")
_OF_MEAN: Final = 0.005 + 1e-9  # printed with two decimals
_OF_SHARE: Final = 0.0005 + 1e-9  # printed with three


@dataclass(frozen=True, slots=True)
class MetricsLine:
    """One line of metrics.

    Attributes:
        accepted: Drafts accepted, bonus tokens left out.
        drafted: Tokens drafted.
        mean: Mean acceptance length as printed; None where the line has none (0.8.3).
        survival: Share of drafts that accepted position 1, 2, ... or more.
        drafted_per_s: Drafted tokens a second of the log interval; None where it has none.
    """

    accepted: int
    drafted: int
    mean: float | None
    survival: tuple[float, ...]
    drafted_per_s: float | None

    @property
    def bonus_included(self) -> bool | None:
        """Whether the mean counts the bonus token; None when the line does not tell.

        The positions' shares add up to the accepted drafts of a draft: vLLM 0.8.5 and 0.10.2,
        `v1/spec_decode/metrics.py`.
        """
        if self.mean is None or not self.survival:
            return None
        rest = self.mean - sum(self.survival)
        slack = _OF_MEAN + _OF_SHARE * len(self.survival)
        fits = [bonus for bonus in (False, True) if abs(rest - bonus) <= slack]
        return fits[0] if fits else None

    @property
    def is_whole(self) -> bool:
        """Whether the mean and the positions agree: a line that was cut has too few of them."""
        return not self.survival or self.mean is None or self.bonus_included is not None

    def drafts(self, draft_tokens: int) -> tuple[int, bool]:
        """How many drafts the line counts, and whether that is exact.

        Exact where each draft had all its tokens; else accepted tokens over accepted a draft.
        """
        accepted_a_draft = sum(self.survival)
        drafts, rest = divmod(self.drafted, draft_tokens)
        slack = _OF_SHARE * len(self.survival)
        if rest == 0 and (
            not self.survival or abs(self.accepted / drafts - accepted_a_draft) <= slack
        ):
            return drafts, True
        if accepted_a_draft > 0:
            return max(1, round(self.accepted / accepted_a_draft)), False
        return drafts + (rest > 0), False

    def survivors(self, drafts: int) -> list[int] | None:
        """Drafts that accepted each position; None where three decimals do not tell."""
        counts = [round(share * drafts) for share in self.survival]
        told = drafts * _OF_SHARE < 0.5 and sum(counts) == self.accepted
        falling = all(before >= after for before, after in pairwise([drafts, *counts]))
        return counts if told and falling else None


TOO_MANY_ACCEPTED: Final = "with more tokens accepted than drafted"
DISAGREEING: Final = "whose shares by position do not add up to the mean acceptance length"


def metrics_lines(line: str) -> Iterator[MetricsLine | str]:
    """Read the metrics in a line, of which processes that share a log may have joined two.

    Yields:
        A line of metrics, or why it is of no use: `CUT`, `TOO_MANY_ACCEPTED` or `DISAGREEING`.
    """
    for text in _METRICS.findall(line):
        is_older = text.startswith("Draft acceptance rate")
        yield _metrics_in(fields_of(text + "," if is_older else text))  # it ends with a position


def _metrics_in(fields: dict[str, list[str]]) -> MetricsLine | str:
    accepted = whole_number(_amount(fields, "Accepted", " tokens"))
    drafted = whole_number(_amount(fields, "Drafted", " tokens"))
    positions = fields.get("Per-position acceptance rate", [])
    if accepted is None or drafted is None:
        return CUT
    if accepted > drafted:
        return TOO_MANY_ACCEPTED
    if drafted == 0:
        return MetricsLine(0, 0, None, (), None)  # its means are "nan"
    mean = number_in(_amount(fields, "Mean acceptance length"))
    if (mean is None) != (not positions):
        return CUT
    if not all(_THREE_DECIMALS.fullmatch(each.strip()) for each in positions):
        return CUT
    survival = tuple(float(each) for each in positions)
    drafted_per_s = number_in(_amount(fields, "Drafted throughput", " tokens/s"))
    found = MetricsLine(accepted, drafted, mean, survival, drafted_per_s)
    return found if found.is_whole else DISAGREEING


def _amount(fields: dict[str, list[str]], name: str, unit: str = "") -> str | None:
    """A field without its unit; None when the unit is missing: the field was cut."""
    values = fields.get(name, [])
    return values[0].removesuffix(unit) if len(values) == 1 and values[0].endswith(unit) else None
