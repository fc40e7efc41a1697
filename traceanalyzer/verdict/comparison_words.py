"""What changed, in one sentence: the parts, and what they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.report.comparison import Obstacle
from traceanalyzer.verdict.matching import SAME_TOKENS
from traceanalyzer.verdict.overall import deciding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketShape, Estimated
    from traceanalyzer.report.comparison import (
        BucketComparison,
        Comparison,
        Figure,
        Overall,
        PhaseComparison,
    )

FASTER: Final = "faster"
SLOWER: Final = "slower"
NO_SURE_CHANGE: Final = "no sure change"
MIXED: Final = "mixed"
NOT_COMPARABLE: Final = "not comparable"
UNKNOWN: Final = "unknown"

_TOLD_PHASES: Final = 3
_WORTH_TELLING_SHARE: Final = 0.01  # of the period
_ROUNDING: Final = 1e-9  # of the product of a few figures
_SEEN_IN_PERCENT: Final = 0.0005


def outcome_of(found: BucketComparison) -> str:
    """What is sure of one pair: by tokens per second, or by the forward for the same tokens."""
    if found.relation != SAME_TOKENS:
        return _sure(found.tokens_per_s.ratio if found.tokens_per_s else None)
    time = _forward(found)
    return {FASTER: SLOWER, SLOWER: FASTER}.get(_sure(time), _sure(time))


def outcome_of_all(
    obstacles: Sequence[Obstacle], buckets: Sequence[BucketComparison], overall: Overall | None
) -> str:
    """What is sure of two captures."""
    if any(each.blocks for each in obstacles):
        return NOT_COMPARABLE
    known = {each.outcome for each in deciding(buckets)} - {UNKNOWN}
    if not known:
        return UNKNOWN
    if len(known) == 1:
        return known.pop()
    if {FASTER, SLOWER} <= known or overall is None or overall.net is None:
        return MIXED
    return _sure(overall.net)


def _sure(ratio: Estimated | None) -> str:
    if ratio is None or ratio.low is None or ratio.high is None:
        return UNKNOWN
    if ratio.low > 1 + _ROUNDING:
        return FASTER
    return SLOWER if ratio.high < 1 - _ROUNDING else NO_SURE_CHANGE


def summary(found: Comparison) -> str:
    """The answer in one sentence."""
    blocking = [each for each in found.obstacles if each.blocks]
    if blocking:
        more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
        return f"Not comparable: {blocking[0].text}{more}"
    pairs = deciding(found.buckets)
    if len(pairs) < 2:
        return found.buckets[0].summary
    if found.overall is not None and found.overall.net is not None:
        told = change(found.overall.net)
        return f"net {told} tokens/s over {len(pairs)} shapes of cycles, at A's mix"
    nets = [each.tokens_per_s.ratio for each in pairs if each.tokens_per_s]
    values = [each.value for each in nets if each]
    if not values:
        return f"net unknown in {len(pairs)} shapes of cycles: see each"
    return f"net {percent(min(values))} to {percent(max(values))}, by shape of cycles: see each"


def bucket_summary(found: BucketComparison) -> str:
    """The parts of one pair's change and what they come to."""
    if found.relation == SAME_TOKENS:
        return _same_tokens(found)
    parts = [*_phases(found), _part("cycle", found.period_ns)]
    if found.accept_len is None or found.tokens_per_s is None or found.tokens_per_s.ratio is None:
        return f"{_listed(parts)}: net unknown without the acceptance of both"
    parts.append(_part("accept length", found.accept_len))
    requests = found.requests_per_cycle
    if requests and requests.ratio and abs(requests.ratio.value - 1) >= _SEEN_IN_PERCENT:
        parts.append(_part("requests a cycle", requests))
    return f"{_listed(parts)}: net {change(found.tokens_per_s.ratio)} tokens/s"


def _same_tokens(found: BucketComparison) -> str:
    plain = found.a.shape if found.a.shape.kind == "decode" else found.b.shape
    ratio = _forward(found)
    told = change(ratio) if ratio else "unknown"
    return (
        f"{_forward_name(found)}, {plain.batch} tokens in both: {told}, from the path and not from "
        "the number of tokens"
    )


def _forward(found: BucketComparison) -> Estimated | None:
    row = _forward_row(found)
    return row.ns_per_cycle.ratio if row else None


def _forward_row(found: BucketComparison) -> PhaseComparison | None:
    return next((each for each in found.phases if each.phase_a == found.a.shape.kind), None)


def _forward_name(found: BucketComparison) -> str:
    return f"{found.a.shape.kind} → {found.b.shape.kind}"


def _phases(found: BucketComparison) -> list[str]:
    """The phase that moves the cycle most, and others that move it visibly."""
    ranked = sorted(found.phases, key=lambda each: (-abs(each.period_change_share), -_ns(each)))
    told = [
        each
        for place, each in enumerate(ranked[:_TOLD_PHASES])
        if place == 0 or abs(each.period_change_share) >= _WORTH_TELLING_SHARE
    ]
    return [_phase(each) for each in told]


def _ns(found: PhaseComparison) -> float:
    return sum(each.value for each in (found.ns_per_cycle.a, found.ns_per_cycle.b) if each)


def _phase(found: PhaseComparison) -> str:
    if found.phase_a is None:
        return f"{found.phase_b} new"
    if found.phase_b is None:
        return f"{found.phase_a} gone"
    return _part(phase_name(found), found.ns_per_cycle)


def phase_name(found: PhaseComparison) -> str:
    """One name where both captures have the same phase."""
    names = dict.fromkeys(name for name in (found.phase_a, found.phase_b) if name)
    return " → ".join(names)


def _part(name: str, found: Figure) -> str:
    return f"{name} {percent(found.ratio.value)}" if found.ratio else f"{name} unknown"


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)


def change(ratio: Estimated) -> str:
    """A change with its 95 % interval: "+2.7 % [+1.1, +4.3]"."""
    if ratio.low is None or ratio.high is None:
        return f"{percent(ratio.value)} (no interval)"
    low, high = (percent(each).removesuffix(" %") for each in (ratio.low, ratio.high))
    return f"{percent(ratio.value)} [{low}, {high}]"


def percent(ratio: float) -> str:
    """A ratio as a change in per cent; no change has no sign."""
    text = f"{100 * (ratio - 1):+,.1f} %"
    return "0.0 %" if text in ("+0.0 %", "-0.0 %") else text


def shape_text(shape: BucketShape) -> str:
    """A shape in words, without what is unknown."""
    told = (
        ("batch", shape.batch),
        ("padded to", shape.padded_batch if shape.padded_batch != shape.batch else None),
        ("tokens", shape.verified_tokens),
        ("drafts", shape.draft_tokens or None),
        ("prompt tokens", shape.prompt_tokens or None),
    )
    parts = [f"{name} {number}" for name, number in told if number is not None]
    return ", ".join([shape.kind, *parts, *([shape.graph] if shape.graph else [])])


def lacks_acceptance(text: str) -> Obstacle:
    """That the tokens of a capture are unknown, so only cycles can be compared."""
    return Obstacle("acceptance", text, None, False)


def the_same_capture() -> Obstacle:
    """That a capture is compared with itself."""
    text = "A and B are the same capture: every change is nothing, whatever its interval"
    return Obstacle("captures", text, None, False)
