"""What `import traceanalyzer` offers, what it costs, and that it is typed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import polars as pl
import pytest

import traceanalyzer
from tests.exports import Export, global_pid, global_tid, served
from tests.harness import REPOSITORY
from tests.typing import api
from traceanalyzer import (
    AnalysisOptions,
    InputError,
    Report,
    Trace,
    TraceAnalyzerError,
    analyze,
    load,
)
from traceanalyzer.errors import ExportError, GateError
from traceanalyzer.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = ("polars", "numpy", "click", "rich", "plotly", "msgspec", "adbc_driver_manager", "torch")


@pytest.fixture
def server(tmp_path: Path) -> Path:
    export = Export()
    served(export)
    return export.write_sqlite(tmp_path / "server.sqlite")


def heavy_modules_after(code: str) -> set[str]:
    """Which heavy packages a fresh Python has imported after running the code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys, json\nprint(json.dumps([*sys.modules]))"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    return modules & set(HEAVY)


def test_all_is_sorted_complete_and_lazy() -> None:
    names = traceanalyzer.__all__
    assert names == sorted(names)
    assert len(names) == len(set(names))
    for name in names:
        value = getattr(traceanalyzer, name)
        assert value.__name__ == name
        assert value.__doc__
    assert set(names) == {
        "AnalysisOptions",
        "InputError",
        "Report",
        "Trace",
        "TraceAnalyzerError",
        "analyze",
        "figure",
        "load",
        "timeline_figure",
    }
    assert set(dir(traceanalyzer)) >= set(names)
    with pytest.raises(AttributeError, match="lode"):
        _ = traceanalyzer.lode


def test_star_import() -> None:
    namespace: dict[str, object] = {}
    exec("from traceanalyzer import *", namespace)
    assert set(traceanalyzer.__all__) <= set(namespace)


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert heavy_modules_after("import traceanalyzer") == set()
    assert heavy_modules_after("from traceanalyzer import InputError, TraceAnalyzerError") == set()
    assert heavy_modules_after("import traceanalyzer.__main__") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["report", "--help"], ["ranges", "--help"]])
def test_help_imports_click_alone(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv[1:] = {arguments!r}\n"
        "from traceanalyzer.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert ended.code == 0"
    )
    assert heavy_modules_after(code) == {"click"}


def test_load_and_analyze(server: Path) -> None:
    trace = load(server)
    assert isinstance(trace, Trace)
    for table in TABLES:
        frame = getattr(trace, table.name)
        assert isinstance(frame, pl.DataFrame)
        assert frame.schema == table.polars_schema
    report = analyze(trace)
    assert isinstance(report, Report)
    assert report.tool.version == traceanalyzer.__version__
    assert [phase.phase for phase in report.ranks[0].phases] == ["draft", "verify", "draft_extend"]


def test_progress_is_told(server: Path) -> None:
    told: list[tuple[str, float | None]] = []

    def progress(stage: str, done_share: float | None) -> None:
        told.append((stage, done_share))

    analyze(load(server, progress=progress), progress=progress)
    assert {"reading tables", "measuring"} <= {stage for stage, _ in told}
    assert all(share is None or 0 <= share <= 1 for _, share in told)


def test_options(server: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'draft'\nphase = 'sample'\n")
    report = analyze(load(server), AnalysisOptions(phases_file=rules))
    assert [phase.phase for phase in report.ranks[0].phases] == ["verify", "sample", "draft_extend"]


def test_analyses_do_not_change_the_trace(server: Path) -> None:
    trace = load(server)
    before = {table.name: getattr(trace, table.name).clone() for table in TABLES}
    first, second = analyze(trace), analyze(trace)
    assert first == second
    for name, frame in before.items():
        assert getattr(trace, name).equals(frame), name


@pytest.mark.parametrize("gpu", [True, False], ids=["gpu", "host"])
def test_a_report_survives_json(gpu: bool, server: Path, tmp_path: Path) -> None:
    path = server
    if not gpu:
        export = Export()
        export.range("verify", 1, 2, global_tid(1))
        path = export.write_sqlite(tmp_path / "host.sqlite")
    report = analyze(load(path))
    assert report.capture.time_base == ("gpu" if gpu else "host")
    again = Report.from_json(report.to_json())
    assert again == report
    assert again.to_json() == report.to_json()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"{}",
        lambda data: data[:-20],
        lambda data: data.replace(b'"schema_version": 1', b'"schema_version": 2'),
        lambda data: data.replace(b'"ranks"', b'"ranges"'),
        lambda data: b"\xff" + data,
    ],
)
def test_what_is_no_report_is_refused(damage: Callable[[bytes], bytes], server: Path) -> None:
    data = analyze(load(server)).to_json()
    assert msgspec.json.decode(data)
    with pytest.raises(InputError):
        Report.from_json(damage(data))


def test_errors_carry_what_where_and_the_next_step() -> None:
    error = InputError("it is broken", where=Path("a") / "b", next_step="Mend it.")
    assert (error.what, error.where, error.next_step) == ("it is broken", "a/b", "Mend it.")
    assert str(error) == "a/b: it is broken\nMend it."
    assert error.exit_code == 2
    assert isinstance(error, TraceAnalyzerError)
    assert str(InputError("it is broken")) == "it is broken"
    assert GateError("too little").exit_code == 3
    assert issubclass(ExportError, InputError)


def test_a_trace_is_checked_at_the_border() -> None:
    ops = pl.DataFrame({"start_ns": [1]})
    with pytest.raises(InputError, match="missing") as caught:
        Trace.checked({"ops": ops})
    assert caught.value.where == "table ops"
    with pytest.raises(InputError, match="unknown tables"):
        Trace.checked({"opps": ops})
    names = pl.DataFrame({"name": [0], "text": [None]}, schema_overrides={"text": pl.String})
    with pytest.raises(InputError) as caught:
        Trace.checked({"names": names})
    assert caught.value.where == "table names"
    wide = pl.DataFrame({"name": [1 << 40], "text": ["x"]})
    with pytest.raises(InputError):
        Trace.checked({"names": wide})


def test_a_trace_without_anything_is_analysed() -> None:
    report = analyze(Trace.checked({"files": _one_file()}))
    assert report.ranks == []
    assert report.coverage is None


def _one_file() -> pl.DataFrame:
    declared = next(table for table in TABLES if table.name == "files")
    row = {"file": 0, "path": "made by hand", "format": "nsys-sqlite", "product": "by hand"}
    return pl.DataFrame([row], schema=declared.polars_schema)


def test_python_runs_the_package_as_it_runs_the_command(server: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "traceanalyzer", "report", server, "--format", "json"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    assert Report.from_json(done.stdout) == analyze(load(server))


def test_many_ids_of_one_process_are_one_rank(tmp_path: Path) -> None:
    """A rank is a process and a device."""
    export = Export()
    for process_id, device in ((1, 0), (1, 1), (2, 0)):
        export.kernel(1, 2, global_pid(process_id), 1, deviceId=device)
    report = analyze(load(export.write_sqlite(tmp_path / "trace.sqlite")))
    found = [
        (rank.rank, rank.process_id, rank.device and rank.device.index) for rank in report.ranks
    ]
    assert found == [(0, 1, 0), (1, 1, 1), (2, 2, 0)]


def test_the_package_is_marked_as_typed() -> None:
    spec = importlib.util.find_spec("traceanalyzer")
    assert spec
    assert spec.origin
    assert Path(spec.origin).with_name("py.typed").is_file()


def test_typed_uses_run(server: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'my own'\nphase = 'verify'\n")
    report = api.one_file(str(server), rules)
    assert api.stored(report) == report
    assert api.a_run_of_ranks(tmp_path) == [4]
    assert "other.sqlite" in api.explained(server)
    names = {phase.phase for bucket in report.buckets for phase in bucket.phases}
    waterfall, window = api.in_a_notebook(str(server))
    assert names <= set(waterfall.layout.yaxis.ticktext)
    assert {"draft", "verify"} <= {bar.name for bar in window.data}
