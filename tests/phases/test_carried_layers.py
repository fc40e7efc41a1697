"""Layers carried over from a run whose layers are known to replays that say nothing of theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.phases.test_lineage import INSIDE, by_op, settled
from traceanalyzer.phases.carried_layers import carry_layers
from traceanalyzer.simulation import eagle3_server

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = replace(INSIDE, layers=5)
REPLAYS = replace(KNOWN, capture_recorded=False, seed=2, verify_ms=4.0)


@pytest.mark.parametrize("phase", ["verify", "draft"])
def test_layers_of_another_run_are_those_of_the_truth(phase: str, tmp_path: Path) -> None:
    known = settled(eagle3_server(KNOWN), tmp_path / "known.sqlite", "2025.5")
    recording = eagle3_server(REPLAYS)
    replays = settled(recording, tmp_path / "replays.sqlite", "2022.4")
    assert (replays.places.layer < 0).all()
    found = carry_layers(known, replays, phase)
    assert found.lowest_score is not None
    assert found.lowest_score > 0.95
    assert found.refused == 0
    truth = by_op(recording, replays.trace)
    wanted = [
        op.layer if op.graph_node_id is not None and op.phase == phase else None for op in truth
    ]
    assert [None if layer < 0 else layer for layer in found.layer.tolist()] == wanted
    assert sum(layer is not None for layer in wanted) > 100


def test_another_model_is_refused(tmp_path: Path) -> None:
    known = settled(eagle3_server(KNOWN), tmp_path / "known.sqlite", "2025.5")
    other = eagle3_server(replace(REPLAYS, layers=8))
    found = carry_layers(known, settled(other, tmp_path / "other.sqlite", "2025.5"), "verify")
    assert (found.layer < 0).all()
    assert found.lowest_score is None
    assert found.refused > 10


def test_without_a_known_forward_nothing_is_carried(tmp_path: Path) -> None:
    replays = settled(eagle3_server(REPLAYS), tmp_path / "replays.sqlite", "2025.5")
    for phase in ("verify", "decode"):
        found = carry_layers(replays, replays, phase)
        assert (found.layer < 0).all()
        assert found.lowest_score is None
