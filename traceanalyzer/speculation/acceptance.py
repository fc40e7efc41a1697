"""How many drafts does the target accept? Counts, survival by position, and the ledger of slots.

`accepted` counts drafts only; `accept_len` adds the bonus token that every verify commits.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class AcceptanceCounts:
    """Request-cycles by (k, accepted drafts); the bonus token is in none of them.

    Cells that count nothing are left out, so equal counts are equal.

    Args:
        cells: (draft tokens k, accepted drafts) -> request-cycles.

    Raises:
        InputError: A number is negative, or more drafts were accepted than drafted.
    """

    cells: Mapping[tuple[int, int], int]

    def __post_init__(self) -> None:
        for (k, accepted), count in self.cells.items():
            if accepted < 0 or count < 0 or accepted > k:
                raise InputError(
                    f"{count} request-cycles with {accepted} of {k} drafts accepted cannot be",
                    next_step="Accepted drafts leave the bonus token out: at most k a cycle.",
                )
        kept = {cell: count for cell, count in sorted(self.cells.items()) if count}
        object.__setattr__(self, "cells", kept)

    @classmethod
    def from_histogram(cls, k: int, counts: Sequence[int]) -> AcceptanceCounts:
        """From request-cycles by accepted drafts (from 0 up), all with the same k."""
        return cls({(k, accepted): count for accepted, count in enumerate(counts)})

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[int, int, int]]) -> AcceptanceCounts:
        """From (k, accepted, request-cycles) rows; rows of one cell add up."""
        cells: Counter[tuple[int, int]] = Counter()
        for k, accepted, count in rows:
            if count < 0:
                raise InputError(f"{count} request-cycles cannot be")
            cells[k, accepted] += count
        return cls(cells)

    def __add__(self, other: AcceptanceCounts) -> AcceptanceCounts:
        return AcceptanceCounts(Counter(self.cells) + Counter(other.cells))

    @property
    def request_cycles(self) -> int:
        """Verifies, each request of a batch counted on its own."""
        return sum(self.cells.values())

    @property
    def accepted_drafts(self) -> int:
        """Drafts accepted in all."""
        return sum(accepted * count for (_, accepted), count in self.cells.items())

    @property
    def drafted_tokens(self) -> int:
        """Drafts that were judged in all."""
        return sum(k * count for (k, _), count in self.cells.items())

    @property
    def draft_tokens(self) -> int | None:
        """The k of every cycle; None when it varies or nothing was counted."""
        lengths = {k for k, _ in self.cells}
        return lengths.pop() if len(lengths) == 1 else None

    @property
    def longest(self) -> int:
        """The largest k; 0 when nothing was counted."""
        return max((k for k, _ in self.cells), default=0)

    @property
    def accept_len(self) -> float | None:
        """Tokens a request-cycle with the bonus token, overshoot still in; None without cycles."""
        cycles = self.request_cycles
        return 1 + self.accepted_drafts / cycles if cycles else None

    @property
    def accepted_sd(self) -> float | None:
        """Sample standard deviation of accepted drafts a request-cycle; None below two cycles."""
        cycles = self.request_cycles
        if cycles < 2:
            return None
        mean = self.accepted_drafts / cycles
        squares = math.fsum((each - mean) ** 2 * count for (_, each), count in self.cells.items())
        return math.sqrt(squares / (cycles - 1))

    def histogram(self) -> tuple[int, ...]:
        """Request-cycles by accepted drafts, from 0 to the largest k."""
        counted: Counter[int] = Counter()
        for (_, accepted), count in self.cells.items():
            counted[accepted] += count
        return tuple(counted[accepted] for accepted in range(self.longest + 1 if counted else 0))

    def at_risk(self) -> tuple[tuple[int, int], ...]:
        """(reached i, had the chance to) in request-cycles, for i = 1 to the largest k.

        A cycle had the chance when it drafted i tokens or more and accepted the i - 1 before.
        """
        return tuple(self._at_risk(position) for position in range(1, self.longest + 1))

    def _at_risk(self, position: int) -> tuple[int, int]:
        reached = chances = 0
        for (k, accepted), count in self.cells.items():
            if k >= position:
                reached += count * (accepted >= position)
                chances += count * (accepted >= position - 1)
        return reached, chances

    def conditional(self) -> tuple[float | None, ...]:
        """P(accepted >= i given accepted >= i - 1) for i = 1 to the largest k; None: no chance."""
        return tuple(reached / chances if chances else None for reached, chances in self.at_risk())

    def survival(self) -> tuple[float, ...]:
        """P(accepted >= i) for i = 1 to the largest k.

        Where k varies, a cycle that accepted all it drafted says nothing of later positions: it is
        censored there, and the estimate is the product of the conditionals (Kaplan and Meier 1958,
        J. Am. Stat. Assoc. 53). It is unbiased when k does not depend on what will be accepted. A
        position that no cycle had the chance to reach counts as not reached (Efron 1967), so what
        follows it is a lower bound.
        """
        return survival_from_conditional([each or 0.0 for each in self.conditional()])


def survival_from_conditional(conditional: Sequence[float]) -> tuple[float, ...]:
    """P(accepted >= i) from P(accepted >= i given accepted >= i - 1): their products."""
    return tuple(accumulate(conditional, mul))


def conditional_from_survival(survival: Sequence[float]) -> tuple[float | None, ...]:
    """P(accepted >= i given accepted >= i - 1); None behind a position never reached."""
    before = (1.0, *survival)
    return tuple(after / at if at else None for at, after in zip(before, survival, strict=False))


def accept_len_from_survival(survival: Sequence[float]) -> float:
    """Tokens a cycle, bonus included: 1 + sum of P(accepted >= i).

    Source: the expectation of a count is the sum of its survival; SGLang's `get_expected_tokens`
    and vLLM's per-position counters rest on it.
    """
    return 1 + math.fsum(survival)


def sd_from_survival(survival: Sequence[float]) -> float:
    """Standard deviation of accepted drafts a cycle; E[a^2] = sum of (2 i - 1) P(a >= i)."""
    mean = math.fsum(survival)
    square = math.fsum((2 * at - 1) * each for at, each in enumerate(survival, start=1))
    return math.sqrt(max(0.0, square - mean**2))


def geometric_survival(alpha: float, k: int) -> tuple[float, ...]:
    """P(accepted >= i) = alpha^i for i = 1 to k: each draft accepted alike and on its own.

    Source: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), Eq. 1. Real drafts mostly fall
    faster at first and slower later: for use only where counts by position are missing.

    Raises:
        InputError: alpha is not within 0 to 1.
    """
    if not 0 <= alpha <= 1:
        raise InputError(f"an acceptance probability of {alpha} cannot be")
    return tuple(alpha**position for position in range(1, k + 1))


def alpha_of(accept_len: float, k: int) -> float:
    """The alpha whose `geometric_survival` over k drafts gives this accept_len, by bisection.

    Raises:
        InputError: No alpha gives it: it is not within 1 to k + 1, or k is 0.
    """
    if k < 1 or not 1 <= accept_len <= k + 1:
        raise InputError(f"no acceptance probability gives {accept_len:g} tokens from {k} drafts")
    low, high = 0.0, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        enough = accept_len_from_survival(geometric_survival(middle, k)) >= accept_len
        low, high = (low, middle) if enough else (middle, high)
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLedger:
    """Where the verified slots went; `verified` is the sum of the rest.

    Attributes:
        verified: Tokens the target verified, one bonus slot a request-cycle included.
        committed: Sent on, the bonus token included.
        rejected: Drafts that the target refused.
        overshoot: Accepted past a request's end of sequence or token limit.
        stale: Verified for requests that were finished or retracted by then.
        idle: Padding.

    Raises:
        ValueError: A number is negative, or they do not add up.
    """

    verified: int
    committed: int
    rejected: int
    overshoot: int = 0
    stale: int = 0
    idle: int = 0

    def __post_init__(self) -> None:
        parts = (self.committed, self.rejected, self.overshoot, self.stale, self.idle)
        if min(parts) < 0 or sum(parts) != self.verified:
            raise ValueError(f"{self.verified} verified slots are not the sum of {parts}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceReading:
    """Acceptance as somebody else counted it, brought to our definition.

    Attributes:
        source: Where it was read ("SGLang 0.5.9 log, 19 decode lines").
        read_as: What the number means there.
        conversion: What was done to it ("none", "+ 1: the bonus token was left out").
        accept_len: Tokens a request-cycle, bonus included.
        draft_tokens: k.
        survival: P(accepted >= i), i from 1 up; empty when unknown.
        counts: The counts themselves, where they were given.
        request_cycles: Verifies behind the number.
        committed_tokens: Tokens committed in them.
        tokens_per_s: Throughput of all running requests together.
        batch: Mean running requests.
        notes: What a reader should know of its weaknesses.
    """

    source: str
    read_as: str
    conversion: str
    accept_len: float
    draft_tokens: int | None = None
    survival: tuple[float, ...] = ()
    counts: AcceptanceCounts | None = None
    request_cycles: int | None = None
    committed_tokens: int | None = None
    tokens_per_s: float | None = None
    batch: float | None = None
    notes: tuple[str, ...] = ()
