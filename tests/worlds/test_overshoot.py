"""Accepted drafts past the token that ends a request: they were verified, and never sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import analyzed, is_off, same_buckets, with_log
from traceanalyzer.simulation.worlds import Load, Speculation, World, WorldSettings, log_of
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from pathlib import Path

SPECULATION = Speculation(accept_probability=0.85, draft_tokens=(6,))
LOAD = Load(batch=2, output_tokens=(6, 14))
WORLD = World(WorldSettings(engine="vllm", speculation=SPECULATION, load=LOAD, cycles=240))


def test_tokens_past_the_end_are_not_committed(tmp_path: Path) -> None:
    truth = WORLD.served.accept_len
    assert truth is not None
    rows = [each for step in WORLD.record().run.steps.values() for each in step.outcomes]
    naive = sum(each.accepted + 1 for each in rows if not each.stale) / len(rows)
    assert is_off(naive, truth) > 0.1
    report = analyzed(WORLD.record(), tmp_path)
    assert report.acceptance is not None
    assert report.acceptance.accept_len == pytest.approx(truth, rel=1e-9)
    same_buckets(report, WORLD.served)


def test_an_engines_log_that_counts_them_is_told_apart(tmp_path: Path) -> None:
    known = with_log(tmp_path, log_of(WORLD.record().run, "vllm"), "vllm", "0.11.0", Known())
    truth = WORLD.served.accept_len
    assert truth is not None
    assert is_off(known.readings[0].accept_len, truth) > 0.1, "what the log says is too high"
    report = analyzed(WORLD.record(), tmp_path, known)
    assert report.verdict is not None
    failed = [check for check in report.trust if check.check == "acceptance"]
    assert [check.status for check in failed] == ["failed"]
    assert report.verdict.outcome == "withheld"
