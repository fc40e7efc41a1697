"""A sweep in words and table cells, the same in every form that a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import decimals_for, milliseconds, percent
from traceanalyzer.renderers.verdict_text import with_interval

if TYPE_CHECKING:
    from traceanalyzer.report import Estimated
    from traceanalyzer.report.sweep import Sweep, SweepBatch, SweepPrediction

POINT_TITLES: Final = (
    "capture",
    "k",
    "n",
    "cycles",
    "verify ms",
    "cycle ms",
    "accept_len",
    "tok/s",
)
PREDICTION_TITLES: Final = ("k", "accept_len", "cycle ms", "tok/s", "speed-up", "")


def title(batch: SweepBatch) -> str:
    """Which batch."""
    return "Batch unknown" if batch.batch is None else f"Batch {batch.batch}"


def sentences(batch: SweepBatch) -> list[str]:
    """The advice, a plain step, and what verify costs beyond it."""
    lines = [batch.advice] if batch.advice else []
    if batch.baseline_ns is not None:
        step = _ms(batch.baseline_ns)
        lines.append(f"A plain decode step takes {step} ms.")
    fixed, token, share = batch.fixed_step_ns, batch.per_token_ns, batch.fixed_share
    if fixed is not None and token is not None and share is not None:
        shown = _share(share)
        lines.append(
            f"Verify costs {_ms(fixed)} ms more than a plain step whatever it carries, and "
            f"{_ms(token)} ms for each further token: {shown} of the growth is fixed "
            f"({batch.world or 'unknown'})."
        )
    return lines


def _ms(found: Estimated) -> str:
    decimals = decimals_for(found.value)
    text = milliseconds(found.value, decimals=decimals)
    if found.low is None or found.high is None:
        return text
    low, high = (milliseconds(end, decimals=decimals) for end in (found.low, found.high))
    return f"{text} [{low}, {high}]"


def _share(found: Estimated) -> str:
    if found.low is None or found.high is None:
        return percent(found.value)
    return f"{percent(found.value)} [{percent(found.low)}, {percent(found.high)}]"


def point_rows(batch: SweepBatch) -> list[tuple[str, ...]]:
    """The captures."""
    return [
        (
            each.source,
            _known(each.draft_tokens),
            _known(each.verified_tokens),
            f"{each.cycles:,}",
            _ms(each.target_ns),
            _ms(each.period_ns),
            with_interval(each.accept_len) if each.accept_len else "-",
            f"{each.tokens_per_s.value:,.1f}" if each.tokens_per_s else "-",
        )
        for each in batch.points
    ]


def prediction_rows(batch: SweepBatch) -> list[tuple[str, ...]]:
    """What a chain of each length would give."""
    return [
        (
            str(each.draft_tokens),
            with_interval(each.accept_len),
            _ms(each.period_ns),
            with_interval(each.tokens_per_s, 1),
            with_interval(each.speedup, unit="×") if each.speedup else "-",
            remark(each, batch),
        )
        for each in batch.predictions
    ]


def remark(each: SweepPrediction, batch: SweepBatch) -> str:
    """How sure a prediction is, and whether it is the best."""
    origin = "measured" if each.measured else "extrapolated" if each.extrapolated else "predicted"
    return f"{origin}, best" if each.draft_tokens == batch.best_draft_tokens else origin


def closing(sweep: Sweep) -> list[str]:
    """Where speculation stops paying, and what to keep in mind."""
    lines = []
    threshold = sweep.threshold
    if threshold is not None and threshold.batch is not None:
        ends = ["?" if end is None else f"{end:.1f}" for end in (threshold.low, threshold.high)]
        lines.append(
            f"Speculation stops paying at batch {threshold.batch:.1f} [{ends[0]}, {ends[1]}]."
        )
    elif threshold is not None:
        lines.append("The speed-up does not cross 1 between the batches that were captured.")
    return [*lines, *(f"Note: {caveat}" for caveat in sweep.caveats)]


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)
