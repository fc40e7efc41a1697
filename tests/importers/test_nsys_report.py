"""Reports become exports: with the real nsys, and with stand-ins for the versions not here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.harness import needs_nsys, real_nsys
from tests.importers.fake_nsys import (
    COPY_EXPORT,
    NEW_HELP,
    OLD_HELP,
    SECRET,
    FakeNsys,
    write_exports,
    write_fake_nsys,
)
from traceanalyzer.cache.folder import PARTIAL_PREFIX, cache_folder, workspace
from traceanalyzer.errors import ExportError, InputError
from traceanalyzer.importers import nsys_command, nsys_parquet, nsys_sqlite
from traceanalyzer.importers.nsys_export_cache import Slot, is_whole
from traceanalyzer.importers.nsys_report import export, recognises
from traceanalyzer.progress import silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.trace import Trace

    MakeNsys = Callable[..., FakeNsys]

OLD, NEW = "2022.4.2.1-df9881f", "2025.3.2.474-253236389321v0"
RANGES = 3

# nsys 2022.4 and 2023.4 refuse the payload extension of newer nvtx, which then makes dummies.
RECORDED_PROGRAM = f"""
import nvtx
from nvtx._lib import lib

def real_domain(cls, name=None):
    domain = object.__new__(cls)
    domain.handle = lib.DomainHandle(name)
    return domain

if hasattr(lib, "DomainHandle"):
    lib.Domain.__new__ = staticmethod(real_domain)
for cycle in range({RANGES}):
    with nvtx.annotate("verify", domain="eagle", payload=cycle):
        pass
"""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What nsys leaves of a program with three ranges and a secret in its environment."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(RECORDED_PROGRAM)
    options = ("-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "report")
    name, _, value = SECRET.partition("=")
    done = subprocess.run(
        [_real().path, "profile", *options, sys.executable, "program.py"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", name: value},
        capture_output=True,
        check=False,
    )
    left = [folder / "report.nsys-rep", folder / "report.qdstrm"]
    assert any(path.exists() for path in left), done.stderr.decode()
    return next(path for path in left if path.exists())


@pytest.fixture(scope="session")
def stream(recorded: Path) -> Path:
    """The recording as a .qdstrm, which Debian's nsys leaves."""
    if recorded.suffix != ".qdstrm":
        pytest.skip("this nsys imports its streams itself")
    return recorded


@pytest.fixture(scope="session")
def report(recorded: Path) -> Path:
    """The recording as a .nsys-rep."""
    path = recorded.with_suffix(".nsys-rep")
    if recorded != path:
        importer = nsys_command.qdstrm_importer(_real())
        assert importer is not None
        subprocess.run(
            [importer, "-i", recorded, "-o", path],
            env={"LD_LIBRARY_PATH": str(importer.parent)},
            capture_output=True,
            check=True,
        )
    return path


def _real() -> nsys_command.Nsys:
    nsys = nsys_command.probe(real_nsys() or Path())
    assert nsys is not None
    return nsys


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(folder))
    return folder


@needs_nsys
def test_real_stream_is_exported_with_its_ranges(stream: Path, cache: Path) -> None:
    assert recognises(stream, stream.read_bytes()[:4096])

    exported = export(stream, None, silent)

    assert exported.parent == cache
    assert list(cache.iterdir()) == [exported]
    trace = _read(exported)
    assert _named_ranges(trace)["text"].to_list() == ["verify"] * RANGES
    assert trace.ranges["payload"].to_list() == list(range(RANGES))


@needs_nsys
def test_real_export_leaves_environments_behind(report: Path, cache: Path, tmp_path: Path) -> None:
    whole = _whole_export(report, tmp_path)
    exported = export(report, None, silent)

    secret = SECRET.partition("=")[2].encode()
    assert secret in report.read_bytes()
    assert secret in whole.read_bytes()
    assert not any(secret in file.read_bytes() for file in cache.rglob("*") if file.is_file())
    assert "TARGET_INFO_SYSTEM_ENV" in _tables(whole)
    assert "TARGET_INFO_SYSTEM_ENV" not in _tables(exported)


@needs_nsys
def test_real_export_reads_like_a_whole_one(report: Path, cache: Path, tmp_path: Path) -> None:
    whole = _read(_whole_export(report, tmp_path))
    trimmed = _read(export(report, None, silent))

    assert whole.ranges.height == RANGES
    assert _named_ranges(trimmed).equals(_named_ranges(whole))
    assert trimmed.processes.equals(whole.processes)
    assert trimmed.threads.equals(whole.threads)
    described = pl.exclude("path", "format")
    assert trimmed.files.select(described).equals(whole.files.select(described))


@needs_nsys
def test_real_progress_is_told_and_nothing_is_printed(
    report: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[tuple[str, float | None]] = []
    export(report, None, lambda stage, share: told.append((stage, share)))

    shares = [share for stage, share in told if "exporting" in stage and share is not None]
    assert shares
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert capfd.readouterr() == ("", "")


@needs_nsys
def test_real_export_is_made_once(report: Path, cache: Path) -> None:
    first = export(report, None, silent)
    inode = first.stat().st_ino
    told: list[str] = []

    second = export(report, None, lambda stage, share: told.append(stage))

    assert (second, second.stat().st_ino, told) == (first, inode, [])


@needs_nsys
def test_real_truncated_report_shows_what_nsys_said(
    report: Path, cache: Path, tmp_path: Path
) -> None:
    half = tmp_path / "half.nsys-rep"
    half.write_bytes(report.read_bytes()[: report.stat().st_size // 2])

    with pytest.raises(ExportError, match="Exportation error") as caught:
        export(half, None, silent)

    assert f"{half.stat().st_size:,} bytes" in str(caught.value)
    assert list(cache.iterdir()) == []


@needs_nsys
def test_real_report_of_a_newer_nsys_is_refused(report: Path, cache: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.nsys-rep"
    header = rb"(NVIDIA Tegra Profiler Report )[^.]+"
    newer.write_bytes(re.sub(header, rb"\g<1>2099@1@1@7-1v0", report.read_bytes(), count=1))

    with pytest.raises(ExportError) as caught:
        export(newer, None, silent)

    assert "2099.1.1.7" in caught.value.what
    assert _real().release in caught.value.what
    assert "nsys export --type sqlite --output newer.sqlite newer.nsys-rep" in str(caught.value)


def _named_ranges(trace: Trace) -> pl.DataFrame:
    return trace.ranges.select(
        "start_ns", "end_ns", "thread", "style", "payload", text=trace.text("name")
    ).with_columns(domain=trace.ranges.select(trace.text("domain")).to_series())


def _whole_export(report: Path, folder: Path) -> Path:
    whole = folder / "whole.sqlite"
    options = ("--quiet=true", "--type=sqlite", f"--output={whole}")
    subprocess.run([_real().path, "export", *options, report], check=True)
    return whole


def _read(export: Path) -> Trace:
    read = nsys_parquet.read if export.is_dir() else nsys_sqlite.read
    return read(export, silent)


def _tables(export: Path) -> set[str]:
    if export.is_dir():
        return {file.stem for file in export.iterdir()}
    with closing(sqlite3.connect(export)) as opened:
        return {name for (name,) in opened.execute("SELECT name FROM sqlite_master")}


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with one small whole export in both forms."""
    return write_exports(tmp_path_factory.mktemp("exports"))


@pytest.fixture(autouse=True)
def lonely(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No nsys on this machine, unless the test is about the real one."""
    if "needs_nsys" not in request.keywords:
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        monkeypatch.setattr(nsys_command, "INSTALL_PATTERNS", ())


@pytest.fixture
def on_path(tmp_path: Path, exports: Path) -> MakeNsys:
    """Puts a stand-in on PATH: by default one of a new version."""
    return partial(
        write_fake_nsys, tmp_path / "bin" / "nsys", exports, version=NEW, help_text=NEW_HELP
    )


def _report(folder: Path, version: str = "1", name: str = "run.nsys-rep") -> Path:
    path = folder / name
    path.write_bytes(f"NVIDIA Tegra Profiler Report {version}.\n".encode() + bytes(range(256)))
    return path


@pytest.mark.parametrize(
    "head",
    [
        b"NVIDIA Tegra Profiler Report 1.\n\x0b",
        b"NVIDIA Tegra Profiler Report 2025@3@2@474-253236389321v0.\n\x0b",
        b"U3w[END]NVIDIA Nsight Systems Stream 2022.4.2.1-df9881f!\x0a",
    ],
)
def test_reports_are_recognised_by_content(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "any_name"
    path.write_bytes(head)
    assert recognises(path, head)


@pytest.mark.parametrize("head", [b"", b"SQLite format 3\0", b'{"traceEvents": []}', b"PK\x03\x04"])
def test_other_files_are_not_recognised(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(head)
    assert not recognises(path, head)


def test_new_nsys_exports_a_folder_of_the_tables_read(
    tmp_path: Path, cache: Path, on_path: MakeNsys
) -> None:
    fake = on_path()

    exported = export(_report(tmp_path), None, silent)

    (arguments,) = fake.exports
    assert "--type=parquetdir" in arguments
    (tables,) = (each.partition("=")[2] for each in arguments if each.startswith("--tables="))
    assert "^NVTX_EVENTS$" in tables.split(",")
    assert "ENV" not in tables
    kept = {"StringIds", "NVTX_EVENTS", "ThreadNames", "CUPTI_ACTIVITY_KIND_KERNEL"}
    assert {file.stem for file in exported.iterdir()} == kept | {"META_DATA_EXPORT"}
    strings = pl.read_parquet(exported / "StringIds.parquet")
    assert strings["value"].to_list() == ["verify", "thread", "kernel"]
    assert is_whole(exported)


def test_old_nsys_exports_a_database_trimmed_afterwards(
    tmp_path: Path, cache: Path, on_path: MakeNsys
) -> None:
    fake = on_path(version=OLD, help_text=OLD_HELP)

    exported = export(_report(tmp_path), None, silent)

    (arguments,) = fake.exports
    assert "--type=sqlite" in arguments
    assert not any(each.startswith("--tables") for each in arguments)
    kept = {"StringIds", "NVTX_EVENTS", "ThreadNames", "CUPTI_ACTIVITY_KIND_KERNEL"}
    assert _tables(exported) == kept | {"META_DATA_EXPORT"}
    with closing(sqlite3.connect(exported)) as database:
        strings = database.execute("SELECT value FROM StringIds ORDER BY id").fetchall()
        events = database.execute("SELECT * FROM NVTX_EVENTS ORDER BY start").fetchall()
    assert strings == [("verify",), ("thread",), ("kernel",)]
    assert events == [(10, 15, 1, None), (20, 25, None, "a")]
    assert SECRET.encode() not in exported.read_bytes()


def test_report_named_like_an_option(
    tmp_path: Path, cache: Path, on_path: MakeNsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = on_path()
    report = _report(tmp_path, name="-run.nsys-rep")
    monkeypatch.chdir(tmp_path)

    export(Path(report.name), None, silent)

    assert fake.exports[0][-1] == str(report)


@pytest.mark.parametrize("name", ["run.sqlite", "run_pqtdir", "run.parquetdir"])
def test_sibling_export_needs_no_nsys(
    tmp_path: Path, cache: Path, exports: Path, name: str
) -> None:
    report = _report(tmp_path)
    sibling = _copy(exports, tmp_path / name)

    assert export(report, None, silent) == sibling
    assert not cache.exists()


@pytest.mark.parametrize("name", ["run.sqlite", "run_pqtdir"])
def test_sibling_older_than_the_report_is_not_used(
    tmp_path: Path, cache: Path, exports: Path, on_path: MakeNsys, name: str
) -> None:
    fake = on_path()
    sibling = _copy(exports, tmp_path / name)
    report = _report(tmp_path)
    future_ns = time.time_ns() + 10**9
    os.utime(report, ns=(future_ns, future_ns))

    assert export(report, None, silent) != sibling
    assert len(fake.exports) == 1


def _no_header(sibling: Path) -> None:
    sibling.write_bytes(bytes(4096) + sibling.read_bytes()[4096:])


def _no_end(sibling: Path) -> None:
    sibling.write_bytes(sibling.read_bytes()[:-4096])


def _journal(sibling: Path) -> None:
    sibling.with_name(sibling.name + "-journal").touch()


def _no_strings(sibling: Path) -> None:
    with closing(sqlite3.connect(sibling)) as database, database:
        database.execute("DROP TABLE StringIds")


def _no_footer(sibling: Path) -> None:
    file = sibling / "NVTX_EVENTS.parquet"
    file.write_bytes(file.read_bytes()[:-4])


def _no_metadata(sibling: Path) -> None:
    (sibling / "META_DATA_EXPORT.parquet").unlink()


def _empty(sibling: Path) -> None:
    if sibling.is_dir():
        shutil.rmtree(sibling)
        sibling.mkdir()
    else:
        sibling.write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("run.sqlite", _empty),
        ("run.sqlite", _no_header),
        ("run.sqlite", _no_end),
        ("run.sqlite", _journal),
        ("run.sqlite", _no_strings),
        ("run_pqtdir", _empty),
        ("run_pqtdir", _no_footer),
        ("run_pqtdir", _no_metadata),
    ],
)
def test_half_written_sibling_is_not_used(
    tmp_path: Path,
    cache: Path,
    exports: Path,
    on_path: MakeNsys,
    name: str,
    damage: Callable[[Path], None],
) -> None:
    on_path()
    report = _report(tmp_path)
    sibling = _copy(exports, tmp_path / name)
    damage(sibling)

    assert export(report, None, silent).parent == cache


def _copy(exports: Path, target: Path) -> Path:
    if target.suffix == ".sqlite":
        return Path(shutil.copyfile(exports / "whole.sqlite", target))
    return Path(shutil.copytree(exports / "whole_pqtdir", target, copy_function=shutil.copyfile))


def test_another_run_of_the_same_name_is_exported_anew_and_the_old_export_goes(
    tmp_path: Path, cache: Path, on_path: MakeNsys
) -> None:
    fake = on_path()
    report = _report(tmp_path)
    other = export(_report(tmp_path, name="run.other.nsys-rep"), None, silent)
    first = export(report, None, silent)
    report.write_bytes(report.read_bytes() + b"longer")

    second = export(report, None, silent)

    assert len(fake.exports) == 3
    assert set(cache.iterdir()) == {second, other}
    assert first != second


def test_two_versions_of_nsys_share_no_export(
    tmp_path: Path, cache: Path, exports: Path, on_path: MakeNsys
) -> None:
    on_path()
    report = _report(tmp_path)
    by_new = export(report, None, silent)
    old = write_fake_nsys(tmp_path / "old", exports, version=OLD, help_text=OLD_HELP)

    by_old = export(report, str(old.path), silent)

    assert set(cache.iterdir()) == {by_new, by_old}


WHEN_FOUR_ARE_EXPORTING = """
until = time.monotonic() + 60
while len(open(sys.argv[0] + ".log").readlines()) < 4 and time.monotonic() < until:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("help_text", [NEW_HELP, OLD_HELP], ids=["new", "old"])
def test_concurrent_runs_share_one_export(
    tmp_path: Path, cache: Path, on_path: MakeNsys, help_text: str
) -> None:
    fake = on_path(help_text=help_text, body=WHEN_FOUR_ARE_EXPORTING + COPY_EXPORT)
    report = _report(tmp_path)

    with ThreadPoolExecutor(4) as pool:
        exported = set(pool.map(lambda _: export(report, None, silent), range(4)))

    assert len(fake.exports) == 4
    assert set(cache.iterdir()) == exported
    assert len(exported) == 1
    assert is_whole(exported.pop())


def test_abandoned_workspace_is_removed_after_a_day(tmp_path: Path, cache: Path) -> None:
    for name, age_seconds in (("day-old", 25 * 3600), ("recent", 60)):
        folder = cache / f"{PARTIAL_PREFIX}{name}"
        folder.mkdir(parents=True)
        then = time.time() - age_seconds
        os.utime(folder, (then, then))

    with workspace():
        pass

    assert [folder.name for folder in cache.iterdir()] == [f"{PARTIAL_PREFIX}recent"]


def test_unwritable_cache_falls_back_to_a_folder_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exports: Path, on_path: MakeNsys
) -> None:
    on_path()
    report = _report(tmp_path)
    (tmp_path / "file").touch()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {
        "TRACEANALYZER_CACHE": str(tmp_path / "file" / "cache"),
        "PATH": os.environ["PATH"],
        "TMPDIR": str(scratch),
    }
    script = (
        "import pathlib\n"
        "from traceanalyzer.importers.nsys_export_cache import is_whole\n"
        "from traceanalyzer.importers.nsys_report import export\n"
        "from traceanalyzer.progress import silent\n"
        f"made = export(pathlib.Path({str(report)!r}), None, silent)\n"
        "print(made, is_whole(made))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        env=_with_our_modules(env),
        capture_output=True,
        text=True,
        check=True,
    )

    made, whole = done.stdout.split()
    assert Path(made).is_relative_to(scratch)
    assert whole == "True"
    assert list(scratch.iterdir()) == []


def _with_our_modules(env: dict[str, str]) -> dict[str, str]:
    return env | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"TRACEANALYZER_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/traceanalyzer"),
        ({"HOME": "/c"}, "/c/.cache/traceanalyzer"),
    ],
)
def test_cache_folder(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, str], expected: str
) -> None:
    for variable in ("TRACEANALYZER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in named.items():
        monkeypatch.setenv(variable, value)
    assert cache_folder() == Path(expected)


def test_no_nsys_says_who_recorded_and_what_to_run(tmp_path: Path, cache: Path) -> None:
    report = _report(tmp_path, "2025@3@2@474-253236389321v0", "my run.nsys-rep")

    with pytest.raises(ExportError) as caught:
        export(report, None, silent)

    assert caught.value.where == str(report)
    assert "Nsight Systems 2025.3.2.474" in caught.value.what
    next_step = caught.value.next_step or ""
    assert "nsys export --type sqlite --output 'my run.sqlite' 'my run.nsys-rep'" in next_step
    assert "--nsys" in next_step
    assert "developer.nvidia.com" in next_step


def test_no_nsys_for_a_report_without_a_version(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ExportError, match=r"Nsight Systems 2023\.3\.1 or older"):
        export(_report(tmp_path, "1"), None, silent)


def test_older_nsys_is_not_even_asked(tmp_path: Path, cache: Path, on_path: MakeNsys) -> None:
    fake = on_path(version=OLD, help_text=OLD_HELP)

    with pytest.raises(ExportError, match=r"2025\.3\.2\.474.* is 2022\.4\.2\.1"):
        export(_report(tmp_path, "2025@3@2@474-1v0"), None, silent)

    assert fake.exports == []


def test_newer_install_is_used_where_the_one_on_path_is_too_old(
    tmp_path: Path, cache: Path, exports: Path, on_path: MakeNsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = on_path(version=OLD, help_text=OLD_HELP)
    new = write_fake_nsys(tmp_path / "opt/nsys", exports, version=NEW, help_text=NEW_HELP)
    pattern = str((tmp_path / "opt/nsys").relative_to("/"))
    monkeypatch.setattr(nsys_command, "INSTALL_PATTERNS", (pattern,))

    export(_report(tmp_path, NEW.replace(".", "@")), None, silent)

    assert (len(old.exports), len(new.exports)) == (0, 1)


def test_option_goes_before_environment_and_path(
    tmp_path: Path,
    exports: Path,
    on_path: MakeNsys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = partial(write_fake_nsys, exports=exports, help_text=NEW_HELP)
    on_path(version="2024.1.1.1-a")
    named = make(tmp_path / "named", version="2024.2.2.2-b")
    option = make(tmp_path / "option", version="2024.3.3.3-c")

    assert [nsys.release for nsys in nsys_command.candidates(None)] == ["2024.1.1.1"]
    monkeypatch.setenv("NSYS", str(named.path))
    assert [nsys.release for nsys in nsys_command.candidates(None)] == ["2024.2.2.2"]
    found = nsys_command.candidates(str(option.path))
    assert [nsys.release for nsys in found] == ["2024.3.3.3"]


def test_install_folders_are_searched_newest_first(
    tmp_path: Path, exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    make = partial(write_fake_nsys, exports=exports, help_text=NEW_HELP)
    make(tmp_path / "opt/nvidia/nsight-systems/2024.10.1/bin/nsys", version="2024.10.1.5-a")
    make(tmp_path / "opt/nvidia/nsight-systems-cli/2024.9.1/bin/nsys", version="2024.9.1.5-a")
    make(tmp_path / "usr/local/cuda-12.4/bin/nsys", version="2023.4.4.54-a")
    make(tmp_path / "usr/lib/nsight-systems/bin/nsys", version=OLD)
    broken = tmp_path / "usr/local/cuda/bin/nsys"
    broken.parent.mkdir(parents=True)
    broken.write_text("no program")

    releases = [nsys.release for nsys in nsys_command.installed(tmp_path)]

    assert releases == ["2024.10.1.5", "2024.9.1.5", "2023.4.4.54", "2022.4.2.1"]


@pytest.mark.parametrize("through", ["option", "environment"])
def test_named_nsys_that_does_not_exist(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, on_path: MakeNsys, through: str
) -> None:
    on_path()
    absent = str(tmp_path / "absent" / "nsys")
    if through == "environment":
        monkeypatch.setenv("NSYS", absent)

    with pytest.raises(InputError, match=re.escape(absent)) as caught:
        export(_report(tmp_path), absent if through == "option" else None, silent)

    assert caught.value.where == ("--nsys" if through == "option" else "environment variable NSYS")


def test_named_nsys_that_is_something_else(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(InputError, match=re.escape(sys.executable)):
        export(_report(tmp_path), sys.executable, silent)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("sys.exit('last words')", r"exit code 1\); its last lines:\nlast words"),
        ("os.kill(os.getpid(), 11)", "ended by signal 11"),
        ("output.write_text('garbage')", "left no complete export"),
        ("output.mkdir(); (output / 'StringIds.parquet').touch()", "left no complete export"),
        ("pass", "left no complete export"),
    ],
)
@pytest.mark.parametrize("help_text", [NEW_HELP, OLD_HELP], ids=["new", "old"])
def test_broken_nsys(
    tmp_path: Path, cache: Path, on_path: MakeNsys, help_text: str, body: str, expected: str
) -> None:
    on_path(help_text=help_text, body=body)

    with pytest.raises(ExportError, match=expected):
        export(_report(tmp_path), None, silent)

    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    "said",
    [
        "Exportation error: Version number is invalid: 7",
        "Report was created in Nsight Systems version (7), newer than your current version (1).",
    ],
)
def test_refusal_of_nsys_is_about_versions(
    tmp_path: Path, cache: Path, on_path: MakeNsys, said: str
) -> None:
    on_path(body=f"sys.exit({said!r})")

    with pytest.raises(ExportError, match=r"nsys 2025\.3\.2\.474 .* does not read it") as caught:
        export(_report(tmp_path), None, silent)

    assert said in caught.value.what
    assert "complete" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "sys.exit('Exportation error: database or disk is full')",
        "output.mkdir(); print('Error writing bytes to file', file=sys.stderr)",
    ],
)
def test_full_disk_is_about_the_cache(
    tmp_path: Path, cache: Path, on_path: MakeNsys, body: str
) -> None:
    on_path(body=body)

    with pytest.raises(ExportError) as caught:
        export(_report(tmp_path), None, silent)

    assert str(cache) in (caught.value.next_step or "")
    assert "TRACEANALYZER_CACHE" in (caught.value.next_step or "")


def test_damaged_tables_are_an_export_error(tmp_path: Path, cache: Path, on_path: MakeNsys) -> None:
    body = (
        COPY_EXPORT + "(output / 'NVTX_EVENTS.parquet').write_bytes(b'PAR1' + bytes(9) + b'PAR1')"
    )
    on_path(body=body)

    with pytest.raises(ExportError, match="could not be made"):
        export(_report(tmp_path), None, silent)

    assert list(cache.iterdir()) == []


def test_progress_follows_the_percentages_and_no_words_get_out(
    tmp_path: Path, cache: Path, on_path: MakeNsys, capfd: pytest.CaptureFixture[str]
) -> None:
    bar = "print('\\rExporting 9 events: [=5%  ]\\rExporting: [==100%]\\n7% more', flush=True)\n"
    on_path(body=bar + COPY_EXPORT)
    told: list[float | None] = []

    export(_report(tmp_path), None, lambda stage, share: told.append(share))

    assert told == [None, 0.05, 1.0, None]
    assert capfd.readouterr() == ("", "")


def test_interrupt_ends_nsys_and_leaves_nothing(
    tmp_path: Path, cache: Path, on_path: MakeNsys
) -> None:
    started = tmp_path / "started"
    on_path(
        help_text=OLD_HELP,
        body="output.write_text('half')\n"
        f"pathlib.Path({str(tmp_path / 'id')!r}).write_text(str(os.getpid()))\n"
        f"os.rename({str(tmp_path / 'id')!r}, {str(started)!r})\n"
        "time.sleep(120)",
    )
    script = (
        "import pathlib, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from traceanalyzer.importers.nsys_report import export\n"
        "from traceanalyzer.progress import silent\n"
        f"export(pathlib.Path({str(_report(tmp_path))!r}), None, silent)\n"
    )
    command = [sys.executable, "-c", script]
    ours = subprocess.Popen(
        command, env=_with_our_modules(dict(os.environ)), stderr=subprocess.PIPE
    )
    _wait_for(started.exists)

    ours.send_signal(signal.SIGINT)
    _, said = ours.communicate(timeout=60)

    assert said.rstrip().endswith(b"KeyboardInterrupt")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert list(cache.iterdir()) == []


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def _install_like_debian(root: Path, exports: Path, importer: str | None) -> Path:
    """Three links away from the program, the second in the importer's neighbourhood."""
    program = root / "lib/arch/nsight/target-linux-x64/nsys"
    write_fake_nsys(program, exports, version=OLD, help_text=OLD_HELP)
    package = root / "lib/nsight"
    (package / "bin").mkdir(parents=True)
    (package / "target-linux-x64").symlink_to("../arch/nsight/target-linux-x64")
    (package / "bin/nsys").symlink_to("../target-linux-x64/nsys")
    (root / "bin").mkdir()
    (root / "bin/nsys").symlink_to("../lib/nsight/bin/nsys")
    if importer:
        path = package / "host-linux-x64/QdstrmImporter"
        path.parent.mkdir()
        path.write_text(f"#!{sys.executable}\nimport os, pathlib, sys\n{importer}")
        path.chmod(0o755)
    return root / "bin/nsys"


def _stream(folder: Path, version: str = OLD) -> Path:
    path = folder / "run.qdstrm"
    path.write_bytes(f"U3w[END]NVIDIA Nsight Systems Stream {version}!".encode() + bytes(64))
    return path


def test_stream_is_imported_by_the_importer_beside_nsys(
    tmp_path: Path, cache: Path, exports: Path
) -> None:
    importer = (
        "assert os.environ['LD_LIBRARY_PATH'] == os.path.dirname(sys.argv[0])\n"
        "assert sys.argv[1] == '-i' and sys.argv[3] == '-o'\n"
        "pathlib.Path(sys.argv[4]).write_bytes(pathlib.Path(sys.argv[2]).read_bytes())\n"
    )
    nsys = _install_like_debian(tmp_path / "root", exports, importer)
    stream = _stream(tmp_path)

    exported = export(stream, str(nsys), silent)

    assert is_whole(exported)
    assert list(cache.iterdir()) == [exported]
    assert "LD_LIBRARY_PATH" not in os.environ


def test_importer_that_fails_shows_its_last_lines(
    tmp_path: Path, cache: Path, exports: Path
) -> None:
    nsys = _install_like_debian(tmp_path / "root", exports, "sys.exit('File is corrupted.')")

    with pytest.raises(ExportError, match=r"File is corrupted\."):
        export(_stream(tmp_path), str(nsys), silent)


def test_stream_of_another_version_names_both_and_both_commands(
    tmp_path: Path, cache: Path, exports: Path
) -> None:
    nsys = _install_like_debian(tmp_path / "root", exports, "sys.exit('never run')")

    with pytest.raises(ExportError) as caught:
        export(_stream(tmp_path, "2023.4.4.54-1v0"), str(nsys), silent)

    assert "2023.4.4.54" in caught.value.what
    assert "2022.4.2.1" in caught.value.what
    assert "QdstrmImporter -i run.qdstrm -o run.nsys-rep" in (caught.value.next_step or "")


def test_stream_without_an_importer_says_so(tmp_path: Path, cache: Path, exports: Path) -> None:
    nsys = _install_like_debian(tmp_path / "root", exports, None)

    with pytest.raises(ExportError, match="no QdstrmImporter"):
        export(_stream(tmp_path), str(nsys), silent)


def test_slot_name_fits_a_file_system(tmp_path: Path, cache: Path, exports: Path) -> None:
    report = _report(tmp_path, name="ö" * 110 + ".nsys-rep")
    slot = Slot.of(report, NEW)
    with workspace() as folder:
        kept = slot.keep(_copy(exports, folder / "whole.sqlite"))
    assert slot.stored() == kept
