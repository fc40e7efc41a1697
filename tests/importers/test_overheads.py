"""The recorder's own time, as nsys and torch.profiler state it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.exports import NSYS_2025, Export, global_tid, served
from traceanalyzer import load
from traceanalyzer.trace import Trace, concatenate

if TYPE_CHECKING:
    from pathlib import Path


def told(trace: Trace) -> list[tuple[int, int, int, str]]:
    """Start, end, process and kind of each row."""
    return trace.overheads.select("start_ns", "end_ns", "process", trace.text("name")).rows()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Two processes, overheads of the second one and of one that did nothing else."""
    export = Export(NSYS_2025)
    served(export, 4100)
    served(export, 4200, rank=1)
    for table, process, start, end in (
        ("PROFILER_OVERHEAD", 4200, 10, 40),
        ("PROFILER_OVERHEAD", 9999, 20, 30),
        ("PROFILER_OVERHEAD", 4200, 90, 80),
        ("CUPTI_ACTIVITY_KIND_OVERHEAD", 4100, 50, 60),
    ):
        export.add(
            table,
            start=start,
            end=end,
            globalTid=global_tid(process),
            nameId=export.string("CUPTI Buffer flush"),
        )
    return export.write_sqlite(tmp_path / "t.sqlite")


def test_rows_of_both_tables_with_their_process(export: Path) -> None:
    trace = load(export)
    assert told(trace) == [(10, 40, 1, "CUPTI Buffer flush"), (50, 60, 0, "CUPTI Buffer flush")]
    left_out = trace.diagnostics.filter(trace.diagnostics["text"].str.contains("PROFILER_OVERHEAD"))
    assert left_out["count"].to_list() == [1]


def test_joined_files_keep_their_processes(export: Path) -> None:
    trace = load(export)
    joined = concatenate([trace, trace])
    assert [row[2] for row in told(joined)] == [1, 0, 3, 2]
    assert {row[3] for row in told(joined)} == {"CUPTI Buffer flush"}


def test_events_of_torch_profiler(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    place = {"ph": "X", "pid": -1, "tid": 0, "args": {}}
    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 8,
         "ts": 10, "dur": 2, "args": {"correlation": 1}},
        {**place, "cat": "overhead", "name": "Buffer Flush", "ts": 20, "dur": 1.5},
        {**place, "cat": "overhead", "name": "Lazy Function Loading", "ts": 30},
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert told(load(path)) == [
        (20_000, 21_500, 0, "Buffer Flush"),
        (30_000, 30_000, 0, "Lazy Function Loading"),
    ]
