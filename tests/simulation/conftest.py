from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.simulation import (
    FLAVOURS,
    Eagle3Settings,
    Recording,
    eagle3_server,
    write_nsys_sqlite,
)

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Eagle3Settings.small()

SERVERS = {
    "nodes": SMALL,
    "graph rows": replace(SMALL, graph_mode="graph", decode_every=4, cycles=16),
    "eager": replace(SMALL, graph_mode="eager", cycles=8),
    "mixed": replace(SMALL, graph_share=0.5, decode_every=5, dummy_every=7, batch_sizes=(1, 3)),
    "bare names": replace(SMALL, domain=None, registered=False, sample_ranges=False),
    "no cycle ranges": replace(SMALL, cycle_ranges=False),
    "backtraces": replace(SMALL, backtraces=True, ranks=3, one_visible_gpu=True),
    "one rank, no lag": replace(SMALL, ranks=1, lag_cycles=0, capture_recorded=False),
    "seed case": replace(Eagle3Settings.seed_case(cycles=20, ranks=2), layers=3, prefill_every=8),
    "synchronised": replace(SMALL, synchronise=True, exact=True, cycles=10),
    "no speculation": replace(SMALL, draft_tokens=0, exact=True, cycles=10),
    "inside graphs": replace(SMALL, inner_ranges=True, graph_clones=1, recapture_every=5),
    "before the recording": replace(SMALL, precapture=True, inner_ranges=True, ranks=1),
    "one draft": replace(SMALL, draft_tokens=1, verified_tokens=0, cycles=10),
}
"""Settings that between them use every feature of the generator but one."""

FUSED = replace(SMALL, fused=True, straddle_every=0, batch_sizes=(1, 2))
"""One graph of several phases, which only the ranges of its capture tell apart."""


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> tuple[Eagle3Settings, Recording]:
    settings = SERVERS[request.param]
    return settings, eagle3_server(settings)


@pytest.fixture(scope="session")
def server_file(
    server: tuple[Eagle3Settings, Recording], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    settings, recording = server
    flavour = FLAVOURS["2025.5" if settings.graph_mode == "graph" else "2022.4"]
    path = tmp_path_factory.mktemp("server") / "trace.sqlite"
    write_nsys_sqlite(recording, path, flavour)
    return path


@pytest.fixture(scope="session")
def small() -> Recording:
    return eagle3_server(SMALL)
