"""The results as a page: targets, then a table a trace, each tool's errors in its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from peers.judging import shown, worst
from peers.results import times_ours
from peers.targets import targets
from peers.tools import ours
from peers.traces import KINETO, PARQUETDIR, SQLITE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from peers.results import Row
    from peers.targets import Target

FORMS: Final = (SQLITE, PARQUETDIR, KINETO)
_HEAD: Final = """# traceanalyzer and its peers

Written by `python benchmarks/peers/run.py`, see [the README](../README.md). Each command is a
process of its own, run in turn with the others on the same trace; figures are medians of its runs.
CPU is user and system time with children, peak memory that of the largest process. "x ours" is CPU
against `traceanalyzer report` on that trace. Rows of different runs of the benchmark are compared
through the row that only reads, which each run holds. Traces are simulated, with a known truth,
where the name does not say that they were recorded. The simulated ranks use the same correlation
ids, as real ones may: a join without the process then gives every kernel to every rank. That is
the worst case; in recorded exports, whose counters are further apart, it costs less.

Each tool is judged by its own question: range sums with all that is nested (nsys stats), by the
innermost range (nsys-ai), the span from first to last work of a range (projection), the union of
all work (TraceLens), kernel time and that by annotation (HolisticTraceAnalysis), phases (ours).
"""
_COLUMNS: Final = (
    "| tool | version | runs | CPU, s | x ours | wall, s | peak, MB | verify, ms (found / true) "
    "| largest error | run |\n|---|---|--:|--:|--:|--:|--:|--:|---|---|"
)


def page(rows: Sequence[Row]) -> str:
    """The page's text."""
    rows = sorted(rows, key=_place)
    sessions = sorted({row.session for row in rows}, key=lambda session: session.date)
    numbers = {session: place for place, session in enumerate(sessions, 1)}
    lines = [_HEAD, "## Targets", "", "| | bound | measured | |", "|---|--:|--:|---|"]
    lines += [_target_line(target) for target in targets(rows)]
    for trace in dict.fromkeys(row.trace for row in rows):
        own = [row for row in rows if row.trace == trace]
        first = own[0]
        lines += ["", f"## {trace}", "", f"{first.kernels:,} kernels, {first.megabytes:,.0f} MB."]
        lines += ["", _COLUMNS]
        lines += [_line(row, own, numbers[row.session]) for row in own]
        lines += _notes(own)
    lines += ["", "## Runs", ""]
    lines += [
        f"{number}. {session.date}, commit {session.commit}: {session.machine}."
        for session, number in numbers.items()
    ]
    return "\n".join(lines) + "\n"


def _place(row: Row) -> tuple[int, str, float, str, bool, float]:
    """Forms in order, small traces first; in a table ours first, then by CPU."""
    origin = "recorded" if "recorded" in row.trace else ""
    return FORMS.index(row.form), origin, row.megabytes, row.trace, not row.is_own, row.cpu_s


def _target_line(target: Target) -> str:
    sign = "≥" if target.at_least else "≤"
    measured = "not measured" if target.measured is None else _amount(target.measured, target.unit)
    word = {None: "", True: "holds", False: "**missed**"}[target.holds]
    return f"| {target.text} | {sign} {_amount(target.bound, target.unit)} | {measured} | {word} |"


def _amount(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 2 if value < 10 else 1
    return f"{value:,.{digits}f} {unit}"


def _line(row: Row, own: Sequence[Row], session: int) -> str:
    if not row.runs:
        return f"| {row.tool} | | | | | | | | {row.failure} | {session} |"
    ours_row = next((other for other in own if other.tool == ours.REPORT), None)
    ratio = f"{times_ours(row, ours_row):.2f}" if ours_row and not row.failure else ""
    figures = f"{row.cpu_s:,.2f} | {ratio} | {row.wall_s:,.1f} | {row.peak_mb:,.0f}"
    return f"| {row.tool} | {row.version} | {row.runs} | {figures} | {_verdict(row)} | {session} |"


def _verdict(row: Row) -> str:
    if row.failure:
        return f"| {row.failure.replace('|', '/')}"
    one, most = shown(row.errors), worst(row.errors)
    if one is None or most is None:
        return "|"
    found = "no row" if one.found_ms is None else f"{one.found_ms:,.2f}"
    name = "" if one.name == "verify" else f"{one.name}: "
    wrong = "exact" if most.share == 0 else f"{most.name} {most.share:+.2%}"
    return f"{name}{found} / {one.true_ms:,.2f} | {wrong}"


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = {row.tool: row.note for row in rows if row.note}
    return ["", *(f"- {tool}: {note}." for tool, note in notes.items())] if notes else []
