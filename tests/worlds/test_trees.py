"""Trees: most verified tokens lie beside the accepted path, and depth bounds what is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, is_off, same_buckets
from traceanalyzer.simulation.worlds import Speculation, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

DEPTH, NODES = 4, 16
SPECULATION = Speculation(method="tree", draft_tokens=(DEPTH,), tree_tokens=NODES)
WORLD = World(WorldSettings(speculation=SPECULATION))


def test_nodes_of_a_tree_are_not_the_longest_run(tmp_path: Path) -> None:
    truth = WORLD.truth
    assert truth.plain is not None
    main = truth.speculating.bucket("verify")
    assert main.shape.draft_tokens == NODES
    step_ns = truth.plain.bucket("decode").period_ns
    best = (DEPTH + 1) * step_ns / main.period_ns
    naive = (main.shape.draft_tokens + 1) * step_ns / main.period_ns
    assert is_off(naive, best) > 1
    report = against_baseline(WORLD, tmp_path)
    same_buckets(report, truth.speculating)
    assert report.verdict is not None
    (verdict,) = report.verdict.buckets
    assert verdict.perfect_acceptance_speedup == pytest.approx(best, rel=1e-6)
    assert verdict.wasted_share == pytest.approx(1 - main.accept_len / (NODES + 1), rel=1e-6)
    found = report.buckets[0].acceptance
    assert found is not None
    assert len(found.survival) == DEPTH
    assert found.ledger is not None
    assert found.ledger.verified == (NODES + 1) * main.live_request_cycles
    assert found.ledger.committed == main.committed_tokens


def test_accepted_over_drafted_is_not_the_chance_of_a_draft(tmp_path: Path) -> None:
    main = WORLD.served.bucket("verify")
    accepted = main.committed_tokens - main.live_request_cycles
    naive = accepted / (main.shape.draft_tokens * main.live_request_cycles)
    report = against_baseline(WORLD, tmp_path)
    found = report.buckets[0].acceptance
    assert found is not None
    first = found.conditional[0]
    assert first is not None
    counts = [
        each.accepted
        for number, step in WORLD.record().run.steps.items()
        if number in {cycle.number for cycle in WORLD.served.ranks[0].cycles}
        for each in step.outcomes
    ]
    wanted = sum(count > 0 for count in counts) / len(counts)
    assert first == pytest.approx(wanted, abs=0.03)
    assert is_off(naive, wanted) > 0.5
