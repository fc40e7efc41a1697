"""A draft length that changes from cycle to cycle: no mean over it belongs to any length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import against_baseline, analyzed, is_off, same_buckets
from traceanalyzer.errors import InputError
from traceanalyzer.simulation.worlds import Speculation, World, WorldSettings
from traceanalyzer.verdict.baseline import measured_baseline

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds.settings import EngineName

SPECULATION = Speculation(draft_tokens=(1, 7), accept_probability=0.75)


@pytest.mark.parametrize("engine", ["sglang_v1", "vllm", "tensorrt_llm"])
def test_each_length_has_its_own_cycle_and_speed_up(tmp_path: Path, engine: EngineName) -> None:
    """The draft that a verify judges was paid in the window before, which is another length's."""
    world = World(WorldSettings(engine=engine, speculation=SPECULATION))
    truth = world.truth
    assert truth.plain is not None
    step_ns = truth.plain.bucket("decode").period_ns
    verifies = [each for each in truth.speculating.buckets if each.shape.kind == "verify"]
    tokens = sum(each.committed_tokens for each in verifies)
    cycles = sum(each.live_request_cycles for each in verifies)
    mean_ns = sum(each.cycles * each.period_ns for each in verifies) / cycles
    naive = tokens / cycles * step_ns / mean_ns
    report = against_baseline(world, tmp_path)
    same_buckets(report, truth.speculating)
    assert report.verdict is not None
    told = {
        report.buckets[each.bucket].shape.draft_tokens: each.speedup
        for each in report.verdict.buckets
    }
    for each in verifies:
        wanted = each.accept_len * step_ns / each.period_ns
        assert is_off(naive, wanted) > 0.02
        speedup = told[each.shape.draft_tokens]
        assert speedup is not None
        assert speedup.value == pytest.approx(wanted, rel=1e-6)


def test_steps_without_drafts_on_a_server_that_can_draft_are_no_baseline(tmp_path: Path) -> None:
    speculation = Speculation(draft_tokens=(0, 4))
    world = World(WorldSettings(engine="sglang_v1", speculation=speculation))
    truth = world.truth
    assert truth.plain is not None
    own_ns = truth.speculating.bucket("decode").period_ns
    step_ns = truth.plain.bucket("decode").period_ns
    assert is_off(own_ns, step_ns) > 0.1, "it keeps its draft model up to date"
    capture = world.record()
    report = analyzed(capture, tmp_path)
    same_buckets(report, capture.figures)
    with pytest.raises(InputError, match="this capture speculates"):
        measured_baseline(report)
