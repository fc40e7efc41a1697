"""`traceanalyzer export`: every form gives the report's totals, and nothing of others is lost."""

from __future__ import annotations

import errno
import json
import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.harness import SAMPLE_TRACES
from tests.renderers.perfetto_reader import read
from traceanalyzer import load
from traceanalyzer.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.commands.conftest import Cli
    from tests.harness import CompletedResult

SAMPLES = ("eagle3_tp2_nodes.sqlite", "eagle3_tp2_graphs.sqlite", "eagle3_torch.json.gz")
NODES = SAMPLE_TRACES / SAMPLES[0]

Totals = dict[tuple[int, str], tuple[int, int, int]]
"""Ops with times, summed ns and busy ns of each rank and phase."""


def export(cli: Cli, form: str, trace: Path, output: Path, *more: str) -> CompletedResult:
    done = cli("export", trace, "--to", form, "-o", output, *more)
    assert (done.exit_code, done.stdout) == (0, "")
    return done


def totals(ops: Iterable[tuple[int, str, int, int]]) -> Totals:
    """From rank, phase, start and end of each op; busy is found instant by instant."""
    spans = defaultdict(list)
    for rank, phase, start, end in ops:
        spans[rank, phase].append((start, end))
    found = {}
    for key, own in spans.items():
        busy, reached = 0, min(own)[0]
        for start, end in sorted(own):
            busy += max(0, end - max(start, reached))
            reached = max(reached, end)
        found[key] = (len(own), sum(end - start for start, end in own), busy)
    return found


def reported(cli: Cli, *trace: Path) -> tuple[Totals, Any]:
    """The totals in `report --format json`, and the whole of it."""
    done = cli("report", *trace, "--format", "json")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    return {
        (rank["rank"], phase["phase"]): (phase["ops"], phase["summed_ns"], phase["busy_ns"])
        for rank in report["ranks"]
        for phase in rank["phases"]
    }, report


def in_tables(ops: pl.DataFrame, attributed: pl.DataFrame) -> Totals:
    joined = ops.with_row_index("op").join(attributed, on="op")
    assert joined.height == ops.height
    return totals(joined.select("rank", "phase", "start_ns", "end_ns").iter_rows())


@pytest.mark.parametrize("name", SAMPLES)
def test_every_form_has_the_totals_of_the_report(name: str, cli: Cli, tmp_path: Path) -> None:
    trace = SAMPLE_TRACES / name
    wanted, report = reported(cli, trace)
    assert any(phase == "verify" for _, phase in wanted)

    file, parquet, csv = (tmp_path / each for each in ("t.pftrace.gz", "parquet", "csv"))
    export(cli, "perfetto", trace, file)
    assert wanted == totals(
        (each.rank, str(each.category), each.start_ns, each.end_ns)
        for each in read(file.read_bytes()).on("stream")
    )

    export(cli, "parquet", trace, parquet)
    tables = (pl.read_parquet(parquet / f"{each}.parquet") for each in ("ops", "attributed_ops"))
    assert wanted == in_tables(*tables)
    assert reported(cli, parquet) == (wanted, report)

    export(cli, "csv", trace, csv)
    tables = (pl.read_csv(csv / f"{each}.csv") for each in ("ops", "attributed_ops"))
    assert wanted == in_tables(*tables)


@pytest.mark.parametrize("name", SAMPLES[:2])
def test_cycles_give_the_windows_of_the_report(name: str, cli: Cli, tmp_path: Path) -> None:
    _, report = reported(cli, SAMPLE_TRACES / name)
    export(cli, "csv", SAMPLE_TRACES / name, tmp_path / "csv")
    cycles = pl.read_csv(tmp_path / "csv" / "cycles.csv").filter(pl.col("state") == "kept")
    for rank in report["ranks"]:
        own = cycles.filter(pl.col("rank") == rank["rank"])
        assert own.height == rank["cycles"]["kept"] > 0
        for phase in rank["phases"]:
            column = f"{phase['phase']}_window_ns"
            mean = own[column].mean() if column in own.columns else 0
            assert mean == pytest.approx(phase["window_ns_per_cycle"]["mean"])


def test_a_folder_holds_every_table_and_what_its_columns_mean(cli: Cli, tmp_path: Path) -> None:
    trace = load(NODES)
    for form, read_table in (("parquet", pl.read_parquet), ("csv", pl.read_csv)):
        export(cli, form, NODES, tmp_path / form)
        names = {path.name for path in (tmp_path / form).iterdir()}
        tables = {*(table.name for table in TABLES), "attributed_ops", "cycles"}
        assert names == {"tables.md", *(f"{name}.{form}" for name in tables)}
        for table in TABLES:
            frame = read_table(tmp_path / form / f"{table.name}.{form}")
            assert frame.shape == getattr(trace, table.name).shape
        text = (tmp_path / form / "tables.md").read_text()
        assert all(f"## {name}\n" in text for name in tables)


def test_phase_rules_and_the_choice_not_to_infer_hold(cli: Cli, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'verify'\nphase = 'decode'\n")
    export(cli, "parquet", NODES, tmp_path / "named", "--phases", str(rules), "--no-infer")
    phases = set(pl.read_parquet(tmp_path / "named" / "attributed_ops.parquet")["phase"])
    assert "decode" in phases
    assert "verify" not in phases


def test_a_trace_without_gpu_work_is_exported_too(cli: Cli, tmp_path: Path) -> None:
    trace = SAMPLE_TRACES / "eagle3_host_only.sqlite"
    for form in ("perfetto", "parquet", "csv"):
        export(cli, form, trace, tmp_path / form)
    assert read((tmp_path / "perfetto").read_bytes()).slices
    assert reported(cli, tmp_path / "parquet") == reported(cli, trace)


def test_what_cannot_be_drawn_is_told(server: Path, cli: Cli, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(server.read_bytes())
    done = cli("export", server, copy, "--to", "perfetto", "-o", tmp_path / "t.pftrace.gz")
    assert done.exit_code == 0
    assert "several files" in done.stderr


@pytest.mark.parametrize("form", ["perfetto", "parquet", "csv"])
def test_nothing_is_overwritten_unless_forced(
    form: str, server: Path, cli: Cli, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    export(cli, form, server, output)
    before = _content(output)
    done = cli("export", NODES, "--to", form, "-o", output)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--force" in done.stderr
    assert _content(output) == before
    export(cli, form, NODES, output, "--force")
    assert _content(output) != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "server.sqlite"]


def _content(output: Path) -> dict[str, bytes]:
    files = sorted(output.iterdir()) if output.is_dir() else [output]
    return {file.name: file.read_bytes() for file in files}


def test_one_form_replaces_the_other(server: Path, cli: Cli, tmp_path: Path) -> None:
    export(cli, "csv", server, tmp_path / "out")
    export(cli, "parquet", server, tmp_path / "out", "--force")
    assert not list((tmp_path / "out").glob("*.csv"))


def test_only_what_an_export_wrote_is_replaced(server: Path, cli: Cli, tmp_path: Path) -> None:
    output = tmp_path / "out"
    export(cli, "parquet", server, output)
    (output / "thesis.tex").write_text("years of work")
    done = cli("export", server, "--to", "parquet", "-o", output, "--force")
    assert done.exit_code == 2
    assert "thesis.tex" in done.stderr
    assert (output / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("form", ["perfetto", "parquet"])
@pytest.mark.parametrize("place", ["server.sqlite", ".", "file/inside", "missing/out"])
def test_places_that_cannot_be_written_are_refused(
    form: str, place: str, server: Path, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file")
    before = server.read_bytes()
    done = cli("export", server, "--to", form, "-o", tmp_path / place, "--force")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert server.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "server.sqlite"]


def test_an_export_does_not_replace_the_export_that_is_read(
    server: Path, cli: Cli, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    export(cli, "parquet", server, saved)
    for output in (saved, saved / "inside"):
        done = cli("export", saved, "--to", "parquet", "-o", output, "--force")
        assert done.exit_code == 2
        assert "a trace that is read is here" in done.stderr
    assert not (saved / "inside").exists()


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def failing_at_last(path: Path, target: Path) -> Path:
    """A rename that fails for the new folder and works for the one moved aside."""
    if path.name.startswith(".traceanalyzer-") and not path.name.endswith("-replaced"):
        full()
    os.rename(path, target)
    return target


@pytest.mark.parametrize("there", [True, False], ids=["replacing", "new"])
@pytest.mark.parametrize(
    ("what", "instead"),
    [("traceanalyzer.schema.table_markdown", full), ("pathlib.Path.rename", failing_at_last)],
    ids=["writing", "renaming"],
)
def test_a_folder_is_whole_or_not_there(
    there: bool,
    what: str,
    instead: Callable[..., object],
    server: Path,
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "out"
    if there:
        export(cli, "csv", server, output)
    names = sorted(path.name for path in tmp_path.iterdir())
    before = _content(output) if there else None
    with monkeypatch.context() as patch:
        patch.setattr(what, instead)
        done = cli("export", server, "--to", "csv", "-o", output, "--force")
    assert done.exit_code == 2
    assert "cannot be written: No space left" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert before is None or _content(output) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "parquet"), "--output"),
        (("-o", "x"), "--to"),
        (("--to", "excel", "-o", "x"), "excel"),
    ],
    ids=["no output", "no form", "unknown form"],
)
def test_bad_usage(arguments: tuple[str, ...], told: str, cli: Cli) -> None:
    done = cli("export", NODES, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
