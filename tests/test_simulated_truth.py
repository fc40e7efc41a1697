"""The whole road against simulated servers whose truth is known, in every format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES
from tests.simulation.conftest import FUSED, SERVERS
from traceanalyzer.assembly.cycle_timing import gpu_timing
from traceanalyzer.importers import load
from traceanalyzer.phases.cycles import STATES
from traceanalyzer.phases.phased import PhasedTrace, settle_phases
from traceanalyzer.phases.rules import Rules
from traceanalyzer.pipeline import analyze
from traceanalyzer.simulation import (
    FLAVOURS,
    Truth,
    eagle3_server,
    truth_of,
    write_kineto,
    write_nsys_parquetdir,
    write_nsys_sqlite,
)

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.analyses.phase_time import CycleTime
    from traceanalyzer.trace import Trace

COUNTS = ("ops", "kernels", "kernel_ns", "graph_rows", "graph_row_ns", "launches", "graph_launches")
ALL_SERVERS = SERVERS | {"fused": FUSED}


@pytest.fixture(scope="module", params=ALL_SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server(request.param, tmp_path_factory.mktemp("server"))


class Server:
    """A simulated server: its truth, and its trace in each format."""

    def __init__(self, name: str, folder: Path) -> None:
        self.recording = eagle3_server(ALL_SERVERS[name])
        self.truth: Truth = truth_of(self.recording)
        self.has_graph_rows = ALL_SERVERS[name].graph_mode == "graph"
        self.folder = folder

    def trace(self, form: str) -> Trace:
        path = self.folder / form
        if form == "parquet":
            write_nsys_parquetdir(self.recording, path)
        elif form == "kineto":
            write_kineto(self.recording, path)
        else:
            write_nsys_sqlite(self.recording, path, FLAVOURS[form])
        return load(path)

    def forms(self) -> list[str]:
        forms = ["2025.5", "parquet"] if self.has_graph_rows else ["2022.4", "2025.5", "parquet"]
        one_rank = len(self.truth.ranks) == 1
        return [*forms, "kineto"] if one_rank and not self.has_graph_rows else forms


def test_totals_of_every_rank_and_phase_are_the_truth(server: Server) -> None:
    want = {
        (rank.process_id, rank.device_id, name): tuple(getattr(phase, key) for key in COUNTS)
        for rank in server.truth.ranks
        for name, phase in rank.phases.items()
    }
    for form in server.forms():
        got = {
            (rank.process_id, rank.device.index, phase.phase): tuple(
                getattr(phase, key) for key in COUNTS
            )
            for rank in analyze(server.trace(form)).ranks
            if rank.device
            for phase in rank.phases
        }
        assert got == want, form


def timed(trace: Trace) -> tuple[PhasedTrace, CycleTime]:
    phased = settle_phases(trace, Rules.shipped())
    return phased, gpu_timing(phased).time


def test_cycles_and_their_windows_are_the_truth(server: Server) -> None:
    for form in server.forms():
        phased, time = timed(server.trace(form))
        for lane, rank in enumerate(server.truth.ranks):
            rows = [row for row, own in enumerate(phased.cycles.spans.lane) if own == lane]
            assert len(rows) == len(rank.cycles)
            for row, cycle in zip(rows, rank.cycles, strict=True):
                assert STATES[phased.cycles.state[row]] == cycle.status
                if cycle.end_ns is None:
                    continue
                period = phased.cycles.spans.end_ns[row] - phased.cycles.spans.start_ns[row]
                assert period == cycle.end_ns - cycle.start_ns
                windows = dict(zip(phased.labels, time.window[row].tolist(), strict=True))
                wanted = {name: ns for name, ns in cycle.windows_ns.items() if ns}
                assert {name: ns for name, ns in windows.items() if ns} == wanted
                assert time.overlap[row] == cycle.overlap_ns


@pytest.mark.parametrize(
    "name",
    [
        "eagle3_tp2_nodes.sqlite",
        "eagle3_tp2_graphs.sqlite",
        "eagle3_eager_parquetdir",
        "eagle3_torch.json.gz",
    ],
)
def test_samples_hold_what_their_truth_files_say(name: str) -> None:
    report = analyze(load(SAMPLE_TRACES / name))
    stem = name.split(".")[0]
    truth = json.loads((SAMPLE_TRACES / f"{stem}.truth.json").read_text(encoding="utf-8"))
    assert len(report.ranks) == len(truth["ranks"])
    for rank, wanted in zip(report.ranks, truth["ranks"], strict=True):
        assert rank.process_id == wanted["process_id"]
        got = {phase.phase: {key: getattr(phase, key) for key in COUNTS} for phase in rank.phases}
        phases = wanted["phases"].items()
        assert got == {phase: {key: row[key] for key in COUNTS} for phase, row in phases}
        states = [cycle["status"] for cycle in wanted["cycles"]]
        assert rank.cycles.kept == states.count("kept")
        for state in ("warm_up", "edge", "interrupted", "dummy"):
            assert getattr(rank.cycles.dropped, state) == states.count(state)
