"""Graphs in pieces with attention between them: no graph row is a forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worlds.answers import analyzed, bucket_like, is_off, same_buckets
from traceanalyzer.simulation.worlds import World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

WORLD = World(WorldSettings(engine="vllm", piecewise=True))


def test_graph_rows_of_a_verify_are_less_than_its_window(tmp_path: Path) -> None:
    capture = WORLD.record()
    main = capture.figures.bucket("verify")
    launched = [
        (row.start_ns, row.end_ns)
        for row in capture.recording.ranges
        if row.name == "verify" and row.end_ns
    ]
    calls = {
        call.correlation_id
        for start_ns, end_ns in launched
        for call in capture.recording.calls
        if start_ns <= call.start_ns and call.end_ns <= end_ns
    }
    rows = [op for op in capture.recording.ops if op.kind == "graph" and op.correlation_id in calls]
    naive = sum(op.end_ns - op.start_ns for op in rows) / len(launched)
    assert is_off(naive, main.windows_ns["verify"]) > 0.1
    assert len(rows) > 3 * len(launched), "one launch is no forward"
    report = analyzed(capture, tmp_path)
    same_buckets(report, capture.figures)
    assert bucket_like(report, main.shape).cycles == main.cycles
