"""Uses of the public API that `mypy --strict` must accept; a test runs them too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import polars as pl

import traceanalyzer
from traceanalyzer import (
    AnalysisOptions,
    InputError,
    Report,
    Trace,
    TraceAnalyzerError,
    analyze,
    figure,
    load,
    timeline_figure,
)

if TYPE_CHECKING:
    from pathlib import Path


def progress(stage: str, done_share: float | None) -> None:
    print(stage, done_share)


def one_file(path: str, rules: Path) -> Report:
    trace = load(path, nsys="/opt/nsys", progress=progress)
    assert_type(trace, Trace)
    assert_type(trace.ops, pl.DataFrame)
    assert_type(trace.text("name"), pl.Expr)
    report = analyze(trace, AnalysisOptions(phases_file=rules), progress=progress)
    assert_type(report, Report)
    return report


def a_run_of_ranks(folder: Path) -> list[int]:
    report = analyze(load(sorted(folder.glob("*.sqlite"))))
    for rank in report.ranks:
        assert_type(rank.rank, int)
        for phase in rank.phases:
            assert_type(phase.phase, str)
            assert_type(phase.busy_ns, int)
            if phase.window_ns_per_cycle is not None:
                assert_type(phase.window_ns_per_cycle.mean, float)
    return [rank.cycles.kept for rank in report.ranks]


def stored(report: Report) -> Report:
    data = report.to_json()
    assert_type(data, bytes)
    return traceanalyzer.Report.from_json(data)


def in_a_notebook(path: str) -> tuple[Any, Any]:
    trace = load(path)
    report = analyze(trace)
    waterfall = report.figure("waterfall", bucket=0, dark=True)
    assert waterfall == figure(report, "waterfall", bucket=0, dark=True)
    window = trace.timeline_figure((0, 2_000_000))
    assert window == timeline_figure(trace, (0, 2_000_000), infer=True, dark=False)
    return waterfall, window


def explained(path: Path) -> str:
    try:
        load([path, "other.sqlite"])
    except InputError as error:
        assert_type(error.what, str)
        assert_type(error.where, str | None)
        assert_type(error.next_step, str | None)
        return str(error)
    except TraceAnalyzerError as error:
        return f"exit code {error.exit_code}"
    return traceanalyzer.__version__
