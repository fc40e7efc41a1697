"""What vLLM's own log says of acceptance: the sums over its "SpecDecoding metrics" lines.

A line counts the drafts of one log interval (10 s by default), so lines are added up, not averaged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import Known, LeftOut, plural, shown
from traceanalyzer.importers.acceptance.numbers import convert
from traceanalyzer.importers.acceptance.vllm_lines import MetricsLine, metrics_lines
from traceanalyzer.speculation.acceptance import AcceptanceCounts, AcceptanceReading
from traceanalyzer.speculation.conventions import find_convention

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENGINE: Final = re.compile(r"Avg generation throughput: .{,60}?\bRunning: (\d{1,9}) reqs?,")
_VERSION: Final = re.compile(
    r"(?:vLLM API server version|LLM engine \(v|\bvllm==)\s*v?(\d{1,6}\.\d{1,6}\.\d{1,6}[\w.]*)"
)
_Number = TypeVar("_Number", int, float)
_READ_AS: Final = {False: "0.8.5", True: "0.10.2"}  # versions in which either was read


@dataclass(slots=True)
class _Sums:
    """All lines together; survivors are None once a line did not tell them."""

    lines: int = 0
    drafts: int = 0
    accepted: int = 0
    drafted: int = 0
    about: int = 0
    seconds: float = 0.0
    timed_tokens: int = 0
    shares: list[float] = field(default_factory=list)
    survivors: list[int] | None = field(default_factory=list)

    def add(self, line: MetricsLine, draft_tokens: int) -> int:
        drafts, is_exact = line.drafts(draft_tokens)
        self.lines += 1
        self.drafts += drafts
        self.accepted += line.accepted
        self.drafted += line.drafted
        self.about += not is_exact
        if line.drafted_per_s:
            self.seconds += line.drafted / line.drafted_per_s
            self.timed_tokens += line.accepted + drafts
        self.shares = _sum(self.shares, [share * drafts for share in line.survival])
        found = line.survivors(drafts) if is_exact and line.survival else None
        if self.survivors is not None:
            self.survivors = None if found is None else _sum(self.survivors, found)
        return drafts


class VllmLog:
    """Collects what the lines of one server say; see `log` for how it is driven.

    Args:
        known: What the caller knows.
    """

    engine: ClassVar[str] = "vllm"
    kind: ClassVar[str] = "vLLM metrics lines"
    looked_for: ClassVar[str] = "vLLM's 'SpecDecoding metrics: ' lines"

    def __init__(self, known: Known) -> None:
        self.used: int | None = None
        self.unusable: tuple[int, str] | None = None
        self._known = known
        self._version: str | None = None
        self._sums = _Sums()
        self._first: tuple[int, int] | None = None
        self._bonus_included: set[bool] = set()
        self._idle = 0
        self._left_out = LeftOut()
        self._running = self._running_drafts = self._running_sum = 0

    def offer(self, number: int, line: str) -> None:
        """Take what one line says.

        Raises:
            InputError: The line shows that the log holds several servers, or needs to be told
                how many tokens a draft has.
        """
        if "SpecDecoding metrics: " in line:
            for found in metrics_lines(line):
                self._take(number, line, found)
        elif (running := _ENGINE.search(line)) is not None:
            self._running = int(running[1])
        elif "LLM" in line and (version := _VERSION.search(line)) is not None:
            self._version = self._version or version[1]

    def _take(self, number: int, line: str, found: MetricsLine | str) -> None:
        if isinstance(found, str):
            self._left_out.add(found, number, line)
            self.unusable = self.unusable or (number, shown(line))
        elif found.drafted == 0:
            self._idle += 1
            self.unusable = self.unusable or (number, shown(line))
        else:
            draft_tokens = self._positions(number, len(found.survival))
            self.used = self.used or number
            if (bonus := found.bonus_included) is not None:
                self._bonus_included.add(bonus)
            drafts = self._sums.add(found, draft_tokens)
            if self._running:
                self._running_drafts += drafts
                self._running_sum += self._running * drafts

    def _positions(self, number: int, positions: int) -> int:
        self._first = self._first or (number, positions)
        if positions != self._first[1]:
            raise InputError(
                f"line {number} has {positions} positions, line {self._first[0]} has "
                f"{self._first[1]}: the log holds several servers",
                next_step="Give the log of one server.",
            )
        draft_tokens = positions or self._known.draft_tokens
        if positions and self._known.draft_tokens not in (None, positions):
            raise InputError(
                f"line {number} has {positions} positions, and {self._known.draft_tokens} draft "
                "tokens were given",
                next_step="Leave the number of draft tokens out: the log says it.",
            )
        if not draft_tokens:
            raise InputError(
                f"line {number} does not say how many tokens a draft has",
                next_step="Give the number of draft tokens.",
            )
        return draft_tokens

    def reading(self) -> AcceptanceReading:
        """The mean over all drafts, with survival, and counts where three decimals tell them.

        Raises:
            InputError: Lines of two conventions are mixed.
        """
        sums = self._sums
        version = self._known.version or self._version
        included = self._includes_bonus(version)
        convention = find_convention(
            self.engine, "mean acceptance length", _READ_AS[included] if self._told else version
        )
        draft_tokens = (self._first or (0, 0))[1] or self._known.draft_tokens
        mean = sums.accepted / sums.drafts + included
        converted = convert(convention, mean, draft_tokens=draft_tokens)
        return AcceptanceReading(
            source=f"vLLM{f' {version}' if version else ''} log, "
            f"{plural(sums.lines, 'metrics line')}, {plural(sums.drafts, 'draft')}",
            read_as=converted.read_as,
            conversion=converted.conversion,
            accept_len=converted.accept_len,
            draft_tokens=draft_tokens,
            survival=tuple(each / sums.drafts for each in sums.survivors or sums.shares),
            counts=self._cells(),
            request_cycles=sums.drafts,
            committed_tokens=sums.accepted + sums.drafts,
            tokens_per_s=sums.timed_tokens / sums.seconds if sums.seconds else None,
            batch=self._running_sum / self._running_drafts if self._running_drafts else None,
            notes=(*converted.notes, *self._notes(version, included)),
        )

    @property
    def _told(self) -> bool:
        return bool(self._bonus_included)

    def _includes_bonus(self, version: str | None) -> bool:
        """Whether the means count the bonus token: the lines tell, else the version."""
        if len(self._bonus_included) > 1:
            raise InputError(
                "some means include the bonus token and some leave it out: two vLLM versions",
                next_step="Give the log of one server.",
            )
        if self._told:
            return next(iter(self._bonus_included))
        return find_convention(self.engine, "mean acceptance length", version).bonus_included

    def _contradiction(self, version: str | None, included: bool) -> list[str]:
        named = find_convention(self.engine, "mean acceptance length", version)
        if version is None or named.bonus_included == included:
            return []
        return [f"they contradict the version, {version}: the lines are believed"]

    def _cells(self) -> AcceptanceCounts | None:
        survivors = self._sums.survivors
        if not survivors:
            return None
        ends = [self._sums.drafts, *survivors], [*survivors, 0]
        histogram = [before - after for before, after in zip(*ends, strict=True)]
        return AcceptanceCounts.from_histogram(len(survivors), histogram)

    def _notes(self, version: str | None, included: bool) -> list[str]:
        notes = ["lines are weighted by their drafts: drafted tokens over draft tokens"]
        if self._told:
            notes.append("the positions' shares show whether the mean counts the bonus token")
            notes += self._contradiction(version, included)
        if self._sums.about:
            notes.append(
                f"in {plural(self._sums.about, 'line')} drafts were shorter or rounded: their "
                "number is accepted tokens over the positions' shares"
            )
        if self._sums.seconds:
            notes.append("the throughput is over whole log intervals, pauses included")
        if self._idle:
            notes.append(f"{plural(self._idle, 'line')} without drafts left out")
        return notes + self._left_out.notes()


def _sum(left: Sequence[_Number], right: Sequence[_Number]) -> list[_Number]:
    return [a + b for a, b in zip_longest(left, right, fillvalue=0)]
