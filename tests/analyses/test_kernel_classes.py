from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from tests.measured import Measured
from tests.reference import Reference, nonzero, union_ns
from tests.strategies import MEANINGS, build, examples, gpu_traces
from traceanalyzer.analyses.kernel_classes import (
    OTHER_NAMES,
    OVERLAP_NAME,
    ROWS,
    class_time,
    kernel_time,
    longest_names,
)
from traceanalyzer.analyses.phase_time import phase_totals
from traceanalyzer.kernels.classification import KernelRules

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from traceanalyzer.trace import Trace

OVERLAP = ROWS[-1]
SHIPPED = KernelRules.shipped()
TOP = 1

Rows = list[dict[str, Any]]


def class_of(reference: Reference, op: int) -> str:
    row = reference.ops[op]
    if row["kind"] == "graph":
        return "whole graph"
    if row["kind"] != "kernel":
        return "copy"
    return ROWS[SHIPPED.classify(reference.trace.names["text"][row["name"] : row["name"] + 1])[0]]


def owners(reference: Reference) -> Iterator[tuple[int, str, int | None, int | None, int]]:
    """Lane, phase, cycle, op (None for several streams) and ns of every elementary stretch.

    On each stream the op that began first owns the stretch, of equals the earlier row.
    """
    for lane in range(len(reference.lanes)):
        mine = [
            op
            for op, row in enumerate(reference.ops)
            if reference.lane[op] == lane and row["end_ns"] > row["start_ns"]
        ]
        cycles = [cycle for cycle in reference.cycles if cycle.lane == lane]
        times = {reference.ops[op][edge] for op in mine for edge in ("start_ns", "end_ns")}
        times |= {time for cycle in cycles for time in (cycle.start_ns, cycle.end_ns)}
        for start, end in pairwise(sorted(times)):
            first: dict[tuple[str, int], int] = {}
            for op in mine:
                row = reference.ops[op]
                if row["start_ns"] <= start and end <= row["end_ns"]:
                    place = reference.label[op], row["stream_id"]
                    first[place] = min(
                        first.get(place, op),
                        op,
                        key=lambda each: (reference.ops[each]["start_ns"], each),
                    )
            phases = defaultdict(list)
            for (phase, _), op in first.items():
                phases[phase].append(op)
            for phase, running in phases.items():
                owner = running[0] if len(running) == 1 else None
                yield lane, phase, reference.cycle_at(lane, start), owner, end - start


def expected_classes(reference: Reference) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Ops and busy ns by cycle (-1 outside), lane, phase and class."""
    busy: Counter[tuple[Any, ...]] = Counter()
    for lane, phase, cycle, op, ns in owners(reference):
        row = OVERLAP if op is None else class_of(reference, op)
        busy[-1 if cycle is None else cycle, lane, phase, row] += ns
    ops = Counter(
        (
            -1 if reference.cycle[op] is None else reference.cycle[op],
            reference.lane[op],
            reference.label[op],
            class_of(reference, op),
        )
        for op in range(len(reference.ops))
    )
    return {key: (ops[key], busy[key]) for key in busy | ops}


def found_classes(measured: Measured) -> pl.DataFrame:
    return class_time(measured.phased, measured.pieces)


def by_text(measured: Measured, table: pl.DataFrame) -> dict[tuple[Any, ...], tuple[int, int]]:
    labels = measured.phased.labels
    return {
        (cycle, lane, labels[label], ROWS[row]): (ops, busy)
        for cycle, lane, label, row, ops, busy in table.rows()
    }


@examples(0.2)
@given(gpu_traces())
def test_time_by_class_agrees_with_the_reference(trace: Trace) -> None:
    measured = Measured(trace)
    table = found_classes(measured)
    assert by_text(measured, table) == expected_classes(Reference(trace, MEANINGS))
    keys = table.select("cycle", "lane", "label", "class")
    assert keys.rows() == sorted(keys.rows())


@examples(0.3)
@given(gpu_traces())
def test_classes_and_overlap_add_up_to_the_busy_time_of_each_phase(trace: Trace) -> None:
    measured = Measured(trace)
    totals = measured.by_lane_and_phase(phase_totals(measured.phased, measured.active))
    sums: Counter[tuple[int, str]] = Counter()
    counts: Counter[tuple[int, str]] = Counter()
    for (_, lane, phase, _), (ops, busy) in by_text(measured, found_classes(measured)).items():
        sums[lane, phase] += busy
        counts[lane, phase] += ops
    assert nonzero(sums) == nonzero({key: row["busy_ns"] for key, row in totals.items()})
    assert nonzero(counts) == {key: row["ops"] for key, row in totals.items()}


@examples(0.1)
@given(gpu_traces())
def test_in_each_cycle_classes_add_up_to_the_union_of_the_phase(trace: Trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    sums: Counter[tuple[int, str]] = Counter()
    for (cycle, _, phase, _), (_, busy) in by_text(measured, found_classes(measured)).items():
        sums[cycle, phase] += busy
    for number, cycle in enumerate(reference.cycles):
        for phase in measured.phased.labels:
            inside = (
                (max(op["start_ns"], cycle.start_ns), min(op["end_ns"], cycle.end_ns))
                for row, op in enumerate(reference.ops)
                if (reference.lane[row], reference.label[row]) == (cycle.lane, phase)
            )
            busy = union_ns((start, end) for start, end in inside if start < end)
            assert sums[number, phase] == busy


def expected_kernels(reference: Reference) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Ops and busy ns in kept cycles by phase, name (None for overlap) and class, lanes summed."""
    kept = {place for place, cycle in enumerate(reference.cycles) if cycle.state == "kept"}
    busy: Counter[tuple[Any, ...]] = Counter()
    for _, phase, cycle, op, ns in owners(reference):
        if cycle in kept:
            named = (
                (None, OVERLAP)
                if op is None
                else (reference.ops[op]["text"], class_of(reference, op))
            )
            busy[phase, *named] += ns
    ops = Counter(
        (reference.label[op], row["text"], class_of(reference, op))
        for op, row in enumerate(reference.ops)
        if reference.cycle[op] in kept
    )
    return {key: (ops[key], busy[key]) for key in busy | ops}


@examples(0.15)
@given(gpu_traces())
def test_kernels_of_kept_cycles_agree_with_the_reference(trace: Trace) -> None:
    measured = Measured(trace)
    phased = measured.phased
    pieces = measured.pieces
    expected = expected_kernels(Reference(trace, MEANINGS))
    texts = trace.names["text"].to_list()
    found = {
        (phased.labels[label], None if name == OVERLAP_NAME else texts[name], ROWS[row]): (
            ops,
            busy,
        )
        for label, name, row, ops, busy in longest_names(
            kernel_time(phased, pieces), trace.names["text"], 1000
        ).rows()
    }
    assert found == expected
    _check_top(
        longest_names(kernel_time(phased, pieces), trace.names["text"], TOP), measured, expected
    )


def _check_top(
    table: pl.DataFrame, measured: Measured, expected: dict[tuple[Any, ...], tuple[int, int]]
) -> None:
    phases: dict[str, Rows] = defaultdict(list)
    for row in table.rows(named=True):
        phases[measured.phased.labels[row["label"]]].append(row)
    assert set(phases) == {key[0] for key in expected}
    for phase, rows in phases.items():
        own = {key: value for key, value in expected.items() if key[0] == phase}
        named = sorted((busy for key, (_, busy) in own.items() if key[1] is not None), reverse=True)
        assert [row["busy_ns"] for row in rows if row["name"] >= 0] == named[:TOP]
        marks = [row["name"] for row in rows if row["name"] < 0]
        assert marks == [mark for mark in (OTHER_NAMES, OVERLAP_NAME) if mark in marks]
        assert (OTHER_NAMES in marks) == (len(named) > TOP)
        assert sum(row["busy_ns"] for row in rows) == sum(busy for _, busy in own.values())
        assert sum(row["ops"] for row in rows) == sum(ops for ops, _ in own.values())


RANGES: Rows = [
    {"name": "draft", "start_ns": 0, "end_ns": 10},
    {"name": "verify", "start_ns": 10, "end_ns": 20},
    {"name": "verify", "start_ns": 20, "end_ns": 30},
]
LAUNCHES: Rows = [
    {"start_ns": 10 * number + 1, "end_ns": 10 * number + 2, "correlation_id": number}
    for number in range(3)
]
GEMM, NORM = "nvjet_tst_64x8_64x16_2x4_h_bz_TNT", "_rms_norm_kernel"
ATTENTION = "kernel_unified_attention_2d"


def classes_of(ops: Rows) -> dict[tuple[int, str, str], tuple[int, int]]:
    """Ops and busy ns by cycle, phase and class of a trace of one lane."""
    measured = Measured(build(ops=ops, launches=LAUNCHES, ranges=RANGES))
    found = by_text(measured, found_classes(measured))
    return {(cycle, phase, row): value for (cycle, _, phase, row), value in found.items()}


def test_the_earlier_op_of_a_stream_keeps_the_time_and_streams_share_a_row_of_their_own() -> None:
    found = classes_of(
        [
            {"start_ns": 100, "end_ns": 140, "correlation_id": 0, "name": GEMM},
            {"start_ns": 130, "end_ns": 150, "correlation_id": 0, "name": NORM},
            {
                "start_ns": 145,
                "end_ns": 170,
                "correlation_id": 0,
                "name": ATTENTION,
                "stream_id": 1 << 40,
            },
            {
                "start_ns": 100,
                "end_ns": 190,
                "correlation_id": 1,
                "name": "Memcpy",
                "kind": "memcpy",
            },
        ]
    )
    assert found[-1, "draft", "dense GEMM"] == (1, 40)
    assert found[-1, "draft", "norm"] == (1, 5)
    assert found[-1, "draft", "attention"] == (1, 20)
    assert found[-1, "draft", OVERLAP] == (0, 5)
    assert sum(busy for (_, phase, _), (_, busy) in found.items() if phase == "verify") == 90


def test_an_early_long_op_keeps_the_time_from_every_later_one_of_its_stream() -> None:
    found = classes_of(
        [
            {"start_ns": 100, "end_ns": 200, "correlation_id": 0, "name": GEMM},
            {"start_ns": 110, "end_ns": 120, "correlation_id": 0, "name": ATTENTION},
            {"start_ns": 150, "end_ns": 220, "correlation_id": 0, "name": NORM},
        ]
    )
    assert found == {
        (-1, "draft", "dense GEMM"): (1, 100),
        (-1, "draft", "attention"): (1, 0),
        (-1, "draft", "norm"): (1, 20),
    }


def test_of_ops_that_start_together_the_lower_row_keeps_the_time() -> None:
    ops: Rows = [
        {"start_ns": 50 * number, "end_ns": 50 * number + ns, "correlation_id": 0, "name": name}
        for name, ns in ((GEMM, 10), (NORM, 30))
        for number in range(2, 302)
    ]
    found = classes_of(ops)
    assert found[-1, "draft", "dense GEMM"] == (300, 3000)
    assert found[-1, "draft", "norm"] == (300, 6000)


def test_an_op_is_counted_where_it_starts_and_its_time_where_it_runs() -> None:
    found = classes_of(
        [
            {"start_ns": 100, "end_ns": 110, "correlation_id": 1, "name": GEMM},
            {"start_ns": 150, "end_ns": 230, "correlation_id": 0, "name": NORM},
            {"start_ns": 200, "end_ns": 210, "correlation_id": 2, "name": GEMM, "stream_id": 8},
            {"start_ns": 0, "end_ns": 0, "correlation_id": 0, "name": NORM},
            {"start_ns": 160, "end_ns": 160, "correlation_id": 0, "name": ATTENTION},
        ]
    )
    assert found[0, "draft", "norm"] == (1, 50)
    assert found[1, "draft", "norm"] == (0, 30)
    assert found[-1, "draft", "norm"] == (1, 0)
    assert found[0, "draft", "attention"] == (1, 0)


@pytest.mark.parametrize(("kind", "row"), [("graph", "whole graph"), ("memset", "copy")])
def test_the_class_of_an_op_that_is_no_kernel_is_its_kind(kind: str, row: str) -> None:
    op = {"start_ns": 5, "end_ns": 9, "correlation_id": 1, "name": GEMM, "kind": kind}
    assert {key[2]: value for key, value in classes_of([op]).items() if value[1]} == {row: (1, 4)}
