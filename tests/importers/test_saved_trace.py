"""A Trace that was saved and read again is the same Trace."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given

from tests.exports import Export, served
from tests.harness import SAMPLE_TRACES
from tests.strategies import RULES, examples, traces
from traceanalyzer import InputError, analyze, load
from traceanalyzer.assembly.derived_tables import derived_tables
from traceanalyzer.phases.rules import Rules
from traceanalyzer.renderers.saved_tables import write_tables
from traceanalyzer.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.trace import Trace


def saved(trace: Trace, folder: Path, rules: Rules | None = None) -> Path:
    folder.mkdir()
    derived = derived_tables(trace, rules or Rules.shipped())
    write_tables(folder, trace, derived, "parquet")
    return folder


def assert_same(found: Trace, wanted: Trace) -> None:
    for table in TABLES:
        assert getattr(found, table.name).equals(getattr(wanted, table.name)), table.name
        assert getattr(found, table.name).schema == table.polars_schema


@pytest.mark.parametrize(
    "name",
    [
        "eagle3_tp2_nodes.sqlite",
        "eagle3_tp2_graphs.sqlite",
        "eagle3_torch.json.gz",
        "eagle3_host_only.sqlite",
        "broken/no_phase_ranges.sqlite",
        "broken/secrets_stored.sqlite",
    ],
)
def test_the_report_is_the_same(name: str, tmp_path: Path) -> None:
    trace = load(SAMPLE_TRACES / name)
    found = load(saved(trace, tmp_path / "saved"))
    assert_same(found, trace)
    assert analyze(found).to_json() == analyze(trace).to_json()


@examples(0.03)
@given(traces())
def test_any_trace(trace: Trace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_same(load(saved(trace, Path(folder) / "saved", RULES)), trace)


def test_ranks_of_several_files_stay_what_they_were(tmp_path: Path) -> None:
    for rank in (0, 1):
        export = Export()
        served(export, 4100 + rank, rank=rank)
        export.write_sqlite(tmp_path / f"run_rank{rank}.sqlite")
    trace = load(sorted(tmp_path.glob("*.sqlite")))
    found = load(saved(trace, tmp_path / "saved"))
    assert found.files["path"].to_list() == trace.files["path"].to_list()
    assert found.processes["rank"].to_list() == [0, 1]
    assert analyze(found) == analyze(trace)


def small(folder: Path) -> Path:
    export = Export()
    served(export)
    return saved(load(export.write_sqlite(folder / "trace.sqlite")), folder / "saved")


def test_what_was_derived_is_not_needed(tmp_path: Path) -> None:
    folder = small(tmp_path)
    whole = load(folder)
    for name in ("attributed_ops.parquet", "cycles.parquet", "tables.md"):
        (folder / name).unlink()
    assert_same(load(folder), whole)


@pytest.mark.parametrize("table", ["launches", "threads", "diagnostics"])
def test_a_missing_table_is_named(table: str, tmp_path: Path) -> None:
    folder = small(tmp_path)
    (folder / f"{table}.parquet").unlink()
    with pytest.raises(InputError, match="is missing") as caught:
        load(folder)
    assert caught.value.where == str(folder / f"{table}.parquet")
    assert "export" in str(caught.value.next_step)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def rewritten(**columns: pl.Expr) -> Callable[[Path], None]:
    def rewrite(file: Path) -> None:
        pl.read_parquet(file).with_columns(**columns).write_parquet(file)

    return rewrite


@pytest.mark.parametrize(
    ("table", "damage", "told"),
    [
        ("ops", cut, "cannot be read"),
        ("ranges", Path.unlink, "format is not known|holds no trace"),
        ("ops", rewritten(start_ns=pl.lit("soon")), "wrong type"),
        ("ops", rewritten(kind=pl.lit("thought")), "wrong type"),
        ("ops", rewritten(name=pl.lit(None, pl.Int32)), "holds nulls"),
        ("ops", rewritten(name=pl.lit(10_000)), "column name names rows that are not there"),
        ("ops", rewritten(process=pl.lit(-1)), "column process"),
        ("ops", rewritten(device_id=pl.lit(9)), "column device_id"),
        ("launches", rewritten(thread=pl.lit(99)), "column thread"),
        ("ranges", rewritten(domain=pl.lit(-2)), "column domain"),
        ("names", rewritten(name=pl.col("name").reverse()), "column name"),
        ("processes", rewritten(process=pl.lit(3)), "column process"),
    ],
)
def test_damage_is_refused(
    table: str, damage: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    folder = small(tmp_path)
    damage(folder / f"{table}.parquet")
    with pytest.raises(InputError, match=told):
        load(folder)


@pytest.mark.parametrize("name", ["a[1]", "what?*", "ünïcode #x"])
def test_names_of_folders_that_mean_something_elsewhere(name: str, tmp_path: Path) -> None:
    folder = small(tmp_path)
    assert_same(load(folder.rename(tmp_path / name)), load(tmp_path / "trace.sqlite"))
