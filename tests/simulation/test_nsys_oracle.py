"""The real `nsys stats` reads simulated exports and counts what the recording says."""

from __future__ import annotations

import csv
import subprocess
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.harness import needs_nsys
from tests.simulation.conftest import SMALL
from traceanalyzer.simulation import FLAVOURS, Recording, eagle3_server, write_nsys_sqlite

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.recording import ApiCall, Range

Key = tuple[str, str, str, str, str]
"""Range, style, process id, thread id and kernel, as the report prints them."""

NO_RANGE = ("None", "None")


def stats(path: Path, report: str) -> list[dict[str, str]]:
    base = path.with_suffix("")
    command = ["nsys", "stats", "-q", "-r", report, "-f", "csv", "-o", str(base), str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    with path.with_name(f"{base.name}_{report}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def reported(path: Path) -> dict[Key, tuple[int, int]]:
    """Instances and total time per range and kernel by `nvtxkernsum`."""
    return {
        (row["NVTX Range"], row["Style"], row["PID"], row["TID"], row["Kernel Name"]): (
            int(row["Kern Inst"]),
            int(row["Total Time (ns)"]),
        )
        for row in stats(path, "nvtxkernsum")
    }


def expected(recording: Recording) -> dict[Key, tuple[int, int]]:
    """The same by looking at every range for every kernel."""
    calls = {(call.thread.process, call.correlation_id): call for call in recording.calls}
    sums: dict[Key, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for op in recording.ops:
        if op.kind != "kernel":
            continue
        assert op.kernel is not None
        call = calls.get((op.process, op.correlation_id))
        for place in places(recording, call):
            key = (*place, op.kernel.demangled)
            count, total = sums[key]
            sums[key] = count + 1, total + op.end_ns - op.start_ns
    return dict(sums)


def places(recording: Recording, call: ApiCall | None) -> set[tuple[str, str, str, str]]:
    if call is None:
        return {(*NO_RANGE, "None", "None")}
    process_id, thread_id = call.thread.process.process_id, call.thread.thread_id
    owner = str(process_id), str(thread_id)
    holding = {(*label(row), *owner) for row in recording.ranges if holds(recording, row, call)}
    return holding or {(*NO_RANGE, *owner)}


def holds(recording: Recording, row: Range, call: ApiCall) -> bool:
    end_ns = recording.end_ns if row.end_ns is None else row.end_ns
    same_thread = row.thread is call.thread and row.end_thread is None
    return same_thread and row.start_ns <= call.start_ns and call.end_ns <= end_ns


def label(row: Range) -> tuple[str, str]:
    name = row.name if row.domain is None else f"{row.domain}:{row.name}"
    return name, "PushPop" if row.style == "push_pop" else "StartEnd"


@needs_nsys
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    "settings",
    [
        SMALL,
        replace(SMALL, graph_mode="eager", cycles=6, ranks=1),
        replace(SMALL, domain=None, registered=False),
    ],
    ids=["nodes", "eager", "bare names"],
)
def test_kernels_per_range_are_those_that_nvidia_counts(settings, flavour, tmp_path):
    recording = eagle3_server(settings)
    write_nsys_sqlite(recording, tmp_path / "trace.sqlite", FLAVOURS[flavour])
    found = reported(tmp_path / "trace.sqlite")
    assert found == expected(recording)
    assert any(key[0] == "None" and key[2] == "None" for key in found), "orphans have no process"


@needs_nsys
def test_nvidia_counts_time_twice_with_backtraces(tmp_path):
    recording = eagle3_server(replace(SMALL, backtraces=True))
    write_nsys_sqlite(recording, tmp_path / "trace.sqlite")
    found, once = reported(tmp_path / "trace.sqlite"), expected(recording)
    in_cycles = [key for key in once if key[0] == "eagle:cycle"]
    assert [found[key][0] for key in in_cycles] == [once[key][0] for key in in_cycles]
    spent = sum(once[key][1] for key in in_cycles)
    assert 1.95 * spent < sum(found[key][1] for key in in_cycles) <= 2 * spent


@needs_nsys
def test_nvidia_leaves_whole_graph_rows_out(tmp_path):
    recording = eagle3_server(replace(SMALL, graph_mode="graph"))
    write_nsys_sqlite(recording, tmp_path / "trace.sqlite", FLAVOURS["2025.5"])
    assert any(op.kind == "graph" for op in recording.ops)
    assert reported(tmp_path / "trace.sqlite") == expected(recording)


@needs_nsys
@pytest.mark.parametrize(
    "report", ["gpukernsum", "cudaapisum", "gpumemtimesum", "nvtxppsum", "nvtxsesum"]
)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_other_reports_find_their_tables(report, flavour, small, tmp_path):
    write_nsys_sqlite(small, tmp_path / "trace.sqlite", FLAVOURS[flavour])
    assert stats(tmp_path / "trace.sqlite", report)
