"""Draft steps and layers carried over to replays whose ranges at capture were not recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.phases.test_lineage import INSIDE, by_op, settled
from traceanalyzer.phases.carried_layers import tells_places, with_carried_places
from traceanalyzer.phases.kernel_order import LEAST_SCORE
from traceanalyzer.simulation import eagle3_server

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.simulation.recording import Op

KNOWN = replace(INSIDE, layers=5)
REPLAYS = replace(KNOWN, capture_recorded=False, seed=2, verify_ms=4.0)
PHASES = {"verify", "draft", "draft_extend"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> PhasedTrace:
    """A capture in which ranges tell the layers of 5 and the steps of each draft."""
    path = tmp_path_factory.mktemp("known") / "known.sqlite"
    return settled(eagle3_server(KNOWN), path, "2025.5")


def places_of(ops: list[Op]) -> list[tuple[int, int]]:
    """Step and layer of each replayed op by the truth, -1 for none."""
    return [
        tuple(-1 if place is None else place for place in (op.step, op.layer))  # type: ignore[misc]
        for op in ops
    ]


def test_steps_and_layers_of_another_run_are_those_of_the_truth(
    known: PhasedTrace, tmp_path: Path
) -> None:
    recording = eagle3_server(REPLAYS)
    replays = settled(recording, tmp_path / "replays.sqlite", "2022.4")
    assert not tells_places(replays)
    found = with_carried_places(replays, known)
    truth = by_op(recording, replays.trace)
    replayed = [row for row, op in enumerate(truth) if op.graph_node_id is not None]
    carried = list(zip(found.places.step.tolist(), found.places.layer.tolist(), strict=True))
    assert [carried[row] for row in replayed] == places_of([truth[row] for row in replayed])
    assert len({layer for _, layer in carried}) == 1 + KNOWN.layers
    assert len({step for step, _ in carried}) == KNOWN.draft_tokens
    scores = found.places.scores
    assert scores is not None
    told = np.stack((found.places.step, found.places.layer)) >= 0
    assert (np.isnan(scores.values[scores.number]) != told).all()
    assert {each.phase for each in found.carried} >= PHASES
    for each in found.carried:
        assert each.source == known.trace.files["path"][0]
        if each.phase in PHASES:
            assert each.refused == 0
            assert each.lowest_score is not None
            assert each.lowest_score >= LEAST_SCORE
    assert (found.label == replays.label).all()


def test_an_eager_run_tells_replays(tmp_path: Path) -> None:
    """Its draft steps are forwards of several launches in one range, and of one replay here."""
    recording = eagle3_server(replace(KNOWN, graph_mode="eager"))
    eager = settled(recording, tmp_path / "eager.sqlite", "2025.5")
    places = np.array(places_of(by_op(recording, eager.trace))).T  # as ranges around launches do
    eager = replace(eager, places=replace(eager.places, step=places[0], layer=places[1]))
    own = eagle3_server(REPLAYS)
    replays = settled(own, tmp_path / "replays.sqlite", "2025.5")
    found = with_carried_places(replays, eager)
    truth = by_op(own, replays.trace)
    carried = list(zip(found.places.step.tolist(), found.places.layer.tolist(), strict=True))
    for phase in sorted(PHASES):
        rows = [
            row
            for row, op in enumerate(truth)
            if op.phase == phase and op.graph_node_id is not None
        ]
        assert len(rows) > 100
        wanted = places_of([truth[row] for row in rows])
        assert [carried[row] for row in rows] == wanted
    assert all(each.refused == 0 for each in found.carried if each.phase in PHASES)


@pytest.mark.parametrize("layers", [4, 6, 8])
def test_another_number_of_layers_is_refused(
    layers: int, known: PhasedTrace, tmp_path: Path
) -> None:
    other = eagle3_server(replace(REPLAYS, layers=layers))
    found = with_carried_places(settled(other, tmp_path / "other.sqlite", "2025.5"), known)
    (verify,) = (each for each in found.carried if each.phase == "verify")
    assert verify.forwards == 0
    assert verify.lowest_score is None
    assert verify.refused >= REPLAYS.cycles
    assert verify.refused_score is not None
    verifies = found.label == found.labels.index("verify")
    assert (found.places.layer[verifies] < 0).all()


def test_one_layer_more_is_refused_however_much_matches(known: PhasedTrace, tmp_path: Path) -> None:
    """Five of six layers match, but nothing tells which of them is the sixth."""
    other = eagle3_server(replace(REPLAYS, layers=KNOWN.layers + 1))
    replays = settled(other, tmp_path / "other.sqlite", "2025.5")
    found = with_carried_places(replays, known, least_score=0.5)
    (verify,) = (each for each in found.carried if each.phase == "verify")
    assert verify.forwards == 0
    assert verify.other_number
    assert verify.refused_score is not None
    assert 0.5 < verify.refused_score < LEAST_SCORE


def test_another_number_of_drafts_is_refused(known: PhasedTrace, tmp_path: Path) -> None:
    other = eagle3_server(replace(REPLAYS, draft_tokens=KNOWN.draft_tokens + 1, verified_tokens=0))
    found = with_carried_places(settled(other, tmp_path / "other.sqlite", "2025.5"), known)
    assert (found.places.step < 0).all()
    (draft,) = (each for each in found.carried if each.phase == "draft")
    assert draft.forwards == 0


def test_without_a_known_forward_nothing_is_carried(tmp_path: Path) -> None:
    replays = settled(eagle3_server(REPLAYS), tmp_path / "replays.sqlite", "2025.5")
    assert with_carried_places(replays, replays) is replays
    assert with_carried_places(replays) is replays


def test_a_phase_that_the_other_run_lacks_gets_nothing(known: PhasedTrace, tmp_path: Path) -> None:
    plain = eagle3_server(replace(REPLAYS, draft_tokens=0, verified_tokens=0))
    found = with_carried_places(settled(plain, tmp_path / "plain.sqlite", "2025.5"), known)
    assert "decode" in found.labels
    decodes = found.label == found.labels.index("decode")
    assert (found.places.layer[decodes] < 0).all()
    assert "decode" not in {each.phase for each in found.carried}


def without_some_births(phased: PhasedTrace, rows: np.ndarray) -> PhasedTrace:
    """As if the capture of what these ops replay had not been recorded."""
    step, layer = phased.places.step.copy(), phased.places.layer.copy()
    step[rows] = layer[rows] = -1
    return replace(phased, places=replace(phased.places, step=step, layer=layer))


def test_known_forwards_of_the_same_rank_tell_those_that_lack_places(known: PhasedTrace) -> None:
    late = known.ops.start_ns > np.median(known.ops.start_ns)
    lacking = without_some_births(known, np.flatnonzero(late))
    found = with_carried_places(lacking)
    replayed = known.trace.ops["graph_node_id"].is_not_null().to_numpy()
    # A forward that the cut divides keeps what it has.
    assert ((found.places.layer == known.places.layer) | ~replayed).mean() > 0.98
    assert (found.places.layer[late & replayed] >= 0).sum() > 100
    wrong = (found.places.layer != known.places.layer) & (found.places.layer >= 0)
    assert not wrong.any()
    assert {each.source for each in found.carried} == {None}
    assert {each.lowest_score for each in found.carried} == {1.0}


def test_a_rank_never_tells_another_one_of_the_same_capture(known: PhasedTrace) -> None:
    """The ranks of a pipeline run the same kernels for different layers."""
    assert known.ranks.size > 1
    second = np.flatnonzero(known.ops.lane == 1)
    found = with_carried_places(without_some_births(known, second))
    assert (found.places.layer[second] < 0).all()
    assert not found.carried


def test_each_rank_is_told_by_the_other_captures_rank_of_its_number(
    known: PhasedTrace, tmp_path: Path
) -> None:
    further = known.places.layer + 100 * known.ops.lane
    layer = np.where(known.places.layer >= 0, further, -1)
    stages = replace(known, places=replace(known.places, layer=layer))
    replays = settled(eagle3_server(REPLAYS), tmp_path / "replays.sqlite", "2025.5")
    found = with_carried_places(replays, stages)
    for lane in range(found.ranks.size):
        own = found.places.layer[found.ops.lane == lane]
        assert set(np.unique(own // 100).tolist()) == {-1, lane}


def test_no_replay_needs_what_ranges_tell(known: PhasedTrace) -> None:
    assert with_carried_places(known) is known
    assert with_carried_places(known, known) is known
