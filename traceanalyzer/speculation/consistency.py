"""Do several counts of the same acceptance agree, and what explains one that is too low?

Counters, committed tokens and throughput times period must all give one accept_len.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import InputError
from traceanalyzer.speculation.confidence import Z_95, cycles_needed
from traceanalyzer.speculation.conventions import impossible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.speculation.acceptance import AcceptanceReading
    from traceanalyzer.speculation.confidence import Estimate

TOLERANCE_SHARE: Final = 0.05
"""How far two counts may lie apart before one of them must be wrong."""

_THROUGHPUT: Final = "tokens/s x period"
_ROUNDING: Final = 0.005  # numbers are printed with two decimals


@dataclass(frozen=True, slots=True)
class CountedLength:
    """One way to an accept_len, bonus included."""

    name: str
    accept_len: float


@dataclass(frozen=True, slots=True)
class Consistency:
    """The ways to one accept_len side by side.

    Attributes:
        rows: The known ones, in the order counters, committed tokens, throughput.
        agree: Nothing contradicts: all within the tolerance, none impossible. With one row there
            is nothing to compare, see `compared`.
        texts: What does not fit, each with what it may be.
    """

    rows: tuple[CountedLength, ...]
    agree: bool
    texts: tuple[str, ...]

    @property
    def compared(self) -> bool:
        """Whether there were two ways or more."""
        return len(self.rows) > 1


def three_way(
    counters_accept_len: float | None,
    tokens_per_cycle: float | None,
    tokens_per_s: float | None,
    period_ms: float | None,
    *,
    batch: float = 1.0,
    draft_tokens: int | None = None,
) -> Consistency:
    """Compare what counters say, what was committed, and what throughput implies.

    Args:
        counters_accept_len: As the engine's counters give it.
        tokens_per_cycle: Committed tokens over request-cycles.
        tokens_per_s: Of all requests together, measured from outside.
        period_ms: Start to start of cycles; with `tokens_per_s` it implies an accept_len.
        batch: Requests that shared a cycle.
        draft_tokens: k, for the largest length possible.

    Raises:
        InputError: The period, the throughput or the batch is not positive.
    """
    rows = []
    if counters_accept_len is not None:
        rows.append(CountedLength("counters", counters_accept_len))
    if tokens_per_cycle is not None:
        rows.append(CountedLength("committed tokens / request-cycles", tokens_per_cycle))
    needed = None
    if tokens_per_s is not None and period_ms is not None:
        implied = implied_accept_len(tokens_per_s, period_ms, batch)
        if counters_accept_len is not None:
            needed = _needed_period(counters_accept_len, implied, period_ms)
        rows.append(CountedLength(_THROUGHPUT, implied))
    found = [*(_out_of_bounds(row, draft_tokens) for row in rows), *_disagreements(rows), needed]
    texts = tuple(text for text in found if text)
    return Consistency(rows=tuple(rows), agree=not texts, texts=texts)


def _out_of_bounds(row: CountedLength, draft_tokens: int | None) -> str | None:
    if row.name != _THROUGHPUT:
        text = impossible(row.accept_len, draft_tokens)
        return f"{row.name}: {text}" if text else None
    if row.accept_len < 1 - TOLERANCE_SHARE:
        cause = "the throughput holds time outside these cycles, or fewer requests ran"
    elif draft_tokens is not None and row.accept_len > (1 + TOLERANCE_SHARE) * (draft_tokens + 1):
        cause = "more requests ran, or the period is another run's"
    else:
        return None
    return f"{row.name}: {row.accept_len:.2f} tokens a cycle cannot be: {cause}"


def _disagreements(rows: Sequence[CountedLength]) -> list[str]:
    texts = []
    for row, reference in combinations(rows, 2):
        if not _apart(row.accept_len, reference.accept_len):
            continue
        text = f"{row.name} {row.accept_len:.2f}, but {reference.name} {reference.accept_len:.2f}"
        if bonus_excluded_looking(row.accept_len, reference.accept_len):
            text += (
                f": {row.accept_len:.2f} looks as if the bonus token were left out "
                f"({row.accept_len + 1:.2f} with it)"
            )
        elif bonus_twice_looking(row.accept_len, reference.accept_len):
            text += f": {row.accept_len:.2f} looks as if the bonus token were counted twice"
        texts.append(text)
    return texts


def _needed_period(counted: float, implied: float, period_ms: float) -> str | None:
    """The period that would reconcile the counters with the throughput."""
    if not _apart(counted, implied):
        return None
    if bonus_excluded_looking(counted, implied):
        counted += 1
    return (
        f"at this throughput an accept_len of {counted:.2f} needs a period of "
        f"{period_ms * counted / implied:.1f} ms; measured: {period_ms:.2f} ms"
    )


def implied_accept_len(tokens_per_s: float, period_ms: float, batch: float = 1.0) -> float:
    """Tokens a request-cycle that a throughput and a period imply: tokens/s x T / B.

    Raises:
        InputError: A number is not positive.
    """
    _check_positive(tokens_per_s, period_ms, batch)
    return tokens_per_s * period_ms / 1000 / batch


def implied_period_ms(accept_len: float, tokens_per_s: float, batch: float = 1.0) -> float:
    """The cycle period that an accept_len and a throughput imply: A x B / tokens/s.

    Raises:
        InputError: A number is not positive.
    """
    _check_positive(accept_len, tokens_per_s, batch)
    return accept_len * batch / tokens_per_s * 1000


def bonus_excluded_looking(
    value: float, reference: float | None = None, *, tolerance: float = TOLERANCE_SHARE
) -> bool:
    """Whether a length looks as if it left the bonus token out.

    Below 1 it must: every verify commits one token. Otherwise one more must meet the reference.
    """
    if value < 1 or reference is None:
        return value < 1
    return _apart(value, reference, tolerance) and not _apart(value + 1, reference, tolerance)


def bonus_twice_looking(
    value: float, reference: float, *, tolerance: float = TOLERANCE_SHARE
) -> bool:
    """Whether a length looks as if it counted the bonus token twice: one less would meet."""
    return (
        value >= 2
        and _apart(value, reference, tolerance)
        and not _apart(value - 1, reference, tolerance)
    )


def contamination_share(accepted_drafts: float, reference: float) -> float:
    """Share of cycles without acceptance that would dilute a mean this much: 1 - a / (A - 1).

    Args:
        accepted_drafts: The mean found, bonus left out.
        reference: The accept_len it should have been, bonus included.

    Returns:
        0 to 1; 0 when the mean is not too low.

    Raises:
        InputError: The reference has no accepted drafts that could be diluted.
    """
    if reference <= 1 or accepted_drafts < 0:
        raise InputError(f"{accepted_drafts:g} drafts a cycle cannot be diluted {reference:g}")
    return max(0.0, 1 - accepted_drafts / (reference - 1))


def noise_half_width(sd: float, cycles: float) -> float:
    """Half of the 95 % interval of a mean over independent cycles: 1.96 sd / sqrt(N).

    Raises:
        InputError: No cycles.
    """
    _check_positive(cycles)
    return Z_95 * sd / math.sqrt(cycles)


def explain_low(
    value: float, reference: Estimate, sd: float, cycles: int | None
) -> tuple[str, ...]:
    """What may make an accept_len lower than a reference, each with the test that decides.

    Args:
        value: The length found; one that looks bonus-exclusive is explained with the bonus added.
        reference: The accept_len it should be, bonus included.
        sd: Standard deviation of accepted drafts a cycle.
        cycles: Request-cycles behind `value`; None when unknown.

    Returns:
        The candidates in the order to test them; none when the value is not low.
    """
    if value >= reference.low - _ROUNDING:
        return ()
    texts = []
    length = value
    if bonus_excluded_looking(value, reference.value):
        length += 1
        texts.append(
            f"Bonus token left out: {value:.2f} is accepted drafts a cycle, {length:.2f} with the "
            "bonus. Test: committed tokens / request-cycles."
        )
    if length >= reference.low - _ROUNDING:
        return tuple(texts)
    accepted = length - 1
    return (
        *texts,
        _noise(length, reference, sd, cycles),
        _contamination(accepted, reference),
        "Other prompts or sampling: acceptance belongs to a workload. Test: the same prompts at "
        "temperature 0 in both runs.",
        "A real change of behaviour: instrumentation must not change tokens. Test: the same "
        "prompts, greedy, give the same token ids with and without it; if not, it is a race in "
        "the engine.",
    )


def _noise(length: float, reference: Estimate, sd: float, cycles: int | None) -> str:
    hides = [
        f"against {each:.2f} below about {cycles_needed(sd, each - length)} cycles"
        for each in dict.fromkeys((reference.value, reference.low))
    ]
    text = f"Sample noise: with sd {sd:.2f} it hides {length:.2f} {', '.join(hides)}."
    if cycles is None or cycles < 1:
        return f"{text} Test: count the cycles."
    half = noise_half_width(sd, cycles)
    verdict = "possible" if length + half >= reference.low else "excluded"
    return f"{text} Here {cycles} cycles, \N{PLUS-MINUS SIGN} {half:.2f}: {verdict}."


def _contamination(accepted: float, reference: Estimate) -> str:
    shares = [
        f"{contamination_share(accepted, each):.1%} for {each:.2f}"
        for each in dict.fromkeys((reference.low, reference.value, reference.high))
    ]
    return (
        "Cycles counted with nothing accepted (warm-up, graph capture, idle batches): a share of "
        f"{', '.join(shares)} would do. Test: drop warm-up, count by request."
    )


def troubles_of(reading: AcceptanceReading) -> tuple[str, ...]:
    """What cannot be true within one reading.

    The length against its bounds, its survival (which never rises and sums to it), and its
    committed tokens.
    """
    found = [impossible(reading.accept_len, reading.draft_tokens)]
    if any(after > before + _ROUNDING for before, after in pairwise((1.0, *reading.survival))):
        found.append("survival rises with position: are these conditional acceptances?")
    elif reading.survival and _apart(1 + math.fsum(reading.survival), reading.accept_len):
        found.append(
            f"positions add up to {1 + math.fsum(reading.survival):.2f} tokens a cycle, "
            f"not to {reading.accept_len:.2f}"
        )
    if reading.request_cycles and reading.committed_tokens is not None:
        committed = reading.committed_tokens / reading.request_cycles
        if _apart(committed, reading.accept_len):
            found.append(
                f"{reading.committed_tokens} tokens in {reading.request_cycles} cycles are "
                f"{committed:.2f} a cycle, not {reading.accept_len:.2f}"
            )
    return tuple(text for text in found if text)


def _apart(value: float, reference: float, tolerance: float = TOLERANCE_SHARE) -> bool:
    return abs(value - reference) > tolerance * abs(reference)


def _check_positive(*values: float) -> None:
    for value in values:
        if not value > 0:
            raise InputError(f"{value:g} must be positive")
