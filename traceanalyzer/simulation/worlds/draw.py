"""Worlds drawn by lot, in ranges that real servers have, and recorders like real ones.

Ranges: 0.5 to 3 us a recorded node and GPU clocks up to 5 us off (measured by others on H100s);
two to four layers stand for many, so that cycles take a millisecond instead of thirty.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from traceanalyzer.simulation.worlds.logs import log_of
from traceanalyzer.simulation.worlds.settings import (
    Cost,
    Costs,
    Host,
    Load,
    Parallel,
    Recorder,
    Speculation,
    WorldSettings,
)
from traceanalyzer.simulation.worlds.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds.settings import EngineName, Method


@dataclass(frozen=True, slots=True)
class Recorders:
    """Who records a world: one pass of whole graphs, one of nodes, one under timers."""

    graph: Recorder = field(default_factory=Recorder)
    node: Recorder = field(default_factory=lambda: Recorder(graph_trace="node"))
    synchronised: Recorder = field(default_factory=lambda: Recorder(synchronise=True))


@dataclass(frozen=True, slots=True)
class Captures:
    """Files of one world.

    Attributes:
        graph: Whole-graph pass of the speculating server.
        node: Its node pass.
        synchronised: The same under synchronising timers.
        baseline: Whole-graph pass of the server with speculation off.
        baseline_node: Its node pass.
        log: The engine's log of the untraced server; empty for engines that print no acceptance.
    """

    graph: Path
    node: Path
    synchronised: Path
    baseline: Path
    baseline_node: Path
    log: Path


@dataclass(frozen=True)
class DrawnWorld(World):
    """A world and who records it."""

    recorders: Recorders = field(default_factory=Recorders)

    def write(self, folder: Path) -> Captures:
        """Record it in every way and write the files into an existing folder."""
        plain = self.plain
        log = folder / "server.log"
        log.write_text(log_of(self.record().run, self.settings.engine))
        return Captures(
            self.record(self.recorders.graph).write(folder / "graph.sqlite"),
            self.record(self.recorders.node).write(folder / "node.sqlite"),
            self.record(self.recorders.synchronised).write(folder / "synchronised.sqlite"),
            plain.record(self.recorders.graph).write(folder / "baseline.sqlite"),
            plain.record(self.recorders.node).write(folder / "baseline_node.sqlite"),
            log,
        )


def draw_world(seed: int) -> DrawnWorld:
    """The world of a seed: its engine, costs, load and recorders; the same at every call."""
    rng = random.Random(f"world {seed}")  # noqa: S311  no secret
    engines: list[EngineName] = ["sglang_v1", "sglang_v2", "vllm", "tensorrt_llm"]
    engine = rng.choice(engines)
    parallel = _parallel(rng, engine)
    settings = WorldSettings(
        engine=engine,
        costs=_costs(rng),
        speculation=_speculation(rng, engine),
        load=_load(rng, engine, parallel),
        host=_host(rng),
        parallel=parallel,
        cycles=rng.randint(60, 90),
        piecewise=engine == "vllm" and rng.random() < 0.4,
        fused_propose=engine == "vllm" and rng.random() < 0.3,
        seed=seed,
    )
    return DrawnWorld(settings, _recorders(rng, parallel))


def _costs(rng: random.Random) -> Costs:
    def cost(low_us: float, high_us: float) -> Cost:
        fixed_us = rng.uniform(low_us, high_us)
        return Cost(fixed_us, fixed_us * rng.uniform(0.002, 0.02), fixed_us * rng.uniform(0, 0.03))

    return Costs(
        layers=rng.randint(2, 4),
        norm=cost(3, 6),
        qkv=cost(15, 60),
        attention=cost(10, 40),
        out=cost(10, 40),
        up=cost(25, 110),
        activation=cost(3, 6),
        down=cost(20, 90),
        collective=cost(9, 25),
        head=cost(30, 120),
        sample=cost(5, 14),
        draft_factor=rng.uniform(0.3, 0.8),
        verify_attention_factor=rng.uniform(1.0, 3.0),
        dependent_launch_us=rng.choice([0.0, 0.0, rng.uniform(0.8, 3.0)]),
        jitter_share=rng.uniform(0.01, 0.05),
    )


def _speculation(rng: random.Random, engine: EngineName) -> Speculation:
    methods: list[Method] = ["chain", "chain", "chain", "tree", "ngram"]
    method = "chain" if engine == "tensorrt_llm" else rng.choice(methods)
    longest = rng.randint(2, 6)
    varies = method == "chain" and engine != "tensorrt_llm" and rng.random() < 0.25
    return Speculation(
        method=method,
        draft_tokens=(longest, max(1, longest - 2)) if varies else (longest,),
        tree_tokens=longest * rng.randint(2, 4) if method == "tree" else 0,
        accept_probability=rng.uniform(0.35, 0.85),
        request_spread=rng.uniform(0, 0.15),
        ngram_us=rng.uniform(20, 200),
    )


def _load(rng: random.Random, engine: EngineName, parallel: Parallel) -> Load:
    batch = rng.choice([1, 1, 2, 4, 8, 16, 32, 64])
    several = parallel.data > 1 or parallel.pipeline > 1
    chunked = not several and engine in ("vllm", "sglang_v2") and rng.random() < 0.5
    open_loop = not several and batch > 1 and rng.random() < 0.3
    return Load(
        batch=min(batch, 4) if several else batch,
        arrivals_per_s=batch * rng.uniform(15, 40) if open_loop else 0.0,
        prompt_tokens=(128, 1024),
        output_tokens=(40, 160),
        chunk_tokens=rng.choice([128, 256]) if chunked else 0,
        padded=rng.random() < 0.7,
    )


def _host(rng: random.Random) -> Host:
    return Host(
        schedule_us=rng.uniform(20, 120),
        phase_us=rng.uniform(10, 40),
        results_us=rng.uniform(10, 60),
        jitter_share=rng.uniform(0.05, 0.3),
        stall_every=rng.choice([0, 0, 17]),
        stall_us=rng.uniform(300, 1_500),
        grammar_us=rng.choice([0.0, 0.0, 0.0, rng.uniform(100, 400)]),
        transfer_us=rng.uniform(15, 60),
    )


def _parallel(rng: random.Random, engine: EngineName) -> Parallel:
    kind = rng.choice(["one", "one", "tensor", "tensor", "data", "pipeline"])
    if kind in ("data", "pipeline") and engine == "sglang_v1":
        return Parallel(data=2) if kind == "data" else Parallel(pipeline=2)
    if kind == "one":
        return Parallel()
    return Parallel(
        tensor=rng.choice([2, 4]),
        slow_rank_share=rng.choice([0.0, rng.uniform(0.01, 0.08)]),
        late_launch_us=rng.choice([0.0, rng.uniform(5, 40)]),
    )


def _recorders(rng: random.Random, parallel: Parallel) -> Recorders:
    ranks = max(parallel.tensor, parallel.data, parallel.pipeline)
    seen = Recorder(
        call_us=rng.uniform(0.1, 0.8),
        range_us=rng.uniform(0.1, 0.5),
        flush_every_us=rng.choice([0.0, rng.uniform(30_000, 60_000)]),
        flush_us=rng.uniform(500, 3_000),
        clock_offsets_us=tuple(rng.uniform(0, 5) for _rank in range(ranks)),
        drift_ppm=rng.uniform(0, 5),
    )
    return Recorders(
        graph=seen,
        node=replace(
            seen,
            graph_trace="node",
            node_us=rng.uniform(0.5, 3.0),
            node_inside_share=rng.uniform(0, 1),
            replay_us=rng.uniform(0, 20),
            launch_us=rng.uniform(5, 80),
        ),
        synchronised=replace(seen, synchronise=True),
    )
