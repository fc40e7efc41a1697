"""What is said of a capture without a complete cycle: whether its ranges mean a phase."""

from __future__ import annotations

import pytest

from tests.strategies import build
from traceanalyzer.pipeline import analyze
from traceanalyzer.renderers.terminal import render_terminal


def said(*names: str) -> str:
    """The screen of a capture with one op in each of these ranges."""
    times = [(1_000 * place, 1_000 * place + 500) for place in range(1, len(names) + 1)]
    trace = build(
        ranges=[
            {"start_ns": a, "end_ns": b, "name": n} for (a, b), n in zip(times, names, strict=True)
        ],
        launches=[{"start_ns": a + 1, "end_ns": a + 2, "correlation_id": a} for a, _ in times],
        ops=[{"start_ns": a + 3, "end_ns": a + 9, "correlation_id": a} for a, _ in times],
    )
    return " ".join(render_terminal(analyze(trace), plain=True).split())


@pytest.mark.parametrize(
    "name", ["execute_context_0(0)_generation_6(24)", "eagle:draft:1", "eagle:prefill:1"]
)
def test_a_range_with_a_phase_is_not_denied(name: str) -> None:
    text = said(name)
    assert "No complete decode cycle: the totals below" in text
    assert "means a phase" not in text


@pytest.mark.parametrize("names", [("a", "b"), ("a",), ("eagle:idle:0",)])
def test_ranges_without_a_phase_are_told(names: tuple[str, ...]) -> None:
    text = said(*names)
    assert f"None of the {len(names)} range" in text
    assert "means a phase of speculative decoding" in text
