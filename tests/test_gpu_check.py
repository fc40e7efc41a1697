"""The check for GPU machines, dry: it must be whole, and must not pass for a measurement."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from math import comb
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceanalyzer
from tests.harness import REPOSITORY
from tests.strategies import examples

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

FOLDER = REPOSITORY / "benchmarks" / "gpu_check"
PHASES = ("draft", "verify", "sample", "draft_extend")


def module(name: str) -> ModuleType:
    """A module of the check, which is no package."""
    spec = spec_from_file_location(f"gpu_check_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


paired: Any = module("paired")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
@examples(0.3)
def test_interval_is_the_shortest_that_holds_the_median(values: list[float]) -> None:
    found = paired.Interval.of(values)
    ordered, count = sorted(values), len(values)
    assert found.low <= found.value <= found.high

    def holds(rank: int) -> float:
        """Chance that the median lies between the order statistics `rank` from either end."""
        return sum(comb(count, below) for below in range(rank + 1, count - rank)) * 0.5**count

    wide_enough = [rank for rank in range(count // 2) if holds(rank) >= 0.95]
    rank = max(wide_enough, default=0)
    assert (found.low, found.high) == (ordered[rank], ordered[count - 1 - rank])


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        paired.Interval.of([])


def test_rounds_take_turns() -> None:
    order: list[str] = []

    def way(name: str, cost: float) -> Any:
        def run() -> float:
            order.append(name)
            return cost

        return run

    costs = paired.rounds({"a": way("a", 2.0), "b": way("b", 1.0)}, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert paired.ratio(costs["a"], costs["b"]).value == 2
    assert paired.saving(costs["b"], costs["a"]).value == 1


@pytest.mark.skipif(find_spec("torch") is None, reason="the reference pipeline needs PyTorch")
def test_dry_run(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    done = subprocess.run(
        [
            *(sys.executable, FOLDER / "check.py", "--cpu", "--rounds", "2", "--cycles", "4"),
            *("--save", saved, "--no-nsys"),
        ],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    warning = "DRY RUN on a CPU, timed on the host: NOTHING WAS MEASURED ON A GPU."
    assert lines[0] == lines[-1] == warning
    assert not any(line.startswith("NOT SO") for line in lines)
    assert {f"| {phase} " for phase in PHASES} == {
        line[: line.index("|", 1)]
        for line in lines
        if line.startswith(tuple(f"| {p} " for p in PHASES))
    }
    assert "ok: the same tokens under hooks and patch" in lines
    (kept,) = saved.iterdir()
    report = traceanalyzer.analyze(traceanalyzer.load(kept))
    assert {phase.phase for phase in report.ranks[0].phases} >= set(PHASES)
    assert report.ranks[0].cycles.kept == 7
    assert str(tmp_path).encode() not in kept.read_bytes()
