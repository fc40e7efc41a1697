"""Traces of a tensor-parallel server with a truth beside them, made by a program that is not ours.

CPU threads run a step ahead of the GPU, ranks use the same correlation ids, verifies are CUDA
graphs half of the time: matching by time, by stream or by correlation id alone gives wrong sums.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import needs_shared, shared_folder
from traceanalyzer import Report, analyze, load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_shared

KERNELS = 20_000
# The truth calls "other" what is launched outside its phase ranges, in a step or not.
OTHERS = {"other", "unattributed"}


def made(folder: Path, ranks: int, graph_mode: str) -> tuple[Report, dict[str, Any]]:
    """The report of a made trace, and its truth."""
    shared = shared_folder()
    assert shared
    path = folder / "big.sqlite"
    size = ("--kernels", str(KERNELS), "--ranks", str(ranks), "--graph-mode", graph_mode)
    maker = shared / "bench" / "make_big.py"
    subprocess.run([sys.executable, maker, path, *size], check=True, capture_output=True)
    truth: dict[str, Any] = json.loads((folder / "big.truth.json").read_text())
    return analyze(load(path)), truth


@pytest.mark.parametrize("graph_mode", ["node", "graph"])
@pytest.mark.parametrize("ranks", [2, 8])
def test_sums_of_every_rank_and_phase(ranks: int, graph_mode: str, tmp_path: Path) -> None:
    report, truth = made(tmp_path, ranks, graph_mode)
    assert len(report.ranks) == len(truth["ranks"]) == ranks
    for rank in report.ranks:
        expected = truth["ranks"][str(rank.rank)]
        assert rank.process_id == expected["pid"]
        found: dict[str, list[int]] = {}
        for phase in rank.phases:
            name = "other" if phase.phase in OTHERS else phase.phase
            sums = found.setdefault(name, [0, 0, 0, 0])
            sums[0] += phase.kernels
            sums[1] += phase.kernel_ns
            sums[2] += phase.graph_launches
            sums[3] += phase.graph_row_ns
        assert found == {
            name: [phase["kernels"], phase["ns"], phase["graph_launches"], phase["graph_ns"]]
            for name, phase in expected["phases"].items()
        }
        assert any(phase["graph_launches"] for phase in expected["phases"].values())
        steps = expected["steps"]
        dropped = rank.cycles.dropped
        assert rank.cycles.kept + dropped.edge + dropped.warm_up + dropped.interrupted == steps
    counts = truth["counts"]
    kernels = sum(phase.kernels for rank in report.ranks for phase in rank.phases)
    rows = sum(phase.graph_rows for rank in report.ranks for phase in rank.phases)
    assert (kernels, rows) == (counts["kernel"], counts["graph"])


def test_launches_outside_phases_but_in_a_step_are_other(tmp_path: Path) -> None:
    """Every step is inside a range named step, which is the engine's cycle."""
    report, _ = made(tmp_path, 2, "node")
    for rank in report.ranks:
        assert "unattributed" not in {phase.phase for phase in rank.phases}
