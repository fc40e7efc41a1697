"""Cycles in words: what they are, how a phase was launched, why it was idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, percent

if TYPE_CHECKING:
    from traceanalyzer.report import BucketPhase, BucketReport, CycleRow, Gap, Report

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
        facts.append(many(shape.verified_tokens, "token"))
    if shape.graph is not None:
        facts.append(shape.graph)
    cycles = many(bucket.cycles, "cycle")
    facts.append(cycles + (f" on {bucket.ranks} ranks" if bucket.ranks > 1 else ""))
    if of_several:
        facts.append(f"{percent(bucket.time_share)} of cycle time")
    return facts


def launched_as(phase: BucketPhase) -> str:
    """How many graph and kernel launches a cycle needs; those in a tenth of cycles are left out."""
    return " + ".join(
        many(round(number), what)
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


def cycle_name(row: CycleRow) -> str:
    """The hooks' number of a cycle, else its place in time."""
    return f"#{row.cycle}" if row.number is None else str(row.number)


def listed_note(report: Report) -> str:
    """That not every cycle is listed, and which are; nothing where all of them are."""
    listed, known = len(report.cycle_rows), report.cycle_rows_of
    if listed == known:
        return ""
    return (
        f"{count(listed)} of {count(known)} cycles, those of all ranks counted: the slowest, the "
        "fastest, and evenly spaced others."
    )


def many(number: int, thing: str) -> str:
    """A number of things: "1 cycle", "2 cycles"."""
    return f"{count(number)} {thing}" + ("" if number == 1 else "s")
