"""Cycles one by one as charts: each mark is a row of the report, and so is each of the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.renderers.html.reports import seed_report
from tests.verdict import made
from traceanalyzer.renderers.charts import Chart, chart_of
from traceanalyzer.report import CycleRow, Report

_MS = 1e6
RANKS = 8


@pytest.fixture(scope="module")
def seed() -> Report:
    return seed_report()


def drawn(report: Report, name: str) -> Chart:
    chart = chart_of(report, name)
    assert chart is not None
    return chart


def row(rank: int, cycle: int, period_ns: int = 10_000_000, **changes: object) -> CycleRow:
    windows = [period_ns // 10, period_ns - period_ns // 10]
    found = CycleRow(rank, cycle, 0, 100 + cycle, 10 * cycle, period_ns, windows, cycle, "kept")
    return replace(found, **changes)  # type: ignore[arg-type]


def report_of(*rows: CycleRow, of: int | None = None) -> Report:
    return replace(
        made.report(made.seed_bucket()),
        cycle_phases=["draft", "verify"],
        cycle_rows=list(rows),
        cycle_rows_of=len(rows) if of is None else of,
    )


def test_every_cycle_of_the_first_rank_is_a_point_and_a_row(seed: Report) -> None:
    rows = [row for row in seed.cycle_rows if row.rank == seed.ranks[0].rank]
    chart = drawn(seed, "each_cycle")
    period, verify = chart.traces
    window = seed.cycle_phases.index("verify")
    assert period["y"] == [row.period_ns / _MS for row in rows]
    assert verify["y"] == [row.windows_ns[window] / _MS for row in rows]
    for trace in chart.traces:
        assert trace["marker"]["color"] == [row.accepted_drafts for row in rows]
        assert trace["x"] == [(row.start_ns - rows[0].start_ns) / 1e9 for row in rows]
    assert [cells[0] for cells in chart.rows] == [str(row.number) for row in rows]
    for cells, took, window_ms, accepted in zip(
        chart.rows, period["y"], verify["y"], period["marker"]["color"], strict=True
    ):
        assert cells[2:] == (f"{took:.2f}", f"{window_ms:.2f}", str(accepted))


def test_every_cell_of_the_heatmap_is_a_cell_of_the_table(seed: Report) -> None:
    chart = drawn(seed, "rank_cycles")
    (heat,) = chart.traces
    assert len(heat["z"]) == len(chart.columns) - 1 == RANKS
    for rank, line in enumerate(heat["z"]):
        periods = [row.period_ns / _MS for row in seed.cycle_rows if row.rank == rank]
        assert line == periods
        assert [cells[1 + rank] for cells in chart.rows] == [f"{period:.2f}" for period in periods]


def test_a_rank_that_lacks_a_cycle_leaves_its_cell_empty() -> None:
    chart = drawn(report_of(row(0, 0), row(1, 0), row(0, 1), row(0, 2), row(1, 2)), "rank_cycles")
    (heat,) = chart.traces
    assert heat["z"] == [[10.0, 10.0, 10.0], [10.0, None, 10.0]]
    assert [cells[2] for cells in chart.rows] == ["10.00", "-", "10.00"]


def test_ranks_of_other_groups_share_columns_but_not_cycles() -> None:
    chart = drawn(report_of(*(row(cycle % 2, cycle) for cycle in range(6))), "rank_cycles")
    (heat,) = chart.traces
    assert heat["z"] == [[10.0] * 3] * 2
    assert [cells[0] for cells in chart.rows] == ["100, 101", "102, 103", "104, 105"]


def test_cycles_without_numbers_or_marks_are_drawn_too() -> None:
    rows = (row(0, place, number=None, accepted_drafts=None) for place in range(3))
    chart = drawn(report_of(*rows), "each_cycle")
    assert [cells[0] for cells in chart.rows] == ["#0", "#1", "#2"]
    assert {cells[-1] for cells in chart.rows} == {"-"}
    assert all(isinstance(trace["marker"]["color"], str) for trace in chart.traces)


def test_it_is_told_when_not_all_cycles_are_listed(seed: Report) -> None:
    for name in ("each_cycle", "rank_cycles"):
        assert "evenly spaced" not in (drawn(seed, name).note or "")
        sampled = replace(seed, cycle_rows_of=1_000_000)
        told = f"{len(seed.cycle_rows):,} of 1,000,000 cycles"
        assert told in (drawn(sampled, name).note or "")


def test_one_cycle_or_one_rank_has_nothing_to_compare() -> None:
    assert chart_of(report_of(row(0, 0), row(1, 0)), "each_cycle") is None
    assert chart_of(report_of(row(0, 0), row(0, 1)), "rank_cycles") is None
    assert chart_of(report_of(), "each_cycle") is None
