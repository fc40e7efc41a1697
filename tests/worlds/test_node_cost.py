"""Recording nodes slows every kernel of a graph: a node pass is not what was served."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import (
    against_baseline,
    analyzed,
    bucket_like,
    complaints,
    in_two_passes,
    is_off,
    windows_of,
)
from traceanalyzer.simulation.worlds import Cost, Costs, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Report
    from traceanalyzer.simulation.worlds import Capture

WORLD = World(WorldSettings(engine="sglang_v2", cycles=40))
GRAPH = Recorder(call_us=0.3, range_us=0.2)
NODE = Recorder(
    graph_trace="node", node_us=2.0, replay_us=10, launch_us=40, call_us=0.3, range_us=0.2
)
MILD = Recorder(graph_trace="node", node_us=0.5, replay_us=4)


def periods_by_hand(capture: Capture) -> list[int]:
    """From one `verify` range's first kernel to the next one's, as a timeline shows them."""
    ops = {op.correlation_id: op.start_ns for op in reversed(capture.recording.ops)}
    calls = sorted(capture.recording.calls, key=lambda call: call.start_ns)
    firsts = []
    for row in capture.recording.ranges:
        if row.name == "verify" and row.end_ns:
            inside = [c for c in calls if row.start_ns <= c.start_ns and c.end_ns <= row.end_ns]
            firsts.append(ops[next(c for c in inside if "GraphLaunch" in c.name).correlation_id])
    firsts.sort()
    return [after - before for before, after in pairwise(firsts)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of two passes, one of which slows the server by a seventh."""
    return in_two_passes(WORLD, tmp_path_factory.mktemp("both"), GRAPH, NODE)


@pytest.fixture(scope="module")
def true_shares(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], float]:
    """Of two passes that cost nothing: each class's share of each phase."""
    folder = tmp_path_factory.mktemp("free")
    free = in_two_passes(WORLD, folder, Recorder(), Recorder(graph_trace="node"))
    assert free.node_recording is not None
    return {
        (phase.phase, share.kernel_class): share.share.value
        for phase in free.node_recording.phases
        for share in phase.shares
    }


def test_the_period_of_a_node_pass_is_not_that_of_the_server(tmp_path: Path, both: Report) -> None:
    truth = WORLD.truth
    main = truth.speculating.bucket("verify")
    naive = periods_by_hand(WORLD.record(NODE))
    assert is_off(sorted(naive)[len(naive) // 2], main.period_ns) > 0.1
    alone = against_baseline(WORLD, tmp_path, NODE)
    (told,) = [text for text in complaints(alone) if text.startswith("node recording:")]
    assert "may be" in told
    (step,) = [check.next_step for check in alone.trust if check.check == "node recording"]
    assert step is not None
    assert "--two-pass" in step
    bucket = bucket_like(both, main.shape)
    assert is_off(bucket.mean_period_ns.value, main.period_ns) < 0.002
    for phase, window_ns in main.windows_ns.items():
        assert windows_of(bucket)[phase] == pytest.approx(window_ns, rel=0.005), phase
    assert both.verdict is not None
    (verdict,) = both.verdict.buckets
    assert verdict.speedup is not None
    assert verdict.speedup.value == pytest.approx(truth.speedup, rel=0.005)


@pytest.mark.parametrize("recorder", [NODE, MILD])
def test_a_node_pass_alone_claims_no_more_than_it_can_know(
    tmp_path: Path, recorder: Recorder
) -> None:
    """Cycle and plain step may be shorter; their ratio, and so the verdict, is nearly the same."""
    truth = WORLD.truth
    report = against_baseline(WORLD, tmp_path, recorder)
    assert report.verdict is not None
    (verdict,) = report.verdict.buckets
    assert truth.plain is not None
    served, plain = truth.speculating.bucket("verify"), truth.plain.bucket("decode")
    for found, wanted in (
        (verdict.tokens_per_s, served.tokens_per_s),
        (verdict.baseline_ns, plain.period_ns),
        (verdict.break_even_accept_len, truth.break_even_accept_len),
        (verdict.speedup, truth.speedup),
    ):
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        assert wanted is not None
        assert found.low <= wanted <= found.high
    assert verdict.speedup is not None
    apart = verdict.accept_len.value / verdict.speedup.value if verdict.accept_len else 0.0
    assert apart == pytest.approx(truth.break_even_accept_len, rel=0.05)


def test_what_recording_was_made_to_cost_is_found(both: Report) -> None:
    found = both.node_recording
    assert found is not None
    per_node = found.per_node_ns
    assert per_node.value == pytest.approx(1e3 * NODE.node_us, rel=0.1)


@pytest.mark.parametrize("inside", [0.0, 1.0])
def test_shares_of_classes_hold_the_truth_wherever_the_cost_lies(
    tmp_path: Path, true_shares: dict[tuple[str, str], float], inside: float
) -> None:
    slowed = in_two_passes(WORLD, tmp_path, GRAPH, replace(MILD, node_inside_share=inside))
    assert slowed.node_recording is not None
    told = [
        (true_shares[phase.phase, share.kernel_class], share.share)
        for phase in slowed.node_recording.phases
        for share in phase.shares
    ]
    assert told, "a mild disturbance leaves shares"
    for wanted, share in told:
        low = share.value if share.low is None else share.low
        high = share.value if share.high is None else share.high
        assert low - 0.005 <= wanted <= high + 0.005


def test_few_nodes_in_a_long_cycle_are_no_warning(tmp_path: Path) -> None:
    costs = Costs(up=Cost(6_000.0), down=Cost(6_000.0))
    world = World(WorldSettings(engine="sglang_v2", costs=costs, cycles=12))
    main = world.served.bucket("verify")
    report = analyzed(world.record(NODE), tmp_path)
    assert is_off(bucket_like(report, main.shape).mean_period_ns.value, main.period_ns) < 0.01
    (check,) = [check for check in report.trust if check.check == "node recording"]
    assert check.status == "ok"
