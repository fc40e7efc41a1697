"""Waiting between the ranks of simulated servers, whose truth is known, through the whole road."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from traceanalyzer.importers import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.renderers.skew_text import skew_lines
from traceanalyzer.renderers.terminal import render_terminal
from traceanalyzer.simulation import (
    FLAVOURS,
    Eagle3Settings,
    Recording,
    eagle3_server,
    truth_of,
    write_nsys_sqlite,
)
from traceanalyzer.simulation.collective_truth import CollectiveTruth, collective_truths
from traceanalyzer.simulation.kernel_names import ALL_REDUCE, NCCL_ALL_REDUCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from traceanalyzer.report import GroupSkew, Report
    from traceanalyzer.simulation.recording import Op
    from traceanalyzer.trace import Trace

SERVER = replace(
    Eagle3Settings.small(), ranks=8, model="mla_moe", cycles=12, warm_up_cycles=1, straddle_every=0
)
LATE = {
    "launched late": replace(SERVER, lag_cycles=0, late_launch_ms=0.1, slow_link_share=0.5),
    "kernels run longer": replace(SERVER, slow_rank_share=0.15, slow_link_share=0.5),
}


def trace_of(recording: Recording, folder: Path) -> Trace:
    path = folder / "server.sqlite"
    write_nsys_sqlite(recording, path)
    return load(path)


@pytest.fixture(scope="module", params=LATE)
def late(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Late:
    return Late(request.param, tmp_path_factory.mktemp("late"))


class Late:
    """A server whose last rank is late, and what is said of it."""

    def __init__(self, why: str, folder: Path) -> None:
        self.why, self.settings = why, LATE[why]
        self.recording = eagle3_server(self.settings)
        self.truth = collective_truths(self.recording, truth_of(self.recording))
        self.trace = trace_of(self.recording, folder)
        self.report = analyze(self.trace)


def only(report: Report) -> GroupSkew:
    (group,) = report.skew
    return group


def told(report: Report) -> dict[tuple[int, str], tuple[float, float]]:
    """Wait and transfer over the kept cycles, by process id and phase."""
    process = {rank.rank: rank.process_id for rank in report.ranks}
    return {
        (process[row.rank], row.phase): (
            row.wait_ns_per_cycle * row.cycles,
            row.transfer_ns_per_cycle * row.cycles,
        )
        for row in only(report).waits
        if row.wait_ns_per_cycle is not None and row.transfer_ns_per_cycle is not None
    }


def assert_separated(
    found: Mapping[tuple[int, str], tuple[float, float]],
    truth: Mapping[tuple[int, str], CollectiveTruth],
    error_ns: float = 0.0,
) -> None:
    assert found.keys() == truth.keys()
    for key, (wait_ns, transfer_ns) in found.items():
        own = truth[key]
        slack = error_ns * own.collectives
        assert wait_ns == pytest.approx(own.wait_ns, rel=0.02, abs=slack + 1), key
        assert transfer_ns == pytest.approx(own.transfer_ns, rel=0.02, abs=slack + 1), key


def test_wait_and_transfer_are_those_that_were_planted(late: Late) -> None:
    assert_separated(told(late.report), late.truth)


def test_a_slow_link_lengthens_transfers_and_no_waits(late: Late, tmp_path: Path) -> None:
    quick = replace(late.settings, slow_link_share=0.0)
    recording = eagle3_server(quick)
    found = told(analyze(trace_of(recording, tmp_path)))
    slow = told(late.report)
    assert found.keys() == slow.keys()
    for key, (_, transfer_ns) in found.items():
        assert slow[key][1] / transfer_ns == pytest.approx(1.5, rel=0.02), key


def test_the_late_rank_is_named_with_its_cause(late: Late) -> None:
    group = only(late.report)
    last = SERVER.ranks - 1
    assert group.late_rank == last
    rank = group.by_rank[last]
    assert rank.cost_ns_per_cycle is not None
    assert rank.idle_share is not None
    assert (rank.idle_share > 0.5) == (late.why == "launched late")
    assert rank.late_in[0].phase == ("draft" if late.why == "launched late" else "verify")
    assert sum(part.cost_ns_per_cycle for part in rank.late_in) == pytest.approx(
        rank.cost_ns_per_cycle
    )
    assert rank.cost_ns_per_cycle > 10 * max(
        other.cost_ns_per_cycle or 0.0 for other in group.by_rank[:last]
    )
    text = " ".join(render_terminal(late.report, plain=True).split())
    assert f"Rank {last} is late: it costs at most" in text
    assert late.why in text


def test_what_the_late_rank_costs_is_what_the_others_wait_for_it(late: Late) -> None:
    """On one stream nothing hides a wait: each collective costs its longest."""
    longest: dict[int, int] = {}
    kept = {
        (rank.process_id, op.start_ns)
        for rank in truth_of(late.recording).ranks
        for op in rank.ops
        for cycle in rank.cycles
        if op.wait_ns is not None and cycle.number == op.cycle and cycle.status == "kept"
    }
    for op in late.recording.ops:
        if (op.process.process_id, op.start_ns) in kept:
            longest[op.end_ns] = max(longest.get(op.end_ns, 0), op.wait_ns or 0)
    group = only(late.report)
    cycles = late.report.ranks[0].cycles.kept
    assert group.cost_ns_per_cycle == pytest.approx(sum(longest.values()) / cycles, rel=0.02)


def test_without_a_late_rank_nobody_is_named(tmp_path: Path) -> None:
    group = only(analyze(trace_of(eagle3_server(SERVER), tmp_path)))
    assert group.resolved
    assert group.late_rank is None


def test_totals_fit_together(late: Late) -> None:
    for row in only(late.report).waits:
        assert row.wait_ns_per_cycle is not None
        assert row.transfer_ns_per_cycle is not None
        assert row.separated_ns_per_cycle == pytest.approx(row.collective_ns_per_cycle)
        assert row.wait_ns_per_cycle + row.transfer_ns_per_cycle == pytest.approx(
            row.separated_ns_per_cycle
        )
        assert row.net_ns_per_cycle is not None
        assert row.net_ns_per_cycle <= row.busy_ns_per_cycle


def test_several_groups_are_told_apart(late: Late) -> None:
    group = only(late.report)
    pipeline = replace(late.report, skew=[group, group])
    assert all(line.startswith("Ranks 0, 1, 2, 3, 4, 5, 6, 7: ") for line in skew_lines(pipeline))
    data = replace(late.report, skew=[replace(group, dp_rank=place) for place in (0, 1)])
    names = [line.partition(":")[0] for line in skew_lines(data)]
    assert names == ["Data-parallel group 0", "Data-parallel group 1"]


# Clocks.


def shifted(
    trace: Trace, lane_ns: Callable[[int], int], *, files: bool, drift_ppm: int = 0
) -> Trace:
    """The trace with other clocks, each process in a file of its own or all in one.

    Each clock goes faster than the one before it by `drift_ppm`.
    """
    offset = {process: lane_ns(process) for process in trace.processes["process"]}
    threads = dict(trace.threads.select("thread", "process").iter_rows())
    by_thread = {thread: offset[process] for thread, process in threads.items()}
    of_key = {"process": {process: process for process in offset}, "thread": threads}

    def moved(frame: pl.DataFrame, key: str, keys: dict[int, int]) -> pl.DataFrame:
        by = pl.col(key).replace_strict(keys, return_dtype=pl.Int64)
        process = pl.col(key).replace_strict(of_key[key], return_dtype=pl.Int64)
        times = [name for name in ("start_ns", "end_ns", "time_ns") if name in frame.columns]
        return frame.with_columns(
            pl.col(name) + by + pl.col(name) * process * drift_ppm // 1_000_000 for name in times
        )

    own = trace.processes.with_columns(file=pl.col("process")) if files else trace.processes
    count = trace.processes.height if files else 1
    return replace(
        trace,
        files=pl.concat([trace.files] * count).with_columns(
            file=pl.int_range(count, dtype=pl.Int32)
        ),
        processes=own,
        ops=moved(trace.ops, "process", offset),
        launches=moved(trace.launches, "process", offset),
        ranges=moved(trace.ranges, "thread", by_thread),
        marks=moved(trace.marks, "thread", by_thread),
        syncs=trace.syncs.clear(),
    )


def test_files_are_aligned_by_collectives_and_never_by_wall_clock(late: Late) -> None:
    trace = shifted(late.trace, lambda process: 7_000_000_000 * process, files=True)
    report = analyze(trace)
    group = only(report)
    assert group.clock == "aligned by collectives"
    assert group.clock_error_ns == 0
    assert_separated(told(report), late.truth)
    assert group.late_rank == SERVER.ranks - 1


def test_clocks_that_drift_are_followed_and_their_error_is_stated(late: Late) -> None:
    trace = shifted(late.trace, lambda process: -9_000 * process, files=True, drift_ppm=5)
    report = analyze(trace)
    group = only(report)
    error_ns = group.clock_error_ns
    assert error_ns is not None
    assert 0 < error_ns < 3_000
    found = {key: times for key, times in told(report).items() if key[1] == "verify"}
    truth = {key: own for key, own in late.truth.items() if key[1] == "verify"}
    assert_separated(found, truth, error_ns)


def test_files_without_cycle_numbers_are_not_matched(late: Late) -> None:
    unnumbered = replace(
        late.trace, ranges=late.trace.ranges.with_columns(payload=pl.lit(None, pl.Int64))
    )
    report = analyze(shifted(unnumbered, lambda _: 0, files=True))
    assert_nothing_is_claimed(report, "no cycle numbers")
    group = only(analyze(unnumbered))
    assert group.late_rank == SERVER.ranks - 1, "in one session the order of cycles does"


def test_too_few_collectives_align_no_clocks(tmp_path: Path) -> None:
    recording = eagle3_server(replace(SERVER, ranks=2, draft_tokens=0))
    trace = trace_of(recording, tmp_path)
    gathers = trace.names.filter(pl.col("text").str.contains("AllReduce"))["name"]
    first = trace.ops.filter(pl.col("name").is_in(gathers.implode())).height // 2
    few = trace.ops.with_columns(
        nth=pl.col("name").is_in(gathers.implode()).cum_sum().over("process")
    ).filter(~pl.col("name").is_in(gathers.implode()) | (pl.col("nth") == first))
    ops = few.drop("nth").filter(~pl.col("name").is_in(_gather_names(trace).implode()))
    report = analyze(shifted(replace(trace, ops=ops), lambda _: 0, files=True))
    assert_nothing_is_claimed(report, "clocks")


def _gather_names(trace: Trace) -> pl.Series:
    return trace.names.filter(pl.col("text").str.contains("AllGather"))["name"]


def test_in_one_session_clocks_that_disagree_too_much_resolve_nothing(late: Late) -> None:
    trace = shifted(late.trace, lambda process: 100_000 * (process == 0), files=False)
    group = only(analyze(trace))
    assert group.late_rank is None
    assert not any(row.wait_ns_per_cycle is not None for row in group.waits)


def test_below_three_times_the_clock_error_nothing_is_resolved(tmp_path: Path) -> None:
    recording = eagle3_server(replace(SERVER, ranks=2))
    trace = shifted(trace_of(recording, tmp_path), lambda process: 1_500 * process, files=False)
    report = analyze(trace)
    group = only(report)
    assert group.clock_error_ns == 1_500
    verify = [row for row in group.waits if row.phase == "verify"]
    assert [row.wait_ns_per_cycle for row in verify] == [None, None]
    assert {part.reason for part in group.waiting_included} == {"not resolvable"}
    text = " ".join(render_terminal(report, plain=True).split())
    assert "ranks differ by less than 3 times the clock error of 1.5 us" in text


# What cannot be told.


def as_one_shot(op: Op) -> Op:
    return replace(op, kernel=ALL_REDUCE)


def as_programmatic(op: Op) -> Op:
    return replace(op, start_ns=op.start_ns - 2_500)


@pytest.mark.parametrize(
    ("changed", "reason"), [(as_one_shot, "family"), (as_programmatic, "early start")]
)
def test_no_separation_is_claimed_where_a_start_is_no_arrival(
    changed: Callable[[Op], Op], reason: str, tmp_path: Path
) -> None:
    recording = eagle3_server(replace(SERVER, slow_rank_share=0.15))
    recording.ops = [op if op.wait_ns is None else changed(op) for op in recording.ops]
    report = analyze(trace_of(recording, tmp_path))
    assert_nothing_is_claimed(report, reason)


def assert_nothing_is_claimed(report: Report, *reasons: str) -> None:
    group = only(report)
    assert not group.resolved
    assert group.late_rank is None
    assert group.cost_ns_per_cycle is None
    assert {part.reason for part in group.waiting_included} == {*reasons}
    for row in group.waits:
        assert row.wait_ns_per_cycle is None
        assert row.net_ns_per_cycle is None
    text = render_terminal(report, plain=True)
    assert "Collectives, waiting included" in text
    assert "wait ms/cycle" not in text


def test_one_rank_of_eight_claims_nothing(tmp_path: Path) -> None:
    recording = eagle3_server(replace(SERVER, ranks=1, tp_size=8))
    report = analyze(trace_of(recording, tmp_path))
    assert_nothing_is_claimed(report, "ranks missing")
    assert "1 of 8 ranks" in render_terminal(report, plain=True)


def test_beside_one_shot_collectives_only_the_others_are_separated(tmp_path: Path) -> None:
    """The dense model's are one-shot and NCCL in turn; the latter run beside compute."""
    recording = eagle3_server(replace(Eagle3Settings.small(), slow_rank_share=0.15))
    report = analyze(trace_of(recording, tmp_path))
    names = {op.kernel for op in recording.ops if op.wait_ns is not None}
    assert names == {ALL_REDUCE, NCCL_ALL_REDUCE}
    verify = [row for row in only(report).waits if row.phase == "verify"]
    for row in verify:
        assert row.wait_ns_per_cycle is not None
        assert 0 < row.separated_ns_per_cycle < row.collective_ns_per_cycle
        assert row.net_ns_per_cycle is None, "the rest may be waiting too"
    assert [part.reason for part in only(report).waiting_included] == ["family"]


def test_without_marks_the_number_of_devices_is_taken_and_said(late: Late) -> None:
    report = analyze(replace(late.trace, marks=late.trace.marks.clear()))
    assert only(report).tp_size_from == "devices in the trace"
    assert only(report).late_rank == SERVER.ranks - 1
    text = " ".join(render_terminal(report, plain=True).split())
    assert "taken as one group: all 8 devices in the trace" in text


def test_whole_graph_rows_hide_collectives(tmp_path: Path) -> None:
    settings = replace(Eagle3Settings.seed_case(cycles=12, ranks=2), layers=3, prefill_every=8)
    recording = eagle3_server(replace(settings, tp_size=2))
    path = tmp_path / "graphs.sqlite"
    write_nsys_sqlite(recording, path, FLAVOURS["2025.5"])
    group = only(analyze(load(path)))
    assert group.hidden_cycles > 0
    assert group.late_rank is None
