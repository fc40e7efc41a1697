"""What recording nodes is made to cost, and what the truth says of the server without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from traceanalyzer.errors import InputError
from traceanalyzer.simulation import Eagle3Settings, eagle3_server, truth_of
from traceanalyzer.simulation.presets import tiny

SERVER = replace(
    tiny(),
    cycles=8,
    lag_cycles=1,  # the GPU never waits for the host, which would hide the overhead
    jitter_share=0.0,
    verify_ms=3.0,
    draft_ms=0.5,
    draft_extend_ms=0.5,
)
SLOWED = replace(SERVER, node_overhead_us=2.0, replay_overhead_us=7.0)


def windows(settings: Eagle3Settings) -> dict[str, float]:
    (bucket,) = truth_of(eagle3_server(settings)).buckets
    return bucket.windows_ns


def nodes_of(settings: Eagle3Settings) -> dict[str, int]:
    """Of each phase's graph."""
    recording = eagle3_server(settings)
    ran = [op for op in recording.ops if op.graph_node_id is not None]
    return {
        phase: len({op.graph_node_id for op in ran if op.phase == phase})
        for phase in ("draft", "verify", "draft_extend")
    }


@pytest.mark.parametrize("inside", [0.0, 0.4, 1.0])
def test_each_node_and_each_replay_takes_so_much_longer(inside: float) -> None:
    slowed = replace(SLOWED, node_overhead_inside_share=inside)
    before, after = windows(SERVER), windows(slowed)
    added = {phase: after[phase] - before[phase] for phase in before}
    for phase, nodes in nodes_of(SERVER).items():
        assert added[phase] == pytest.approx(7_000 + 2_000 * nodes, abs=60)


def test_the_truth_knows_the_undisturbed_windows() -> None:
    truth = truth_of(eagle3_server(SLOWED))
    (row,) = truth.undisturbed
    assert row.windows_ns == windows(SERVER)
    assert row.slower_share["verify"] > 0
    assert "undisturbed" in truth.as_json()


def test_whole_graph_rows_are_not_slowed() -> None:
    whole = replace(SERVER, graph_mode="graph")
    assert windows(replace(whole, node_overhead_us=2.0)) == windows(whole)


def test_without_overhead_the_truth_has_no_undisturbed_server() -> None:
    truth = truth_of(eagle3_server(SERVER))
    assert truth.undisturbed == ()
    assert "undisturbed" not in truth.as_json()


@pytest.mark.parametrize(
    "setting", ["node_overhead_us", "node_overhead_inside_share", "replay_overhead_us"]
)
def test_overhead_below_0_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match="between"):
        replace(SERVER, **{setting: -0.1})  # type: ignore[arg-type]
