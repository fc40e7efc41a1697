from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.harness import needs_shared, shared_folder
from tests.reference import Reference, kernel_rows, range_rows
from tests.strategies import MEANINGS, RULES, build, examples, traces
from traceanalyzer.analyses.range_tables import KERNEL_COLUMNS, kernel_table, range_table
from traceanalyzer.importers import nsys_sqlite
from traceanalyzer.progress import silent

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import Trace


@examples(0.2)
@given(traces())
def test_kernels_of_every_range_agree_with_the_reference(trace: Trace) -> None:
    table = kernel_table(trace)
    assert {row[:5]: list(row[5:]) for row in table.rows()} == kernel_rows(trace)
    assert table.equals(table.sort(KERNEL_COLUMNS))


@examples(0.2)
@given(traces())
def test_ranges_agree_with_the_reference(trace: Trace) -> None:
    rows = range_table(trace, RULES).rows(named=True)
    keys = [(row.pop("range"), row.pop("style")) for row in rows]
    assert dict(zip(keys, rows, strict=True)) == range_rows(Reference(trace, MEANINGS))
    order = [(-row["gpu_ns"], -row["host_ns"], *key) for key, row in zip(keys, rows, strict=True)]
    assert order == sorted(order)


CALL = {"start_ns": 10, "end_ns": 20, "correlation_id": 1}
OP = {"start_ns": 30, "end_ns": 130, "correlation_id": 1}


def test_a_range_nested_in_one_of_its_name_counts_its_kernels_once() -> None:
    ranges = [{"name": "step", "start_ns": 0, "end_ns": end} for end in (50, 40)]
    trace = build(ops=[OP], launches=[CALL], ranges=ranges)
    assert kernel_table(trace).rows() == [("step", "push_pop", 1000, 5000, "kernel_a", 2, 1, 100)]
    (row,) = range_table(trace, RULES).rows(named=True)
    assert (row["instances"], row["host_ns"], row["ops"], row["gpu_ns"]) == (2, 50, 1, 100)


def test_without_ranges_there_is_no_table_and_outside_them_the_range_is_empty() -> None:
    assert kernel_table(build(ops=[OP], launches=[CALL])).height == 0
    orphan = OP | {"correlation_id": 7}
    elsewhere = {"name": "step", "start_ns": 60, "end_ns": 70}
    rows = kernel_table(build(ops=[OP, orphan], launches=[CALL], ranges=[elsewhere])).rows()
    assert rows == [
        ("", "", None, None, "kernel_a", 0, 1, 100),
        ("", "", 1000, 5000, "kernel_a", 0, 1, 100),
    ]


def test_a_cross_thread_range_is_listed_and_contains_nothing() -> None:
    cross = {"name": "request", "start_ns": 0, "end_ns": 50, "end_thread": 1, "style": "start_end"}
    trace = build(ops=[OP], launches=[CALL], ranges=[cross], threads=(0, 0))
    (row,) = range_table(trace, RULES).rows(named=True)
    assert (row["cross_thread"], row["host_ns"], row["ops"]) == (1, 50, 0)


# Against NVIDIA's own `nsys stats`.

_STYLES = {"PushPop": "push_pop", "StartEnd": "start_end"}

Kernels = dict[tuple[str, str, str, str, str], tuple[int, int]]


def oracle_files() -> list[Path]:
    """Every table of kernels by range that NVIDIA's tool wrote."""
    folder = shared_folder()
    names = ("*nvtx_kern_sum.csv", "*nvtxkernsum.csv")  # since 2023.1, and before
    return (
        sorted(path for name in names for path in (folder / "oracle").rglob(name)) if folder else []
    )


def oracle(path: Path) -> Kernels:
    """Kernel instances and ns by range, style, process, thread and kernel; empty for None."""
    with path.open(newline="") as file:
        return {
            (
                _blank(row["NVTX Range"]),
                _STYLES.get(row["Style"], ""),
                _blank(row["PID"]),
                _blank(row["TID"]),
                row["Kernel Name"],
            ): (int(row["Kern Inst"]), int(row["Total Time (ns)"]))
            for row in csv.DictReader(file)
        }


def _blank(text: str) -> str:
    return "" if text == "None" else text


def ours(trace: Trace) -> Kernels:
    """The same of our table."""
    return {
        (
            row["range"],
            row["style"],
            _text(row["process_id"]),
            _text(row["thread_id"]),
            row["kernel"],
        ): (
            row["kernel_instances"],
            row["total_ns"],
        )
        for row in kernel_table(trace).rows(named=True)
    }


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def trace_of(table: Path) -> Path:
    """The export that NVIDIA's tool read."""
    stem = table.stem.removesuffix("_nvtx_kern_sum").removesuffix("_nvtxkernsum")
    beside = table.with_name(f"{stem}.sqlite")
    return beside if beside.exists() else table.parents[2] / "traces" / "nsys" / f"{stem}.sqlite"


@needs_shared
@pytest.mark.parametrize("table", oracle_files() or [None], ids=lambda path: path and path.stem)
def test_kernels_of_every_range_agree_with_nvidia(table: Path) -> None:
    assert ours(nsys_sqlite.read(trace_of(table), silent)) == oracle(table)


@needs_shared
def test_twin_api_rows_do_not_count_kernels_twice() -> None:
    folder = shared_folder()
    assert folder is not None
    export = folder / "traces" / "nsys" / "a100_saxpy_two_domains_2022.2.sqlite"
    trace = nsys_sqlite.read(export, silent)
    by_range: Counter[str] = Counter()
    for row in kernel_table(trace).rows(named=True):
        by_range[row["range"]] += row["total_ns"]
    kernels = trace.ops.filter(kind="kernel")
    assert int((kernels["end_ns"] - kernels["start_ns"]).sum()) == 88_573_480
    assert max(by_range.values()) == 88_573_480
