"""Kernels by name on the terminal and as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.renderers.html.reports import seed_report
from traceanalyzer.renderers.csv_tables import render_kernel_csv
from traceanalyzer.renderers.terminal import render_terminal
from traceanalyzer.report import KernelTotal

if TYPE_CHECKING:
    from traceanalyzer import Report

SHOWN = 12


@pytest.fixture(scope="module")
def seed() -> Report:
    return seed_report()


def test_the_terminal_lists_kernels_when_asked(seed: Report) -> None:
    assert "Kernels, over" not in render_terminal(seed, plain=True)
    shown = render_terminal(seed, plain=True, kernels=True)
    table = shown.split("Kernels, over")[1].split("... and")[0]
    named = sorted((each for each in seed.kernels if each.kernel), key=lambda each: -each.busy_ns)
    for kernel in named[:SHOWN]:
        assert f"{kernel.busy_ns / 1e6:,.3f}" in table
        assert "".join((kernel.kernel or "").split()) in "".join(table.split()), "shown whole"
    assert f"... and {len(seed.kernels) - SHOWN} rows more" in shown


def test_a_report_without_kernels_says_so(seed: Report) -> None:
    assert "No kernels" in render_terminal(replace(seed, kernels=[]), plain=True, kernels=True)


def test_csv_holds_every_row_in_full(seed: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(render_kernel_csv(seed))))
    assert [
        KernelTotal(
            row["phase"],
            row["kernel"] or None,
            row["kernel_class"],
            int(row["ops"]),
            int(row["busy_ns"]),
            float(row["share"]),
        )
        for row in rows
    ] == seed.kernels
