"""Two passes over one simulated server, analysed: whole-graph rows, and nodes that cost time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from traceanalyzer import analyze, load
from traceanalyzer.simulation import (
    NSYS_2025_5,
    Eagle3Settings,
    eagle3_server,
    write_nsys_sqlite,
)

if TYPE_CHECKING:
    from traceanalyzer.report import Report
    from traceanalyzer.simulation import Recording

SMALL_SERVER = replace(
    Eagle3Settings.seed_case(cycles=22, ranks=1),
    detail_cycles=0,
    layers=6,
    verify_ms=3.5,
    verify_token_ms=0.5,
    decode_ms=3.0,
    prefill_ms=20.0,
)
TOTALS_SEED = 11


def models_of(server: Eagle3Settings) -> dict[str, Eagle3Settings]:
    """The same server with either model, by its name."""
    return {"mla_moe": server, "dense": replace(server, model="dense", layers=14)}


def analyzed(recording: Recording) -> Report:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.sqlite"
        write_nsys_sqlite(recording, path, NSYS_2025_5)
        return analyze(load(path))


@cache
def totals_pass(server: Eagle3Settings) -> Report:
    """The pass with whole-graph rows."""
    return analyzed(eagle3_server(replace(server, graph_mode="graph", seed=TOTALS_SEED)))


@cache
def node_pass(
    server: Eagle3Settings, node_us: float, inside: float, seed: int
) -> tuple[Report, Report]:
    """A pass with nodes, and the same run without what recording them costs."""
    settings = replace(
        server,
        graph_mode="node",
        node_overhead_us=node_us,
        node_overhead_inside_share=inside,
        replay_overhead_us=12.0,
        seed=seed,
    )
    recording = eagle3_server(settings)
    assert recording.undisturbed is not None
    return analyzed(recording), analyzed(recording.undisturbed)
