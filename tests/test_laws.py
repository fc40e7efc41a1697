"""Laws that hold for every trace: drawn ones, the sample traces, and real ones."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.harness import SAMPLE_TRACES, needs_shared, shared_folder
from tests.measured import FIXED, Measured, RuledOptions
from tests.reference import METHODS, nearest_rank, union_ns
from tests.strategies import RULES, SINCE_1970_NS, build, examples, gpu_traces, traces
from traceanalyzer.analyses.coverage import coverage_ledger
from traceanalyzer.analyses.phase_time import phase_totals
from traceanalyzer.assembly.timing import spread
from traceanalyzer.importers import load
from traceanalyzer.phases.rules import Rule, Rules
from traceanalyzer.pipeline import analyze
from traceanalyzer.report import Report
from traceanalyzer.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Real traces are mostly of training: their ranges are given phases here, so that there are cycles.
REAL_RULES = Rules(
    tuple(
        Rule(name, "cycle" if phase == "cycle" else "phase", None if phase == "cycle" else phase)
        for name, phase in {
            "computing attention scores|Forward|forward|DistributedDataParallel.forward": "verify",
            "saxpy|aten::(mm|addmm|bmm|linear).*|myelinGraphExecute ": "verify",
            "computing softmax|MPI_Send|aten::(mul|softmax).*|post_processing": "sample",
            "final matmul|Backward|## backward ##|aten::(add|copy_).*": "draft",
            "## optimizer ##|Optimizer.*|nccl.*": "draft_extend",
            "reader|aten::embedding.*": "prefill",
            "scaled dot product attention|ProfilerStep.*|Warm-up.*": "cycle",
            "execute_.*|step\\[.*": "fused(verify, decode)",
        }.items()
    )
)


def sample_traces() -> list[Path]:
    """The sample traces."""
    truths = SAMPLE_TRACES.glob("*.truth.json")
    stems = {path.name.removesuffix(".truth.json") for path in truths}
    return sorted(
        path
        for path in SAMPLE_TRACES.glob("*")
        if path.name.split(".")[0] in stems and not path.name.endswith(".truth.json")
    )


def real_traces() -> list[Path]:
    """The real traces kept beside the checkout."""
    folder = shared_folder()
    if folder is None:
        return []
    return sorted(
        path for kind in ("nsys", "kineto") for path in (folder / "traces" / kind).glob("*")
    )


# For laws that need several analyses, the traces with most work of each kind.
_FEW_REAL = (
    "a100_training_nvtx_2024.6.sqlite",
    "h100_two_ranks_mfu_2026.2.sqlite",
    "a100_graph_trace_rows_2024.6.sqlite",
    "v100_nanosecond_clock.json.gz",
    "mi300x_sglang_decode_one_graph.json.gz",
)


def _parameters(*, few: bool) -> list[Any]:
    real = [path for path in real_traces() if not few or path.name in _FEW_REAL]
    return [
        *(pytest.param(path, Rules.shipped(), id=path.name) for path in sample_traces()),
        *(pytest.param(path, REAL_RULES, id=path.name, marks=needs_shared) for path in real),
    ]


all_files = pytest.mark.parametrize(("path", "rules"), _parameters(few=False))
few_files = pytest.mark.parametrize(("path", "rules"), _parameters(few=True))
loaded = cache(load)


def test_there_are_sample_traces_with_cycles() -> None:
    kept = [len(Measured(loaded(path), Rules.shipped()).cycles()) for path in sample_traces()]
    assert len(kept) >= 3
    assert sum(count > 2 for count in kept) >= 3


# Sums.


def check_sums(trace: Trace, rules: Rules) -> None:
    """Windows, overlap, busy time and coverage add up, to the nanosecond."""
    measured = Measured(trace, rules)
    if not trace.ops.height:
        return
    spans, time = measured.phased.cycles.spans, measured.time
    assert (time.window.sum(axis=1) + time.overlap).tolist() == spans.duration_ns.tolist()
    assert time.period.tolist() == spans.duration_ns.tolist()
    assert (time.gap.sum(axis=2) <= time.window).all()
    assert (time.gap >= 0).all()
    unions = device_unions(measured)
    _check_totals(measured, unions)
    _check_coverage(measured, unions)


def device_unions(measured: Measured) -> dict[int, int]:
    """Busy time of each device, by a loop of its own."""
    by_lane: dict[int, list[tuple[int, int]]] = defaultdict(list)
    ops = measured.phased.ops
    rows = zip(ops.lane.tolist(), ops.start_ns.tolist(), ops.end_ns.tolist(), strict=True)
    for lane, start, end in rows:
        by_lane[lane].append((start, end))
    return {lane: union_ns(intervals) for lane, intervals in by_lane.items()}


def _check_totals(measured: Measured, unions: Mapping[int, int]) -> None:
    totals = measured.by_lane_and_phase(phase_totals(measured.phased, measured.active))
    ops: dict[int, int] = defaultdict(int)
    exclusive: dict[int, int] = defaultdict(int)
    for (lane, _), row in totals.items():
        assert row["busy_ns"] == row["exclusive_ns"] + row["overlap_ns"]
        assert row["busy_ns"] <= unions[lane]
        assert row["busy_ns"] <= row["summed_ns"]
        assert row["kernel_ns"] + row["graph_row_ns"] <= row["summed_ns"]
        assert row["graph_launches"] <= row["launches"] <= row["ops"]
        ops[lane] += row["ops"]
        exclusive[lane] += row["exclusive_ns"]
    assert sum(ops.values()) == measured.trace.ops.height
    assert all(exclusive[lane] <= union for lane, union in unions.items())


def _check_coverage(measured: Measured, unions: Mapping[int, int]) -> None:
    covered: dict[int, int] = defaultdict(int)
    rows = coverage_ledger(measured.phased, measured.order).rows(named=True)
    for row in rows:
        covered[row["lane"]] += row["busy_ns"]
    assert covered == unions
    assert len(rows) == len(METHODS) * len(unions)


@examples(0.2)
@given(gpu_traces())
def test_times_of_drawn_traces_add_up(trace: Trace) -> None:
    check_sums(trace, RULES)


@all_files
def test_times_of_recorded_traces_add_up(path: Path, rules: Rules) -> None:
    check_sums(loaded(path), rules)


def check_report(report: Report) -> None:
    """Shares add up to one, windows to periods, and JSON brings everything back."""
    assert Report.from_json(report.to_json()) == report
    ledgers = [report.coverage, *(rank.coverage for rank in report.ranks)]
    for coverage in ledgers:
        if coverage is not None and coverage.busy_ns:
            assert sum(method.share for method in coverage.by_method) == pytest.approx(1)
            assert sum(method.busy_ns for method in coverage.by_method) == coverage.busy_ns
    for bucket in report.buckets:
        period = bucket.period_ns.mean
        windows = [phase.window_ns_per_cycle.mean for phase in bucket.phases]
        assert sum(windows) + bucket.overlap_ns_per_cycle == pytest.approx(period)
        if period:
            shares = [phase.window_share for phase in bucket.phases]
            assert sum(shares) + bucket.overlap_share == pytest.approx(1)
        for phase in bucket.phases:
            mean = sum(gap.ns_per_cycle for gap in phase.gaps)
            assert mean == pytest.approx(phase.gap_ns_per_cycle)
            assert mean <= phase.window_ns_per_cycle.mean * (1 + 1e-9)
    assert sum(bucket.cycles for bucket in report.buckets) == sum(
        rank.cycles.kept for rank in report.ranks
    )
    if any(bucket.time_share for bucket in report.buckets):
        assert sum(bucket.time_share for bucket in report.buckets) == pytest.approx(1)


@examples(0.1)
@given(traces())
def test_reports_of_drawn_traces_add_up(trace: Trace) -> None:
    check_report(analyze(trace, FIXED))


@all_files
def test_reports_of_recorded_traces_add_up(path: Path, rules: Rules) -> None:
    check_report(analyze(loaded(path), RuledOptions(rules)))


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 60, 100, 140, 1000])
def test_quantiles_of_the_report_are_nearest_ranks(count: int) -> None:
    values = random.Random(count).sample(range(10 * count), count)
    found = spread(np.array(values, np.int64))
    assert found is not None
    assert (found.p5, found.p50, found.p95, found.p99) == tuple(
        nearest_rank(values, percent) for percent in (5, 50, 95, 99)
    )


# What may change nothing.


def reordered(trace: Trace, seed: int) -> Trace:
    """The rows of ops, launches and ranges in another order, but for exact ties.

    Ties are ops of one device that start together, launches with one id, and ranges of one thread
    with the same times: among them the order of rows decides.
    """
    ties = {
        "ops": ("process", "device_id", "start_ns"),
        "launches": ("process", "correlation_id"),
        "ranges": ("thread", "start_ns", "end_ns"),
    }
    shuffled = {
        table: _shuffled(getattr(trace, table), columns, random.Random(seed))
        for table, columns in ties.items()
    }
    return replace(trace, **shuffled)


def _shuffled(frame: pl.DataFrame, ties: tuple[str, ...], rng: random.Random) -> pl.DataFrame:
    places = list(range(frame.height))
    rng.shuffle(places)
    place_of: dict[tuple[Any, ...], int] = {}
    for place, row in zip(places, frame.select(ties).rows(), strict=True):
        place_of.setdefault(row, place)
    order = [place_of[row] for row in frame.select(ties).rows()]
    return frame[np.argsort(np.array(order, np.int64), kind="stable")]


def shifted(trace: Trace, by_ns: int) -> Trace:
    """All times later, but for ops that were not collected."""

    def later(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        return frame.with_columns(pl.col(column) + by_ns for column in columns)

    collected = (pl.col("start_ns") != 0) | (pl.col("end_ns") != 0)
    moved = {
        column: pl.when(collected).then(pl.col(column) + by_ns).otherwise(0)
        for column in ("start_ns", "end_ns")
    }
    return replace(
        trace,
        ops=trace.ops.with_columns(**moved),
        launches=later(trace.launches, "start_ns", "end_ns"),
        ranges=later(trace.ranges, "start_ns", "end_ns"),
        syncs=later(trace.syncs, "start_ns", "end_ns"),
        overheads=later(trace.overheads, "start_ns", "end_ns"),
        graph_nodes=later(trace.graph_nodes, "time_ns"),
        marks=later(trace.marks, "time_ns"),
    )


_KEYS = {
    "process": ("devices", "threads", "ops", "launches", "syncs", "overheads", "graph_nodes"),
    "thread": ("launches", "ranges", "marks", "graph_nodes"),
    "name": ("ops", "launches", "ranges", "marks", "overheads"),
    "stream_id": ("ops", "syncs"),
    "graph_node_id": ("ops",),
    "graph_id": ("ops",),
    "graph_exec_id": ("ops",),
    "correlation_id": ("ops", "launches", "syncs"),
}


def renumbered(trace: Trace, seed: int) -> Trace:
    """Other row numbers of processes, threads and names, and other ids of everything else."""
    rng = random.Random(seed)
    tables = {field.name: getattr(trace, field.name) for field in fields(trace)}
    for key in ("process", "thread", "name"):
        table = {"process": "processes", "thread": "threads", "name": "names"}[key]
        order = list(range(tables[table].height))
        rng.shuffle(order)
        tables[table] = tables[table][order].with_columns(
            pl.Series(key, range(len(order)), dtype=pl.Int32)
        )
        new = {old: place for place, old in enumerate(order)}
        _renumber(tables, key, new)
        if key == "thread":
            tables["ranges"] = _mapped(tables["ranges"], "end_thread", new)
        if key == "name":
            for holder in ("ranges", "marks"):
                tables[holder] = _mapped(tables[holder], "domain", new)
    for key, holders in _KEYS.items():
        if key not in ("process", "thread", "name"):
            ids = [tables[holder][key].cast(pl.Int64) for holder in holders]
            if key == "graph_node_id":
                ids += [tables["graph_nodes"][column] for column in ("node_id", "original_id")]
            old = pl.concat(ids).drop_nulls().unique().to_list()
            new = dict(zip(old, rng.sample(range(1, 10**6), len(old)), strict=True))
            _renumber(tables, key, new)
            if key == "graph_node_id":
                for column in ("node_id", "original_id"):
                    tables["graph_nodes"] = _mapped(tables["graph_nodes"], column, new)
    return Trace(**tables)


def _renumber(tables: dict[str, pl.DataFrame], key: str, new: Mapping[int, int]) -> None:
    for holder in _KEYS[key]:
        tables[holder] = _mapped(tables[holder], key, new)


def _mapped(frame: pl.DataFrame, column: str, new: Mapping[int, int]) -> pl.DataFrame:
    dtype = frame.schema[column]
    return frame.with_columns(pl.col(column).replace_strict(new, default=None, return_dtype=dtype))


def unchanged(trace: Trace, changed: Trace, rules: Rules) -> None:
    """Both traces have one report."""
    options = RuledOptions(rules)
    assert analyze(changed, options) == analyze(trace, options)


def _no_cycles_tie(trace: Trace, rules: Rules) -> bool:
    """Whether no two target forwards of a device have first ops that start together."""
    starts = [cycle[:2] for cycle in Measured(trace, rules).cycles()]
    return len(set(starts)) == len(starts)


seeds = st.integers(0, 2**16)


@examples(0.08)
@given(gpu_traces(), seeds)
def test_the_order_of_rows_changes_nothing(trace: Trace, seed: int) -> None:
    assume(_no_cycles_tie(trace, RULES))
    unchanged(trace, reordered(trace, seed), RULES)


@few_files
def test_the_order_of_recorded_rows_changes_nothing(path: Path, rules: Rules) -> None:
    trace = loaded(path)
    unchanged(trace, reordered(trace, 1), rules)


@examples(0.05)
@given(gpu_traces(), st.sampled_from((1000, 10**15, -1000)))
def test_a_shift_of_all_times_changes_nothing_else(trace: Trace, by_ns: int) -> None:
    times = pl.concat([trace.ops["start_ns"], trace.ops["end_ns"]])
    assume(not (times == -by_ns).any())  # would look like a time that was not collected
    unchanged(trace, shifted(trace, by_ns), RULES)


@few_files
def test_a_shift_of_recorded_times_changes_nothing_else(path: Path, rules: Rules) -> None:
    trace = loaded(path)
    unchanged(trace, shifted(trace, 10**12), rules)


@examples(0.05)
@given(gpu_traces(), seeds)
def test_other_ids_change_nothing(trace: Trace, seed: int) -> None:
    unchanged(trace, renumbered(trace, seed), RULES)


@few_files
def test_other_ids_of_recorded_traces_change_nothing(path: Path, rules: Rules) -> None:
    trace = loaded(path)
    if trace.ops.height:
        unchanged(trace, renumbered(trace, 1), rules)


def splittable(trace: Trace, rules: Rules) -> list[int]:
    """Kernels that can be cut in two: no op of their device and no cycle starts inside them.

    The second half of another would come after an op that it used to precede, and of ops that
    overlap the earlier keeps the time. Nodes of graphs are left alone: how many a graph has is
    part of its identity.
    """
    ops = trace.ops.with_row_index("row")
    same_device = ["process", "device_id"]
    order = ops.sort("start_ns", "end_ns").with_columns(
        next_ns=pl.col("start_ns").shift(-1).over(same_device),
        previous_ns=pl.col("start_ns").shift(1).over(same_device),
    )
    chosen = order.filter(
        (pl.col("kind") == "kernel")
        & (pl.col("end_ns") - pl.col("start_ns") > 1)
        & pl.col("graph_node_id").is_null()
        & (pl.col("next_ns").is_null() | (pl.col("next_ns") >= pl.col("end_ns")))
        & (pl.col("previous_ns").is_null() | (pl.col("previous_ns") < pl.col("start_ns")))
    )
    borders = {cycle[edge] for cycle in Measured(trace, rules).cycles() for edge in (1, 2)}
    return [
        row["row"]
        for row in chosen.rows(named=True)
        if not any(row["start_ns"] < border < row["end_ns"] for border in borders)
    ]


def split(trace: Trace, row: int) -> Trace:
    """One kernel as two that touch."""
    ops = trace.ops
    whole = ops[row]
    middle = (whole["start_ns"][0] + whole["end_ns"][0]) // 2
    first = whole.with_columns(end_ns=pl.lit(middle, pl.Int64))
    second = whole.with_columns(start_ns=pl.lit(middle, pl.Int64))
    return replace(trace, ops=pl.concat([ops[:row], first, second, ops[row + 1 :]]))


def without_counts(value: Any) -> Any:
    """A report's JSON without the numbers of ops and kernels, and the texts that tell them.

    Slots and blocks of kernels go too: both are places in the sequence of all kernels.
    """
    if isinstance(value, list):
        return [without_counts(each) for each in value]
    if isinstance(value, dict):
        counts = (
            "ops",
            "ops_per_cycle",
            "replayed_ops_per_cycle",
            "kernel_slots",
            "kernel_blocks",
            "trust",
            "findings",
        )
        return {
            key: without_counts(each)
            for key, each in value.items()
            if key not in counts and not (key == "kernels" and isinstance(each, int))
        }
    return value


def check_split(trace: Trace, rules: Rules, row: int) -> None:
    options = RuledOptions(rules)
    parts, whole = analyze(split(trace, row), options), analyze(trace, options)
    assert kernels_in(parts) == kernels_in(whole) + 1
    assert without_counts(json.loads(parts.to_json())) == without_counts(
        json.loads(whole.to_json())
    )


def kernels_in(report: Report) -> int:
    return sum(phase.kernels for rank in report.ranks for phase in rank.phases)


@examples(0.05)
@given(gpu_traces().filter(lambda trace: bool(splittable(trace, RULES))), st.data())
def test_a_kernel_in_two_parts_changes_only_counts(trace: Trace, data: st.DataObject) -> None:
    rows = splittable(trace, RULES)
    check_split(trace, RULES, data.draw(st.sampled_from(rows)))


@few_files
def test_a_recorded_kernel_in_two_parts_changes_only_counts(path: Path, rules: Rules) -> None:
    trace = loaded(path)
    rows = splittable(trace, rules)
    if rows:
        check_split(trace, rules, rows[len(rows) // 2])


# Clocks that count from 1970.


def many_ranks() -> dict[str, Any]:
    """One kernel of 10 ns on each of eight ranks, on a clock that counts from 1970."""
    at = SINCE_1970_NS
    return {
        "ops": [
            {"start_ns": at + 10, "end_ns": at + 20, "process": process, "correlation_id": 1}
            for process in range(8)
        ],
        "launches": [
            {"start_ns": at, "end_ns": at + 1, "thread": thread, "correlation_id": 1}
            for thread in range(8)
        ],
        "ranges": [
            {"name": name, "start_ns": at, "end_ns": at + 5, "thread": thread}
            for thread, name in enumerate(("draft", "verify", "sample", "prefill", "decode"))
        ],
        "threads": tuple(range(8)),
    }


@pytest.mark.parametrize(
    ("op", "collected"),
    [
        pytest.param({"start_ns": 0, "end_ns": 0, "correlation_id": 1}, False, id="without times"),
        pytest.param(
            {"start_ns": SINCE_1970_NS + 30, "end_ns": SINCE_1970_NS + 40, "correlation_id": 9},
            True,
            id="without launch",
        ),
    ],
)
def test_no_time_is_taken_for_the_year_1970(op: dict[str, int], collected: bool) -> None:
    rows = many_ranks()
    rows["ops"].append(op | {"process": 3})
    coverage = analyze(build(**rows), FIXED).coverage
    assert coverage is not None
    assert coverage.busy_ns == (90 if collected else 80)
    assert coverage.not_collected == (not collected)
