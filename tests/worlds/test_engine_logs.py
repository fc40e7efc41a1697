"""Acceptance from an engine's own log where the hooks' marks are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import traceanalyzer
from tests.worlds.answers import analyzed, is_off, with_log
from traceanalyzer.pipeline import AnalysisOptions, analyze
from traceanalyzer.simulation import NSYS_2025_5, write_nsys_sqlite
from traceanalyzer.simulation.worlds import Load, World, WorldSettings, log_of
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import Report
    from traceanalyzer.simulation.worlds.settings import EngineName

VERSIONS = {"sglang_v1": ("sglang", "0.4.9"), "vllm": ("vllm", "0.11.0")}


def unmarked(world: World, folder: Path, known: Known) -> Report:
    """The report of a capture that holds ranges and no marks."""
    path = folder / "unmarked.sqlite"
    write_nsys_sqlite(replace(world.record().recording, marks=[]), path, NSYS_2025_5)
    return analyze(traceanalyzer.load(path), AnalysisOptions(known=known))


@pytest.mark.parametrize("engine", ["sglang_v1", "vllm"])
def test_a_log_stands_in_for_marks(tmp_path: Path, engine: EngineName) -> None:
    world = World(WorldSettings(engine=engine, load=Load(output_tokens=(400, 500)), cycles=80))
    name, version = VERSIONS[engine]
    known = with_log(tmp_path, log_of(world.record().run, engine), name, version, Known())
    truth = world.truth
    main = truth.speculating.bucket("verify")
    assert is_off(known.readings[0].accept_len - 1, main.accept_len) > 0.3, "bonus left out"
    assert is_off(known.readings[0].accept_len, main.accept_len) < 0.02
    plain = analyzed(world.plain.record(), tmp_path)
    report = unmarked(world, tmp_path, replace(known, baseline=measured_baseline(plain)))
    assert report.verdict is not None
    (verdict,) = report.verdict.buckets
    assert verdict.speedup is not None
    assert truth.speedup is not None
    assert is_off(verdict.speedup.value, truth.speedup) < 0.03
    assert verdict.outcome == "undecided" or (verdict.speedup.value > 1) == (truth.speedup > 1)
