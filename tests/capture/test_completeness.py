"""Which rank lacks what, on servers of three ranks of which the second lost something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.exports import KERNEL, NVTX, RUNTIME, Export, global_pid, global_tid, served
from traceanalyzer.capture.completeness import completeness_lines, process_counts, rank_evidence
from traceanalyzer.importers import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traceanalyzer.capture.completeness import RankEvidence
    from traceanalyzer.trace import Trace

PIDS = (4100, 5200, 6300)
BROKEN = 5200
TABLES = {"ranges": NVTX, "launches": RUNTIME, "kernels": KERNEL}


def three_ranks(folder: Path, *lost: str) -> Trace:
    export = Export()
    for rank, pid in enumerate(PIDS):
        served(export, pid, rank=rank)
    for part in lost:
        table = TABLES[part]
        key = "globalPid" if table == KERNEL else "globalTid"
        export.tables[table] = [
            row for row in export.tables[table] if row[key] >> 24 << 24 != global_pid(BROKEN)
        ]
    return load(export.write_sqlite(folder / "x.sqlite"))


def evidence(
    trace: Trace, *, cuda: bool, phases_of: Sequence[int] | None = None
) -> list[RankEvidence]:
    """The evidence where all ranges of some processes, or of all, mean a phase."""
    opened = trace.threads["process"].gather(trace.ranges["thread"])
    rows = range(trace.processes.height) if phases_of is None else phases_of
    phase_ranges = np.flatnonzero(opened.is_in(list(rows)).to_numpy())
    return rank_evidence(trace.processes, process_counts(trace, phase_ranges), cuda=cuda)


def test_a_whole_server_is_one_line(tmp_path: Path) -> None:
    trace = three_ranks(tmp_path)
    ranks = evidence(trace, cuda=True)
    assert [(rank.rank, rank.process_id) for rank in ranks] == list(enumerate(PIDS))
    assert {(rank.ranges, rank.launches, rank.kernels) for rank in ranks} == {(15, 20, 20)}
    lines = completeness_lines(ranks, cuda=True, expected=3)
    assert lines == ["3 ranks, each with ranges, launches and kernels"]


@pytest.mark.parametrize(
    ("lost", "advice"),
    [
        (("ranges",), "hooks status"),
        (("launches",), "cut off"),
        (("kernels",), "never flushed"),
        (("launches", "kernels"), "spawn, not fork"),
        (("ranges", "launches"), "never flushed"),
        (("ranges", "kernels"), "neither ranges nor kernels"),
    ],
)
def test_a_rank_that_lacks_something_is_named_with_the_way_out(
    lost: tuple[str, ...], advice: str, tmp_path: Path
) -> None:
    trace = three_ranks(tmp_path, *lost)
    ranks = evidence(trace, cuda=True)
    assert {rank.process_id: rank.lacks for rank in ranks} == {4100: (), 5200: lost, 6300: ()}
    (line,) = completeness_lines(ranks, cuda=True)
    assert line.startswith(f"rank 1 (pid {BROKEN}, scheduler_TP1): ")
    assert f"but no {' and no '.join(lost)}: " in line
    assert advice in line


def test_a_rank_that_left_nothing_is_missed_where_the_engine_says_how_many_it_has(
    tmp_path: Path,
) -> None:
    trace = three_ranks(tmp_path, *TABLES)
    ranks = evidence(trace, cuda=True)
    assert len(ranks) == 2
    (line,) = completeness_lines(ranks, cuda=True, expected=3)
    assert line.startswith("2 of 3 ranks are in the report")
    assert completeness_lines(ranks, cuda=True) == [
        "2 ranks, each with ranges, launches and kernels"
    ]


def test_without_cuda_ranges_are_enough(tmp_path: Path) -> None:
    trace = three_ranks(tmp_path, "launches", "kernels")
    ranks = evidence(trace, cuda=False)
    assert completeness_lines(ranks, cuda=False) == ["3 ranks, each with ranges"]


def test_processes_that_do_no_ranks_work_are_left_out(tmp_path: Path) -> None:
    export = Export()
    served(export)
    export.call(10, 20, global_tid(900), 1, "cudaGetDeviceCount_v3020")
    export.range("schedule", 10, 20, global_tid(901))
    trace = load(export.write_sqlite(tmp_path / "x.sqlite"))
    worker = trace.processes.filter(process_id=4100)["process"].to_list()
    assert [rank.process_id for rank in evidence(trace, cuda=True, phases_of=worker)] == [4100]


def test_a_capture_without_any_rank_says_so(tmp_path: Path) -> None:
    export = Export()
    export.range("load", 10, 20, global_tid(901))
    trace = load(export.write_sqlite(tmp_path / "x.sqlite"))
    ranks = evidence(trace, cuda=True, phases_of=[])
    (line,) = completeness_lines(ranks, cuda=True)
    assert "no process left ranges, launches and kernels" in line
    assert "hooks status" in line
