"""What the recording cost: tokens per second in the capture beside those served untraced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.report import Check

if TYPE_CHECKING:
    from traceanalyzer.report import BucketVerdict

TRACING: Final = "tracing"
_MUCH: Final = 0.05
_NEXT_STEP: Final = (
    "Record whole graphs only (--cuda-graph-trace=graph), for a shorter time, or compare servers "
    "that were recorded alike."
)


def tracing_check(found: BucketVerdict, untraced_tokens_per_s: float) -> list[Check]:
    """Traced tokens per second beside untraced ones.

    Args:
        found: The bucket that speaks for the capture.
        untraced_tokens_per_s: Of all requests together, measured from outside.

    Returns:
        Nothing where the capture tells no rate.
    """
    traced = found.tokens_per_s
    if traced is None or not untraced_tokens_per_s:
        return []
    share = 1 - traced.value / untraced_tokens_per_s
    change = f"slower by {share:.1%}" if share >= 0 else f"faster by {-share:.1%}"
    text = f"{traced.value:,.1f} tok/s as recorded, {untraced_tokens_per_s:,.1f} untraced: {change}"
    low, high = traced.low or traced.value, traced.high or traced.value
    if low <= untraced_tokens_per_s <= high:
        text += ", within what the acceptance of so few cycles can tell"
    elif abs(share) > _MUCH:
        return [Check(TRACING, "warning", text, _NEXT_STEP)]
    return [Check(TRACING, "ok", text)]
