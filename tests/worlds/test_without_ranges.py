"""Drawn worlds stripped of their ranges: the phases are right, or the tool says why it has none.

A fused phase that holds the right one is no wrong claim: a whole-graph row can hold all that the
draft model does, and beside plain steps nothing tells a prompt alone from one with other requests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from tests.phases.agreement import Agreement, agreement, stripped
from traceanalyzer.importers import load
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.rules import Rules
from traceanalyzer.simulation.worlds.draw import draw_world

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.phases.phased import PhasedTrace

    Mode = Literal["node", "graph"]

RULES = Rules.shipped()
LEAST_SHARE, MOST_WRONG = 0.99, 0.01
TOLD = (700_020, 700_069)
DECLINED = (700_050, 700_077, 720_178)
PIECEWISE = (700_006, 700_095)
ALTERNATING = (700_048, 700_063)
UNSEEN = range(740_000, 740_003)


def phases(
    seed: int, mode: Mode, folder: Path, *, plain: bool = False
) -> tuple[PhasedTrace, PhasedTrace]:
    """Phases with ranges, each phase in one of its own, and without any."""
    drawn = draw_world(seed)
    drawn = replace(drawn, settings=replace(drawn.settings, fused_propose=False))
    recorder = drawn.recorders.node if mode == "node" else drawn.recorders.graph
    world = drawn.plain if plain else drawn
    trace = load(world.record(recorder).write(folder / "trace.sqlite"))
    return settle_phases(trace, RULES), settle_phases(stripped(trace), RULES)


def reasons(inferred: PhasedTrace) -> tuple[str, ...]:
    assert inferred.inference
    return inferred.inference.reasons


def is_right(found: Agreement) -> bool:
    return found.same + found.held >= LEAST_SHARE and found.wrong <= MOST_WRONG


@pytest.mark.parametrize("mode", ["node", "graph"])
@pytest.mark.parametrize("seed", TOLD)
def test_forwards_with_prompt_tokens_are_told_from_verify(
    seed: int, mode: Mode, tmp_path: Path
) -> None:
    measured, inferred = phases(seed, mode, tmp_path)
    assert "mixed" in measured.labels
    assert agreement(measured, inferred).same >= LEAST_SHARE
    assert inferred.inference
    assert any("mixed with prompt tokens" in text for text in inferred.inference.evidence)


@pytest.mark.parametrize("mode", ["node", "graph"])
@pytest.mark.parametrize("seed", DECLINED)
def test_where_they_cannot_be_told_there_is_no_answer(
    seed: int, mode: Mode, tmp_path: Path
) -> None:
    """Most cycles carry prompts there, or none is run as one graph."""
    _, inferred = phases(seed, mode, tmp_path)
    (why,) = reasons(inferred)
    of_depth = "neither target's nor draft's depth" in why
    assert of_depth or ("prompt tokens" in why and "traceanalyzer capture" in why)


@pytest.mark.parametrize("mode", ["node", "graph"])
@pytest.mark.parametrize("seed", TOLD)
def test_beside_plain_steps_prompts_may_have_been_alone(
    seed: int, mode: Mode, tmp_path: Path
) -> None:
    measured, inferred = phases(seed, mode, tmp_path, plain=True)
    found = agreement(measured, inferred)
    assert is_right(found)
    assert found.held > 0.1
    assert "fused(prefill, mixed)" in inferred.labels
    assert "mixed" not in inferred.labels


@pytest.mark.parametrize("seed", PIECEWISE)
def test_attention_between_whole_graph_rows_is_part_of_their_forward(
    seed: int, tmp_path: Path
) -> None:
    measured, inferred = phases(seed, "graph", tmp_path)
    assert is_right(agreement(measured, inferred))
    measured, inferred = phases(seed, "graph", tmp_path, plain=True)
    assert agreement(measured, inferred).same >= LEAST_SHARE


@pytest.mark.parametrize("seed", ALTERNATING)
def test_a_graph_that_may_hold_the_extension_and_drafts_is_called_both(
    seed: int, tmp_path: Path
) -> None:
    """Every other cycle has one draft, and one whole-graph row of the draft model."""
    measured, inferred = phases(seed, "graph", tmp_path)
    found = agreement(measured, inferred)
    assert is_right(found)
    assert 0 < found.held < 0.1
    assert "fused(draft, draft_extend)" in inferred.labels


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("seed", UNSEEN)
def test_drawn_worlds_are_right_or_declined(seed: int, plain: bool, tmp_path: Path) -> None:
    for mode in ("node", "graph"):
        measured, inferred = phases(seed, mode, tmp_path, plain=plain)
        if not reasons(inferred):
            assert is_right(agreement(measured, inferred)), mode
