"""Worlds themselves: what is served does not depend on who watches, and a lot is drawn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from tests.worlds.answers import analyzed, same_buckets, same_leads, same_waits
from traceanalyzer.errors import InputError
from traceanalyzer.simulation.worlds import (
    UNTRACED,
    Host,
    Load,
    Parallel,
    Recorder,
    Speculation,
    World,
    WorldSettings,
    draw_world,
)

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds import Capture

NOTHING_ADDED = Recorder(graph_trace="node")


def tokens_of(capture: Capture) -> dict[int, list[int]]:
    """What each request got, step by step."""
    got: dict[int, list[int]] = defaultdict(list)
    for _number, step in sorted(capture.run.steps.items()):
        for own in step.of_rank.values() or (step,):
            for each in own.outcomes:
                if not each.stale:
                    got[each.request].append(each.committed)
    return got


@pytest.mark.parametrize("engine", ["sglang_v1", "sglang_v2", "vllm", "tensorrt_llm"])
def test_a_recorder_without_cost_sees_what_was_served(engine: str) -> None:
    world = World(WorldSettings(engine=engine, parallel=Parallel(tensor=2), cycles=20))  # type: ignore[arg-type]
    nodes, rows = world.record(NOTHING_ADDED).figures, world.served
    assert nodes.buckets == rows.buckets
    assert nodes.accept_len == rows.accept_len


@given(st.integers(0, 10_000))
@examples(0.08)
def test_windows_and_overlap_make_the_period(seed: int) -> None:
    world = draw_world(seed)
    world = replace(world, settings=replace(world.settings, cycles=12))
    for bucket in world.served.buckets:
        parts = sum(bucket.windows_ns.values()) + bucket.overlap_ns
        assert parts == pytest.approx(bucket.period_ns)
        assert bucket.committed_tokens <= sum(
            each.accepted + 1
            for step in world.record().run.steps.values()
            for own in step.of_rank.values() or (step,)
            for each in own.outcomes
        )


@given(
    st.floats(0, 3),
    st.floats(0, 60),
    st.floats(0, 1),
    st.sampled_from(["sglang_v1", "sglang_v2", "vllm"]),
)
@examples(0.1)
def test_watching_only_slows_and_never_changes_a_token(
    node_us: float, launch_us: float, call_us: float, engine: str
) -> None:
    load = Load(batch=2, output_tokens=(10, 20))
    world = World(WorldSettings(engine=engine, load=load, cycles=16))  # type: ignore[arg-type]
    watched = world.record(
        Recorder(graph_trace="node", node_us=node_us, launch_us=launch_us, call_us=call_us)
    )
    assert tokens_of(watched) == tokens_of(world.record())
    main = world.served.bucket("verify")
    assert watched.figures.bucket("verify").period_ns >= main.period_ns - 1


def test_a_stale_step_is_one_after_the_last_token() -> None:
    load = Load(batch=3, output_tokens=(5, 9))
    capture = World(WorldSettings(engine="sglang_v2", load=load)).record()
    ended: set[int] = set()
    for _number, step in sorted(capture.run.steps.items()):
        for each in step.outcomes:
            assert each.stale == (each.request in ended)
        ended |= {each.request for each in step.outcomes if each.last}
    assert ended


def test_the_same_seed_draws_the_same_world() -> None:
    assert draw_world(7).settings == draw_world(7).settings
    assert draw_world(7).recorders == draw_world(7).recorders
    assert draw_world(7).served.buckets == draw_world(7).served.buckets


def test_every_behaviour_is_drawn() -> None:
    drawn = [draw_world(seed) for seed in range(300)]
    own = [world.settings for world in drawn]
    assert {each.engine for each in own} == {"sglang_v1", "sglang_v2", "vllm", "tensorrt_llm"}
    assert {each.speculation.method for each in own} == {"chain", "tree", "ngram"}
    for held in (
        lambda each: each.parallel.tensor > 1,
        lambda each: each.parallel.data > 1,
        lambda each: each.parallel.pipeline > 1,
        lambda each: each.load.chunk_tokens > 0,
        lambda each: each.load.arrivals_per_s > 0,
        lambda each: each.load.batch == 1,
        lambda each: each.load.batch == 64,
        lambda each: each.piecewise,
        lambda each: each.fused_propose,
        lambda each: len(each.speculation.draft_tokens) > 1,
        lambda each: each.host.grammar_us > 0,
        lambda each: each.host.stall_every > 0,
        lambda each: each.costs.dependent_launch_us > 0,
    ):
        share = sum(map(held, own)) / len(own)
        assert 0 < share < 1
    assert all(0.5 <= world.recorders.node.node_us <= 3 for world in drawn)


@pytest.mark.parametrize("seed", [3, 5, 20, 21])
def test_a_drawn_world_is_analysed_to_the_nanosecond(tmp_path: Path, seed: int) -> None:
    """As it was traced: the recorder's errors are left out, and what it costs is not.

    Cycles in which it writes its buffers are not averaged, so it writes none.
    """
    world = draw_world(seed)
    world = replace(world, settings=replace(world.settings, cycles=20))
    for recorder in (UNTRACED, world.recorders.node):
        exact = replace(recorder, clock_offsets_us=(), drift_ppm=0.0, flush_every_us=0.0)
        capture = world.record(exact)
        capture.recording.check()
        report = analyzed(capture, tmp_path)
        same_buckets(report, capture.figures)
        same_leads(report, capture.figures)
        if recorder.graph_trace == "node":  # where kernels of every kept cycle are known
            told = same_waits(report, capture.figures)
            assert bool(told) == (world.settings.parallel.tensor > 1)


def test_drawn_worlds_are_written_in_every_way(tmp_path: Path) -> None:
    world = draw_world(3)
    files = replace(world, settings=replace(world.settings, cycles=8)).write(tmp_path)
    for path in (files.graph, files.node, files.synchronised, files.baseline, files.baseline_node):
        assert path.read_bytes().startswith(b"SQLite format 3")
    assert files.log.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"cycles": 0},
        {"load": Load(batch=65)},
        {"parallel": Parallel(tensor=2, pipeline=2)},
    ],
)
def test_worlds_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        WorldSettings(**wrong)  # type: ignore[arg-type]


def test_a_host_that_stalls_serves_fewer_tokens() -> None:
    quick, slow = (
        World(WorldSettings(host=Host(stall_every=every, stall_us=2_000), cycles=30))
        for every in (0, 5)
    )
    fast, late = (world.served.bucket("verify").tokens_per_s for world in (quick, slow))
    assert late < 0.8 * fast


def test_a_tree_has_its_nodes_verified() -> None:
    speculation = Speculation(method="tree", draft_tokens=(3,), tree_tokens=9)
    served = World(WorldSettings(speculation=speculation, cycles=8)).served
    assert served.bucket("verify").shape.verified_tokens == 10
