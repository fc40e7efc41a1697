"""Results that commands keep: found again, the same, and only as long as they hold."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from tests.harness import SAMPLE_TRACES
from traceanalyzer.cache.folder import KEPT_SUFFIX
from traceanalyzer.commands import cli, kept
from traceanalyzer.commands.passing_on import PassedOn
from traceanalyzer.importers import load
from traceanalyzer.pipeline import AnalysisOptions, analyze

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEED = SAMPLE_TRACES / "seed_case.sqlite"
BASELINE = SAMPLE_TRACES / "seed_baseline_parquetdir"
TRACES = [
    "eagle3_tp2_nodes.sqlite",
    "eagle3_tp2_graphs.sqlite",
    "eagle3_eager_parquetdir",
    "eagle3_host_only.sqlite",
    "eagle3_torch.json.gz",
    "seed_synchronised_parquetdir",
]


@pytest.fixture(name="cache", autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "the cache"
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(folder))
    monkeypatch.setattr(kept, "_WORTH_S", 0.0)
    return folder


@pytest.fixture(name="read")
def _read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was read from its files since the test began."""
    import traceanalyzer.importers

    found: list[Any] = []

    def counted(files: Any, **options: Any) -> Any:
        found.append(files)
        return load(files, **options)

    monkeypatch.setattr(traceanalyzer.importers, "load", counted)
    return found


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def report(*arguments: object) -> str:
    done = run("report", "--format", "json", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def kept_in(cache: Path) -> list[Path]:
    return sorted(cache.glob(f"*{KEPT_SUFFIX}")) if cache.exists() else []


@pytest.mark.parametrize("name", TRACES)
def test_a_report_is_the_same_made_kept_and_found(name: str, read: list[Any]) -> None:
    trace = SAMPLE_TRACES / name
    made = report(trace)
    found = report(trace)
    assert len(read) == 1, "and read only once"
    assert made == found == report("--no-cache", trace)
    direct = PassedOn([trace]).report(analyze(load(trace), AnalysisOptions())).to_json().decode()
    assert made == direct + "\n"


def test_another_baseline_needs_no_other_analysis(read: list[Any]) -> None:
    report(SEED)
    known = ("--baseline", BASELINE, "--tokens-per-s", "71")
    with_baseline = report(SEED, *known)
    assert len(read) == 2, "the seed case and the baseline, once each"
    assert report(SEED, *known) == with_baseline
    assert len(read) == 2
    assert report("--no-cache", SEED, *known) == with_baseline
    assert report(SEED, "--baseline-ms", "11.1") != with_baseline


@pytest.mark.parametrize("form", ["csv", "perfetto"])
def test_an_export_is_the_same_from_a_kept_trace(
    form: str, read: list[Any], tmp_path: Path
) -> None:
    trace, outputs = SAMPLE_TRACES / TRACES[0], [tmp_path / name for name in ("made", "found")]
    for output in outputs:
        done = run("export", trace, "--to", form, "-o", output)
        assert done.exit_code == 0, done.output
    assert len(read) == 1
    made, found = (
        {file.name: file.read_bytes() for file in output.iterdir()}
        if output.is_dir()
        else output.read_bytes()
        for output in outputs
    )
    assert made == found


def _touched(trace: Path, rules: Path) -> None:
    trace.write_bytes(trace.read_bytes())


def _other_rules(trace: Path, rules: Path) -> None:
    rules.write_text(rules.read_text() + "\n# a comment\n")


def _moved(trace: Path, rules: Path) -> None:
    shutil.copy2(trace, trace.with_name("other.sqlite"))
    trace.unlink()
    trace.with_name("other.sqlite").rename(trace)


@pytest.mark.parametrize("change", [_touched, _other_rules, _moved])
def test_what_changed_is_read_anew(
    change: Callable[[Path, Path], None], read: list[Any], tmp_path: Path
) -> None:
    trace, rules = tmp_path / "trace.sqlite", tmp_path / "rules.toml"
    shutil.copy2(SAMPLE_TRACES / TRACES[0], trace)
    rules.write_text('[[rule]]\nname = "mine"\nphase = "draft"\n')
    report("--phases", rules, trace)
    report("--phases", rules, trace)
    assert len(read) == 1
    change(trace, rules)
    report("--phases", rules, trace)
    assert len(read) == 2


def test_nothing_is_kept_where_that_is_not_wanted_or_not_worth_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report("--no-cache", SAMPLE_TRACES / TRACES[0])
    assert kept_in(cache) == []
    monkeypatch.setattr(kept, "_WORTH_S", 1e9)
    report(SAMPLE_TRACES / TRACES[0])
    assert kept_in(cache) == []


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schema_version": 1}', bytes(100)])
def test_a_damaged_report_is_made_anew(damage: bytes, cache: Path, read: list[Any]) -> None:
    whole = report(SAMPLE_TRACES / TRACES[0])
    (folder,) = kept_in(cache)
    for file in folder.iterdir():
        file.write_bytes(damage)
    assert report(SAMPLE_TRACES / TRACES[0]) == whole
    assert len(read) == 2
    assert report(SAMPLE_TRACES / TRACES[0]) == whole
    assert len(read) == 2, "and was kept again"


@pytest.mark.parametrize("damage", [b"", b"ARROW1", bytes(100)])
def test_damaged_tables_are_read_anew(damage: bytes, cache: Path, read: list[Any]) -> None:
    whole = run("ranges", SAMPLE_TRACES / TRACES[0]).stdout
    (folder,) = kept_in(cache)
    for file in folder.iterdir():
        file.write_bytes(damage)
    assert run("ranges", SAMPLE_TRACES / TRACES[0]).stdout == whole
    assert len(read) == 2


def test_a_cache_that_cannot_be_written_to_is_only_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "file" / "cache"))
    done = run("report", SAMPLE_TRACES / TRACES[0])
    assert done.exit_code == 0
    assert "note: nothing was kept in the cache: the cache folder" in done.stderr


def test_a_run_without_a_rank_is_not_kept(cache: Path, tmp_path: Path) -> None:
    for number in (0, 1):
        shutil.copy2(SAMPLE_TRACES / "eagle3_torch.json.gz", tmp_path / f"rank_{number}.json.gz")
    cut = tmp_path / "rank_1.json.gz"
    cut.write_bytes(b"")
    done = run("report", tmp_path / "rank_0.json.gz", cut)
    assert "missing rank" in done.output
    assert kept_in(cache) == []
