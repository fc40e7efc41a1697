"""The verdict in words and table cells, the same in every form that a person reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import NS_PER_MS, count, decimals_for, milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import (
        BucketReport,
        BucketVerdict,
        Estimated,
        Report,
        SlotLedger,
        Verdict,
    )

SIGNS: Final = {"winning": "✓", "losing": "✗", "undecided": "?", "mixed": "±"}
_BOUNDLESS: Final = 1e5  # times the value: nothing bounds such an interval
_SENTENCES: Final = {
    "winning": "Speculation is winning",
    "losing": "Speculation is losing",
    "undecided": "Speculation neither wins nor loses for sure",
}


def with_interval(found: Estimated, decimals: int = 2, *, unit: str = "") -> str:
    """A figure with its unit and its 95 % interval."""
    text = f"{found.value:,.{decimals}f}{unit}"
    if found.low is None or found.high is None:
        return text
    boundless = found.high >= _BOUNDLESS * abs(found.value) > 0
    high = "∞" if boundless else f"{found.high:,.{decimals}f}"
    return f"{text} [{found.low:,.{decimals}f}, {high}]"


def main_bucket(verdict: Verdict) -> BucketVerdict | None:
    """The bucket that speaks for the capture: the first that could be compared, else the first."""
    compared = [each for each in verdict.buckets if each.speedup is not None]
    return next(iter(compared or verdict.buckets), None)


def headline(verdict: Verdict) -> list[str]:
    """The answer in one or two sentences; why there is none when it is withheld."""
    if verdict.outcome == "withheld":
        return ["Verdict withheld: a check on which every figure rests has failed."]
    main = main_bucket(verdict)
    if main is None or verdict.outcome == "unknown":
        return [_not_compared(main), *_too_little_matched(verdict), *_missing(verdict)]
    if verdict.mixed is not None:
        return [_over_all(verdict, _scope(main)), *_missing(verdict)]
    return [_comparison(verdict.outcome, main), *_beyond_drafting(main), *_missing(verdict)]


def _not_compared(main: BucketVerdict | None) -> str:
    """What a plain step would have to cost, where nobody has said what it does."""
    if main is None or main.tokens_per_s is None or main.break_even_baseline_ns is None:
        return "No verdict yet."
    needed = with_interval(_in_ms(main.break_even_baseline_ns), unit=" ms")
    return (
        f"No verdict yet: {main.tokens_per_s.value:,.1f} tok/s, a win where a plain decode step "
        f"takes more than {needed}."
    )


def _in_ms(found: Estimated) -> Estimated:
    low, high = (None if ns is None else ns / NS_PER_MS for ns in (found.low, found.high))
    return replace(found, value=found.value / NS_PER_MS, low=low, high=high)


def _over_all(verdict: Verdict, scope: str) -> str:
    """Several loads in one capture: none of them speaks for the whole."""
    mixed = verdict.mixed
    text = "Speculation wins in some batches and loses in others"
    if verdict.outcome != "mixed":
        text = f"{_SENTENCES[verdict.outcome]}{scope} over all cycles"
    if mixed is not None and mixed.speedup is not None:
        text += f": {with_interval(mixed.speedup, unit='×')} plain decoding"
    return f"{text} (see by batch)."


def _too_little_matched(verdict: Verdict) -> list[str]:
    mixed = verdict.mixed
    if mixed is None or mixed.speedup is not None or not mixed.matched_share:
        return []
    return [
        f"Only {percent(mixed.matched_share)} of the cycle time has a baseline of its own batch: "
        "too little to speak for the whole (see by batch)."
    ]


def _missing(verdict: Verdict) -> list[str]:
    return [f"Missing: {text}." for text in verdict.missing]


def _comparison(outcome: str, main: BucketVerdict) -> str:
    assert main.speedup is not None, "compared"
    text = _SENTENCES[outcome] + _scope(main)
    if main.tokens_per_s and main.baseline_tokens_per_s:
        text += (
            f": {main.tokens_per_s.value:,.1f} tok/s vs "
            f"{main.baseline_tokens_per_s.value:,.1f} without it"
        )
    text += f" ({with_interval(main.speedup, unit='×')})."
    if main.break_even_accept_len and main.accept_len:
        text += (
            f" Break-even accept_len {main.break_even_accept_len.value:.2f}, "
            f"yours {with_interval(main.accept_len)}."
        )
    return text


def _scope(main: BucketVerdict) -> str:
    """Whom the verdict is about, where that is less than the server."""
    return " on the one request recorded" if main.accept_len_requests == 1 else ""


def _beyond_drafting(main: BucketVerdict) -> list[str]:
    """That no draft work can win, where the target alone costs more than a plain step."""
    committed, step = main.target_ns_per_committed_token, main.baseline_ns
    if committed is None or step is None or committed <= step.value or main.outcome != "losing":
        return []
    decimals = 1
    return [
        f"Verify alone costs {milliseconds(committed, decimals=decimals)} ms a committed token; "
        f"a plain step costs {milliseconds(step.value, decimals=decimals)}. Even a free draft "
        f"would stay at {main.free_drafting_speedup or 0:.2f}×."
    ]


def detail_lines(report: Report, main: BucketVerdict) -> list[str]:
    """What verify costs, what is accepted by which definition, how far break-even is."""
    verdict, bucket = report.verdict, report.buckets[main.bucket]
    lines = [target_cost(main), *acceptance_lines(main, bucket)]
    lines += reading_lines(verdict) if verdict else ()
    if verdict and verdict.outcome != "withheld":
        lines.append(break_even_line(main, bucket))
    if verdict and verdict.service_speedup is not None:
        lines.append(f"whole requests: {verdict.service_speedup:.2f}× end to end")
    return [line for line in lines if line]


def target_cost(main: BucketVerdict) -> str | None:
    """What a verified token costs, and verify against a plain step."""
    parts = []
    if main.target_ns_per_verified_token is not None:
        cost = milliseconds(main.target_ns_per_verified_token, decimals=2)
        parts.append(f"{cost} ms a verified token on average")
    if main.target_to_decode is not None:
        parts.append(f"{main.target_to_decode:.2f}× a plain decode step")
    if main.target_ns_per_committed_token is not None:
        cost = milliseconds(main.target_ns_per_committed_token, decimals=2)
        parts.append(f"{cost} ms a committed token")
    return f"verify: {', '.join(parts)}" if parts else None


def acceptance_lines(main: BucketVerdict, bucket: BucketReport) -> list[str]:
    """Accept length with its definition, survival, and where verified slots went."""
    if main.accept_len is None:
        return []
    lines = [
        f"accept_len {with_interval(main.accept_len)} (bonus token included), "
        f"from {main.accept_len_from}"
    ]
    found = bucket.acceptance
    if found and found.survival:
        reached = " ".join(f"{share:.2f}".lstrip("0") for share in found.survival)
        given = " ".join(
            "-" if share is None else f"{share:.2f}".lstrip("0") for share in found.conditional
        )
        lines.append(
            f"positions 1-{len(found.survival)} reached {reached} · given all before {given}"
        )
    if found and found.ledger:
        lines.append(_ledger_line(found.ledger))
    elif main.wasted_share is not None:
        lines.append(f"{percent(main.wasted_share)} of the verified tokens are thrown away")
    return lines


def _ledger_line(ledger: SlotLedger) -> str:
    parts = [
        f"{name} {count(number)} ({percent(number / ledger.verified)})"
        for name, number in (
            ("committed", ledger.committed),
            ("rejected", ledger.rejected),
            ("overshoot", ledger.overshoot),
            ("stale", ledger.stale),
            ("idle", ledger.idle),
        )
        if number
    ]
    return f"of {count(ledger.verified)} verified slots: {', '.join(parts)}"


def break_even_line(main: BucketVerdict, bucket: BucketReport) -> str | None:
    """Each axis on which break-even could be reached, and how far it is."""
    if main.speedup is None or main.accept_len is None or main.break_even_accept_len is None:
        return None
    needed = main.break_even_accept_len.value
    parts = [f"accept_len {needed:.2f} ({_change(needed, main.accept_len.value)})"]
    if main.target_ns:
        if main.break_even_verify_ns is None:
            parts.append("verify: no time is short enough")
        else:
            parts.append(_time("verify", main.break_even_verify_ns, main.target_ns))
    if main.break_even_period_ns is not None:
        parts.append(_time("cycle", main.break_even_period_ns, bucket.period_ns.mean))
    return "break-even, any one of: " + " · ".join(parts)


def _time(name: str, needed_ns: float, present_ns: float) -> str:
    decimals = decimals_for(present_ns)
    needed = milliseconds(needed_ns, decimals=decimals)
    return f"{name} {needed} ms ({_change(needed_ns, present_ns)})"


def _change(needed: float, present: float) -> str:
    return f"{100 * (needed / present - 1):+.0f} %"


ACTION_TITLES: Final = ("", "what to do", "at most", "evidence", "refuted by")


def action_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """What to do, ranked; every gain is an upper bound."""
    return [
        (
            str(number),
            each.action,
            _gain(each.tokens_per_s_at_most, each.gain_share_at_most),
            each.evidence,
            each.refuted_by,
        )
        for number, each in enumerate(verdict.actions, start=1)
    ]


def _gain(tokens_per_s: float | None, share: float | None) -> str:
    if tokens_per_s is None:
        return "-"
    gain = f" ({100 * share:+.0f} %)" if share is not None else ""
    return f"{tokens_per_s:,.1f} tok/s{gain}"


def mixed_line(verdict: Verdict) -> str | None:
    """All cycles together, each bucket against its own plain step."""
    mixed = verdict.mixed
    if mixed is None:
        return None
    matched = f"{percent(mixed.matched_share)} of the wall time has a baseline"
    if mixed.speedup is None:
        return f"all cycles together: withheld, only {matched}"
    return f"all cycles together: {with_interval(mixed.speedup, unit='×')} ({matched})"


def reading_lines(verdict: Verdict) -> Sequence[str]:
    """Acceptance that was counted elsewhere: what it meant and what was done to it."""
    lines = []
    for reading in verdict.readings:
        line = f"{reading.source}: {reading.accept_len:.2f}, read as {reading.read_as}"
        if reading.conversion != "none":
            line += f"; converted: {reading.conversion}"
        lines.append(line)
        lines.extend(f"  {note}" for note in reading.notes)
    return lines
