"""What goes wrong while recording: the message, the exit code, and nothing half-written left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.capture.engine_server import Engine, serving
from tests.commands import fake_nsys
from tests.exports import NSYS_2022, NVTX, RUNTIME, Export, global_tid, served
from tests.harness import REPOSITORY, needs_nsys
from traceanalyzer.capture import endpoint_window

if TYPE_CHECKING:
    from tests.commands.conftest import Cli

Usage = namedtuple("Usage", "total used free")
ENGINE_PAGES = {
    "/health": (200, ""),
    "/start_profile": (200, ""),
    "/stop_profile": (200, ""),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def export_of(folder: Path, *, lacks: str = "") -> Path:
    """Two ranks, of which the second may lack a table's rows."""
    export = Export(NSYS_2022)
    served(export)
    served(export, 5200, rank=1)
    thread = global_tid(5200)
    rows = export.tables.get(lacks, [])
    export.tables[lacks or NVTX] = [
        row for row in export.tables[lacks or NVTX] if not lacks or row["globalTid"] != thread
    ]
    assert not lacks or len(export.tables[lacks]) < len(rows)
    return export.write_sqlite(folder / "made.sqlite")


def exits(code: int) -> list[str]:
    return ["--", sys.executable, "-S", "-c", f"raise SystemExit({code})"]


def capture(out: Path, nsys: Path, *arguments: str | Path) -> list[str | Path]:
    return ["capture", "--no-hooks", "--nsys", nsys, "-o", out / "run", *arguments]


def test_a_whole_recording_gets_its_name_and_each_rank_is_looked_at(
    out: Path, tools: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, "whole", export_of(tools))
    done = cli(*capture(out, nsys, *exits(0)))
    assert done.exit_code == 0, done.stderr
    assert "verify" in done.stdout
    assert "2 ranks, each with ranges, launches and kernels" in done.stderr
    assert [path.name for path in out.iterdir()] == ["run.nsys-rep"]


def test_a_rank_that_lacks_ranges_is_named(out: Path, tools: Path, cli: Cli) -> None:
    nsys = fake_nsys.install(tools, "whole", export_of(tools, lacks=NVTX))
    done = cli(*capture(out, nsys, *exits(0)))
    assert done.exit_code == 0, done.stderr
    assert "rank 1 (pid 5200, scheduler_TP1): 20 launches, 20 kernels, but no ranges" in done.stderr


def test_a_rank_that_lacks_launches_is_named(out: Path, tools: Path, cli: Cli) -> None:
    nsys = fake_nsys.install(tools, "whole", export_of(tools, lacks=RUNTIME))
    done = cli(*capture(out, nsys, *exits(0)))
    assert "rank 1 (pid 5200, scheduler_TP1): 15 ranges, 20 kernels, but no" in done.stderr


@pytest.mark.parametrize("mode", ["whole", "nothing"])
def test_the_programs_own_exit_code_is_passed_on_whatever_was_recorded(
    mode: str, out: Path, tools: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, mode, export_of(tools))
    done = cli(*capture(out, nsys, *exits(7)))
    assert done.exit_code == 7
    assert ("nsys left no report" in done.stderr) == (mode == "nothing")


def test_a_recording_that_left_nothing_is_bad_input(out: Path, tools: Path, cli: Cli) -> None:
    done = cli(*capture(out, fake_nsys.install(tools, "nothing"), *exits(0)))
    assert done.exit_code == 2
    assert "nsys left no report" in done.stderr
    assert not list(out.iterdir())


def test_an_earlier_recording_outlives_one_that_failed(out: Path, tools: Path, cli: Cli) -> None:
    (out / "run.nsys-rep").write_text("earlier")
    cli(*capture(out, fake_nsys.install(tools, "nothing"), *exits(0)))
    assert (out / "run.nsys-rep").read_text() == "earlier"


def test_a_full_disk_is_named_and_half_a_report_does_not_get_the_name(
    out: Path, tools: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys = fake_nsys.install(tools, "full", export_of(tools))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, 1 << 40, 512))
    done = cli(*capture(out, nsys, *exits(0)))
    assert done.exit_code == 1  # nsys's own, which cannot be told from the program's
    assert "the disk is full (512 bytes are free)" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in out.iterdir()] == ["run.incomplete.nsys-rep"]


@needs_nsys
def test_a_disk_that_is_really_full(tmp_path: Path, cli: Cli) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)]
    if mount is None or subprocess.run([mount, *options], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (small / "filler").write_bytes(bytes(60 << 10))
        line = ["capture", "--no-hooks", "--no-cuda", "-o", small / "run", *exits(0)]
        done = cli(*line)
        left = [path.name for path in small.iterdir()]
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert done.exit_code != 0
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert set(left) <= {"filler", "run.incomplete.qdstrm", "run.incomplete.nsys-rep"}


SERVES = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


def interrupted(out: Path, nsys: Path, *, times: int) -> tuple[int, str, str]:
    """Exit code and output of a capture that gets Ctrl-C once its program runs."""
    runs = out.parent / "runs"
    program = ["--", sys.executable, "-S", "-c", SERVES, str(runs)]
    process = subprocess.Popen(
        [sys.executable, "-m", "traceanalyzer", *map(str, capture(out, nsys, *program))],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not runs.exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    if times > 1:
        while not (nsys.parent / "stopped").exists():
            time.sleep(0.02)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
    printed, told = process.communicate(timeout=60)
    return process.returncode, printed, told


def test_ctrl_c_keeps_and_reports_what_was_recorded(out: Path, tools: Path) -> None:
    nsys = fake_nsys.install(tools, "whole", export_of(tools))
    code, printed, _ = interrupted(out, nsys, times=1)
    assert code == 130
    assert "verify" in printed
    assert [path.name for path in out.iterdir()] == ["run.nsys-rep"]


def test_ctrl_c_before_anything_was_recorded(out: Path, tools: Path) -> None:
    code, printed, told = interrupted(out, fake_nsys.install(tools, "nothing"), times=1)
    assert (code, printed) == (130, "")
    assert "nsys left no report" in told
    assert "Traceback" not in told
    assert not list(out.iterdir())


def test_a_second_ctrl_c_leaves_nothing_half_written(out: Path, tools: Path) -> None:
    code, printed, told = interrupted(out, fake_nsys.install(tools, "stuck"), times=2)
    assert (code, printed) == (130, "")
    assert "interrupted" in told
    assert "Traceback" not in told
    assert not list(out.iterdir())


def test_a_package_that_is_not_installed_is_told_before_recording(
    out: Path, tools: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, "whole")
    done = cli(*capture(out, nsys, "--", sys.executable, "-m", "no_such_engine.launch_server"))
    assert done.exit_code == 2
    assert "no_such_engine is not installed for this Python" in done.stderr
    assert not list(out.iterdir())


def test_no_nsys_is_told(
    out: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NSYS", raising=False)
    monkeypatch.setattr("traceanalyzer.importers.nsys_command.INSTALL_PATTERNS", ())
    done = cli("capture", "-o", out / "run", *exits(0))
    assert done.exit_code == 2
    assert "no nsys was found to record with" in done.stderr
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--window", "profiler"], "nsys 2022.4.2.1 is too old for --window profiler"),
        (["--graphs", "precapture"], "nsys 2022.4.2.1 is too old for --graphs precapture"),
    ],
)
def test_an_nsys_too_old_for_what_is_asked(
    arguments: list[str], told: str, out: Path, tools: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, "whole", options="--session-new= --cuda-graph-trace=")
    done = cli(*capture(out, nsys, *arguments, *exits(0)))
    assert done.exit_code == 2
    assert told in done.stderr
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--window", "endpoint:1:2"], "not known which address"),
        (["--window", "endpoint:1:2", "--server", "gpu1"], "no http address"),
        (["--window", "endpoint:1"], "no capture window"),
        (["--server", "http://gpu1:1"], "of no use with this window"),
        (["--untraced-check", "fast"], "no http address"),
        (["--untraced-check", "0"], "no number of tokens/s"),
        (["--untraced-check", "-5"], "no number of tokens/s"),
        (["--untraced-check", "nan"], "no number of tokens/s"),
        (["--untraced-check", "inf"], "no number of tokens/s"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    arguments: list[str], told: str, out: Path, tools: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, "whole")
    done = cli(*capture(out, nsys, *arguments, *exits(0)))
    assert done.exit_code == 2
    assert told in done.stderr
    assert not list(out.iterdir())


def test_a_number_stands_beside_what_the_marks_tell(out: Path, tools: Path, cli: Cli) -> None:
    nsys = fake_nsys.install(tools, "whole", export_of(tools))
    done = cli(*capture(out, nsys, "--untraced-check", "2000", *exits(0)))
    assert done.exit_code == 0, done.stderr
    assert "tokens/s: not known traced, 2,000.0 untraced" in done.stdout
    assert "no accept marks" in done.stdout


def test_a_server_that_tells_nothing_is_a_note_and_no_failure(
    out: Path, tools: Path, cli: Cli
) -> None:
    nsys = fake_nsys.install(tools, "whole", export_of(tools))
    done = cli(*capture(out, nsys, "--untraced-check", "http://127.0.0.1:1", *exits(0)))
    assert done.exit_code == 0, done.stderr
    assert "no tokens were counted: http://127.0.0.1:1/metrics did not answer" in done.stdout
    assert "verify" in done.stdout


@pytest.mark.parametrize("trouble", [None, "/start_profile"])
def test_a_window_by_endpoint_from_start_to_report(
    trouble: str | None, out: Path, tools: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_window, "_POLL_S", 0.02)
    monkeypatch.setattr("traceanalyzer.capture.outcome._Settled._SECONDS", 0.1)
    nsys = fake_nsys.install(tools, "when told", export_of(tools))
    program = ["--", sys.executable, "-S", "-c", SERVES, str(tools / "told")]
    pages = {path: page for path, page in ENGINE_PAGES.items() if path != trouble}
    with serving(Engine(pages=pages)) as engine:
        window = ["--window", "endpoint:0:0.1", "--server", engine.url]
        done = cli(*capture(out, nsys, *window, *program))
    assert "Traceback" not in done.stderr
    if trouble:
        assert "the window was not opened or closed" in done.stderr
        assert "start_profile answered 404" in done.stderr
        return
    assert done.exit_code == 0, done.stderr
    assert "verify" in done.stdout
    assert [path for path, _ in engine.posted] == ["/start_profile", "/stop_profile"]
    assert [path.name for path in out.iterdir()] == ["run.nsys-rep"]


@needs_nsys
def test_a_window_that_ends_before_the_program_began_leaves_no_program_behind(
    out: Path, cli: Cli, tools: Path
) -> None:
    told = tools / "pid"
    says_who = (
        "import os, pathlib, time; "
        f"here = pathlib.Path({str(told)!r}); half = here.with_name('half'); "
        "half.write_text(str(os.getpid())); half.rename(here)"
    )
    program = ["--", sys.executable, "-S", "-c", f"{says_who}; time.sleep(600)"]
    cli("capture", "--no-hooks", "--no-cuda", "-o", out / "run", "--window", "time:0:0.1", *program)
    if told.exists():
        assert not is_running(int(told.read_text()))


def is_running(process_id: int) -> bool:
    """Whether a process is there; one that has ended may wait to be fetched."""
    try:
        return ") Z " not in Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@needs_nsys
def test_an_engine_that_never_starts_the_profiler(
    out: Path, cli: Cli, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_window, "_SETTLE_SECONDS", 0.1)
    runs = tools / "runs"
    program = ["--", sys.executable, "-S", "-c", SERVES, str(runs)]
    with serving(Engine(pages=dict(ENGINE_PAGES), program=runs)) as engine:
        window = ["--window", "endpoint:0:0.1", "--server", engine.url]
        done = cli("capture", "--no-hooks", "--no-cuda", "-o", out / "run", *window, *program)
    assert done.exit_code == 2
    assert "nsys left no report" in done.stderr
    assert not list(out.iterdir())
