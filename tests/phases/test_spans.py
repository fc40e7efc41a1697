from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given

from tests.reference import Reference
from tests.strategies import MEANINGS, RULES, build, examples, traces
from traceanalyzer.phases.rules import FLAGS
from traceanalyzer.phases.spans import Spans, classify_ranges

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


def phases_of(spans: Spans) -> list[str | None]:
    return [None if code < 0 else spans.phases[code] for code in spans.phase]


def flags_of(spans: Spans) -> list[set[str]]:
    return [
        {flag for place, flag in enumerate(FLAGS) if bits >> place & 1}
        for bits in spans.flags.tolist()
    ]


@examples(0.3)
@given(traces())
def test_meaning_of_every_range_agrees_with_the_reference(trace: Trace) -> None:
    spans, reference = classify_ranges(trace, RULES), Reference(trace, MEANINGS)
    assert phases_of(spans) == reference.phase
    assert spans.is_cycle.tolist() == reference.is_cycle
    assert flags_of(spans) == reference.flags
    assert spans.batch.tolist() == [
        -1 if meaning.batch is None else meaning.batch for meaning in reference.meaning
    ]


def test_a_decode_range_around_drafts_and_verifies_is_a_cycle() -> None:
    ranges = [
        {"name": "decode", "start_ns": 0, "end_ns": 100},
        {"name": "draft", "start_ns": 10, "end_ns": 20},
        {"name": "decode", "start_ns": 100, "end_ns": 200},
        {"name": "sample", "start_ns": 110, "end_ns": 120},
        {"name": "decode", "start_ns": 200, "end_ns": 300},
        {"name": "propose", "start_ns": 290, "end_ns": 300},
    ]
    spans = classify_ranges(build(ranges=ranges), RULES)
    assert spans.is_cycle.tolist() == [True, False, False, False, True, False]
    assert phases_of(spans)[2] == "decode"


def test_every_decode_range_around_a_draft_is_a_cycle_also_when_they_nest() -> None:
    ranges = [
        {"name": "decode", "start_ns": 0, "end_ns": 100},
        {"name": "decode", "start_ns": 0, "end_ns": 50},
        {"name": "draft", "start_ns": 10, "end_ns": 20},
    ]
    spans = classify_ranges(build(ranges=ranges), RULES)
    assert spans.is_cycle.tolist() == [True, True, False]


def test_flags_hold_for_what_a_flagged_range_contains_on_its_thread() -> None:
    ranges = [
        {"name": "warm-up", "start_ns": 0, "end_ns": 100},
        {"name": "verify", "start_ns": 0, "end_ns": 100},
        {"name": "verify", "start_ns": 99, "end_ns": 101},
        {"name": "verify", "start_ns": 10, "end_ns": 20, "thread": 1},
        {"name": "dummy", "start_ns": 0, "end_ns": 100, "end_thread": 1},
    ]
    spans = classify_ranges(build(ranges=ranges, threads=(0, 0)), RULES)
    assert flags_of(spans)[:4] == [{"warm-up"}, {"warm-up"}, set(), set()]


def test_an_inferred_phase_gives_way_to_another_one_around_it() -> None:
    ranges = [
        {"name": "draft", "start_ns": 0, "end_ns": 100},
        {"name": "decode?", "start_ns": 10, "end_ns": 20},
        {"name": "forward", "start_ns": 100, "end_ns": 200},
        {"name": "decode?", "start_ns": 110, "end_ns": 120},
        {"name": "decode?", "start_ns": 210, "end_ns": 220},
    ]
    spans = classify_ranges(build(ranges=ranges), RULES)
    assert phases_of(spans) == [
        "draft",
        None,
        "fused(verify, decode, prefill)",
        "decode",
        "decode",
    ]
