"""Whether the drawn traces hold the hard cases often enough to be worth drawing."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings

from tests.reference import CAUSES, METHODS, STATES, Reference, contains, is_target
from tests.strategies import MEANINGS, traces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.trace import Trace

DRAWN = 400
AT_LEAST = 4
"""How many of the drawn traces must hold each case."""

_LABELS = ("other", "unattributed", "sample", "fused(verify, decode, prefill)", "prefill")
HARD_CASES = {
    *(f"cause {cause}" for cause in CAUSES),
    *(f"method {method}" for method in METHODS if method != "capture-time range"),
    *(f"cycle {state}" for state in STATES),
    *(f"label {label}" for label in _LABELS),
    "two cycles kept",
    "op of 0 ns",
    "op not collected",
    "op without id",
    "ops that start together",
    "overlap of two phases",
    "several ops of one id",
    "two streams",
    "two devices of one process",
    "call of 0 ns",
    "call without id",
    "call straddles a range's end",
    "second launch row of one id",
    "call that lost its op",
    "one id in two processes",
    "range of 0 ns",
    "range never closed",
    "range closed by another thread",
    "start/end range on its thread",
    "crossing ranges of two domains",
    "target range inside a target range",
    "sample inside verify",
    "decode loop",
    "inferred phase that holds",
    "inferred phase that is contradicted",
    "stream waits for an event",
}


def cases(trace: Trace) -> Iterator[str]:
    """The hard cases that a trace holds."""
    reference = Reference(trace, MEANINGS)
    yield from (f"cause {piece.cause}" for piece in reference.pieces if piece.cause)
    yield from (f"method {method}" for method in reference.method)
    yield from (f"cycle {cycle.state}" for cycle in reference.cycles)
    yield from (f"label {label}" for label in reference.label)
    yield from _cases_of_ops(reference)
    yield from _cases_of_calls(reference)
    yield from _cases_of_ranges(reference)
    if sum(cycle.state == "kept" for cycle in reference.cycles) > 1:
        yield "two cycles kept"
    if any(len(piece.phases) > 1 for piece in reference.pieces):
        yield "overlap of two phases"
    if reference.syncs:
        yield "stream waits for an event"


def _cases_of_ops(reference: Reference) -> Iterator[str]:
    for op, collected in zip(reference.ops, reference.collected, strict=True):
        if not collected:
            yield "op not collected"
        elif op["start_ns"] == op["end_ns"]:
            yield "op of 0 ns"
        if op["correlation_id"] is None:
            yield "op without id"
    starts = [
        (lane, op["start_ns"])
        for lane, op in zip(reference.lane, reference.ops, strict=True)
        if op["end_ns"] > op["start_ns"]
    ]
    if len(set(starts)) < len(starts):
        yield "ops that start together"
    held = [launch for launch in reference.launch if launch is not None]
    if len(set(held)) < len(held):
        yield "several ops of one id"
    if len(
        {(lane, op["stream_id"]) for lane, op in zip(reference.lane, reference.ops, strict=True)}
    ) > (len(reference.lanes)):
        yield "two streams"
    if len({process for process, _ in reference.lanes}) < len(reference.lanes):
        yield "two devices of one process"


def _cases_of_calls(reference: Reference) -> Iterator[str]:
    found: dict[Any, int] = {}
    used = set(reference.launch)
    for row, call in enumerate(reference.launches):
        number = call["correlation_id"]
        if number is None:
            yield "call without id"
        if call["start_ns"] == call["end_ns"]:
            yield "call of 0 ns"
        elif row in used and any(
            span["thread"] == call["thread"]
            and span["end_thread"] is None
            and span["start_ns"] <= call["start_ns"] < span["end_ns"] < call["end_ns"]
            for span in reference.ranges
        ):
            yield "call straddles a range's end"
        if (call["process"], number) in found:
            yield "second launch row of one id"
        elif row not in used and "LaunchKernel" in call["text"]:
            yield "call that lost its op"
        found[call["process"], number] = row
    if any((1 - process, number) in found for process, number in found):
        yield "one id in two processes"


def _cases_of_ranges(reference: Reference) -> Iterator[str]:
    for row, span in enumerate(reference.ranges):
        if span["start_ns"] == span["end_ns"]:
            yield "range of 0 ns"
        if not span["closed"]:
            yield "range never closed"
        if span["end_thread"] is not None:
            yield "range closed by another thread"
        elif span["style"] == "start_end":
            yield "start/end range on its thread"
        if "inferred" in reference.meaning[row].flags and not reference.is_cycle[row]:
            holds = reference.phase[row] is not None
            yield f"inferred phase that {'holds' if holds else 'is contradicted'}"
        if span["text"] == "decode" and reference.is_cycle[row]:
            yield "decode loop"
    for one, other in combinations(range(len(reference.ranges)), 2):
        yield from _cases_of_two(
            reference,
            *sorted(
                (one, other),
                key=lambda row: (
                    reference.ranges[row]["start_ns"],
                    -reference.ranges[row]["end_ns"],
                ),
            ),
        )


def _cases_of_two(reference: Reference, one: int, other: int) -> Iterator[str]:
    outer, inner = reference.ranges[one], reference.ranges[other]
    if contains(outer, inner):
        if is_target(reference.phase[one]) and is_target(reference.phase[other]):
            yield "target range inside a target range"
        if (reference.phase[one], reference.phase[other]) == ("verify", "sample"):
            yield "sample inside verify"
    elif (
        outer["thread"] == inner["thread"]
        and outer["start_ns"] < inner["start_ns"] < outer["end_ns"] < inner["end_ns"]
        and outer["domain_text"] != inner["domain_text"]
    ):
        yield "crossing ranges of two domains"


def test_hard_cases_are_common_in_drawn_traces() -> None:
    found: Counter[str] = Counter()

    @settings(
        max_examples=DRAWN,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(traces())
    def draw(trace: Trace) -> None:
        found.update(set(cases(trace)))

    draw()
    assert {case: found[case] for case in HARD_CASES if found[case] < AT_LEAST} == {}
