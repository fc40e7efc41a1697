"""Kernels by name: the rows of a phase add up to its busy time, however many there are."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from tests.measured import FIXED, Measured
from tests.reference import Reference, nonzero, union_ns
from tests.strategies import MEANINGS, build, examples, gpu_traces
from traceanalyzer import analyze
from traceanalyzer.analyses.kernel_classes import kernel_time, longest_names
from traceanalyzer.assembly.kernel_totals import KERNELS_LISTED, kernel_rows
from traceanalyzer.report import OTHER_KERNELS

if TYPE_CHECKING:
    from traceanalyzer import Trace


@examples(0.15)
@given(gpu_traces())
def test_kernels_add_up_to_the_union_of_their_phase_in_kept_cycles(trace: Trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    phased = measured.phased
    totals = longest_names(kernel_time(phased, measured.pieces), trace.names["text"], 2)
    kernels = kernel_rows(totals, phased.labels, trace.names["text"])
    expected: Counter[str] = Counter()
    ops: Counter[str] = Counter()
    for number, cycle in enumerate(reference.cycles):
        if cycle.state != "kept":
            continue
        for phase in set(reference.label):
            own = [
                (max(op["start_ns"], cycle.start_ns), min(op["end_ns"], cycle.end_ns))
                for row, op in enumerate(reference.ops)
                if (reference.lane[row], reference.label[row]) == (cycle.lane, phase)
            ]
            expected[phase] += union_ns((start, end) for start, end in own if start < end)
        ops.update(
            label
            for label, of in zip(reference.label, reference.cycle, strict=True)
            if of == number
        )
    busy: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    shares: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        busy[kernel.phase] += kernel.busy_ns
        counted[kernel.phase] += kernel.ops
        shares[kernel.phase] += kernel.share
    assert nonzero(busy) == nonzero(expected)
    assert nonzero(counted) == nonzero(ops)
    assert all(shares[phase] == pytest.approx(1) for phase in nonzero(expected))


def test_kernels_below_the_top_share_a_row() -> None:
    more = 5
    names = KERNELS_LISTED + more
    launches = [{"start_ns": 10, "end_ns": 11, "correlation_id": 1}]
    launches += [{"start_ns": 30, "end_ns": 31, "correlation_id": 2}]
    ops: list[dict[str, Any]] = []
    time = 100
    for number in range(names):
        length = 10 + number
        ops.append(
            {
                "start_ns": time,
                "end_ns": time + length,
                "correlation_id": 1,
                "name": f"kernel {number}",
            }
        )
        time += length
    ops.append({"start_ns": time, "end_ns": time + 5, "correlation_id": 2, "name": "last"})
    ranges = [
        {"name": "verify", "start_ns": 5, "end_ns": 20},
        {"name": "verify", "start_ns": 25, "end_ns": 40},
    ]
    report = analyze(build(ops=ops, launches=launches, ranges=ranges), FIXED)
    *listed, rest = report.kernels
    assert [kernel.kernel for kernel in listed] == [
        f"kernel {number}" for number in range(names - 1, more - 1, -1)
    ]
    assert (rest.kernel, rest.kernel_class, rest.ops) == (None, OTHER_KERNELS, more)
    assert rest.busy_ns == sum(10 + number for number in range(more))
    assert sum(kernel.busy_ns for kernel in report.kernels) == time - 100
