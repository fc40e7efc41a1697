"""A host that is a step ahead: requests run once more after their end, and work runs late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import analyzed, bucket_like, is_off, same_buckets, windows_of
from traceanalyzer.simulation.worlds import UNTRACED, Load, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.worlds.settings import EngineName

LOAD = Load(batch=4, output_tokens=(6, 14))


def world(engine: EngineName) -> World:
    return World(WorldSettings(engine=engine, load=LOAD, cycles=100))


@pytest.mark.parametrize("engine", ["sglang_v2", "tensorrt_llm"])
def test_stale_requests_commit_nothing(tmp_path: Path, engine: EngineName) -> None:
    served = world(engine)
    rows = [each for step in served.record().run.steps.values() for each in step.outcomes]
    truth = served.served.accept_len
    assert truth is not None
    stale = sum(each.stale for each in rows)
    assert stale > 0.1 * len(rows)
    naive = sum(each.accepted + 1 for each in rows) / len(rows)
    assert is_off(naive, truth) > 0.05
    report = analyzed(served.record(), tmp_path)
    assert report.acceptance is not None
    assert report.acceptance.accept_len == pytest.approx(truth, rel=1e-9)
    assert report.acceptance.stale_request_cycles == stale
    same_buckets(report, served.served)
    for bucket in report.buckets:
        if bucket.acceptance and (ledger := bucket.acceptance.ledger):
            parts = (ledger.committed, ledger.rejected, ledger.overshoot, ledger.stale)
            assert sum(parts) + ledger.idle == ledger.verified


def test_what_runs_under_a_range_is_not_what_the_range_launched(tmp_path: Path) -> None:
    served = world("sglang_v2")
    capture = served.record(UNTRACED)
    main = capture.figures.bucket("verify")
    ranges = [
        (row.start_ns, row.end_ns, row.name)
        for row in capture.recording.ranges
        if row.name in ("draft", "verify", "draft_extend") and row.end_ns
    ]
    under = {name: 0 for _start, _end, name in ranges}
    for op in capture.recording.ops:
        for start_ns, end_ns, name in ranges:
            under[name] += max(0, min(op.end_ns, end_ns) - max(op.start_ns, start_ns))
    verifies = sum(name == "verify" for _start, _end, name in ranges)
    assert is_off(under["verify"] / verifies, main.window_ns("verify", "sample")) > 0.2
    report = analyzed(capture, tmp_path)
    windows = windows_of(bucket_like(report, main.shape))
    assert windows["verify"] == pytest.approx(main.windows_ns["verify"])


def test_the_host_time_of_a_range_is_not_gpu_time() -> None:
    capture = world("sglang_v2").record(UNTRACED)
    lengths = [
        row.end_ns - row.start_ns
        for row in capture.recording.ranges
        if row.name == "draft" and row.end_ns
    ]
    naive = sum(lengths) / len(lengths)
    assert is_off(naive, capture.figures.bucket("verify").windows_ns["draft"]) > 0.5
