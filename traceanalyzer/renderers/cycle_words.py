"""A bucket's cycles in words: what they are, how a phase was launched, why it was idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, percent

if TYPE_CHECKING:
    from traceanalyzer.report import BucketPhase, BucketReport, Gap

SMALL_SHARE: Final = 0.1


def bucket_facts(bucket: BucketReport, *, of_several: bool) -> list[str]:
    """The shape of the cycles and how many they are.

    Args:
        bucket: The bucket.
        of_several: Whether the report has others, so that its share of the time is told.
    """
    shape = bucket.shape
    facts = [f"{shape.kind} cycles"]
    if shape.batch is not None:
        padded = shape.padded_batch not in (None, shape.batch)
        facts.append(f"batch {shape.batch}" + (f" of {shape.padded_batch}" if padded else ""))
    if shape.verified_tokens is not None:
        facts.append(_many(shape.verified_tokens, "token"))
    if shape.graph is not None:
        facts.append(shape.graph)
    cycles = _many(bucket.cycles, "cycle")
    facts.append(cycles + (f" on {bucket.ranks} ranks" if bucket.ranks > 1 else ""))
    if of_several:
        facts.append(f"{percent(bucket.time_share)} of cycle time")
    return facts


def launched_as(phase: BucketPhase) -> str:
    """How many graph and kernel launches a cycle needs; those in a tenth of cycles are left out."""
    return " + ".join(
        _many(round(number), what)
        for number, what in (
            (phase.graph_launches_per_cycle, "graph"),
            (phase.kernel_launches_per_cycle, "kernel"),
        )
        if number >= SMALL_SHARE and round(number)
    )


def why_idle(gaps: list[Gap]) -> str:
    """The causes of idle time, the largest first; those below a tenth are left out."""
    ranked = sorted(gaps, key=lambda gap: -gap.share)
    return ", ".join(
        f"{gap.cause} {100 * gap.share:.0f} %" for gap in ranked if gap.share >= SMALL_SHARE
    )


def _many(number: int, thing: str) -> str:
    return f"{count(number)} {thing}" + ("" if number == 1 else "s")
