"""Exit codes 0, 2, 3 and 130, errors that a person can act on, and never a traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.exports import Export, global_pid, global_tid, served
from tests.harness import REPOSITORY, run_cli

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Cli

THREAD, PROCESS = global_tid(10), global_pid(10)


def start(*arguments: str | Path, **options: object) -> subprocess.Popen[bytes]:
    """Start the command line and leave its streams to the test."""
    path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "traceanalyzer", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **streams)  # type: ignore[call-overload]


def test_done(server: Path, cli: Cli) -> None:
    for arguments in (("report", server), ("ranges", server), ("ranges", "--kernels", server)):
        result = cli(*arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "verify" in result.stdout


def test_help_and_version(cli: Cli) -> None:
    for arguments in (("--help",), ("-h",), ("report", "--help"), ("ranges", "-h")):
        result = cli(*arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "Usage: " in result.stdout
    listed = cli("--help").stdout
    assert "report" in listed
    assert "ranges" in listed


def test_version_without_an_installed_package() -> None:
    """From a checkout, as tests and `python -m traceanalyzer` run it."""
    from traceanalyzer import __version__

    result = run_cli("--version")
    assert (result.exit_code, result.stderr) == (0, "")
    assert __version__ in result.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Usage"),
        (("reprot", "TRACE"), "reprot"),
        (("report",), "TRACE"),
        (("report", "--frobnicate", "TRACE"), "--frobnicate"),
        (("report", "--format", "xml", "TRACE"), "xml"),
        (("report", "--min-coverage", "95", "TRACE"), "--min-coverage"),
        (("report", "--min-coverage", "-0.1", "TRACE"), "--min-coverage"),
        (("report", "--min-coverage", "high", "TRACE"), "--min-coverage"),
        (("report", "--min-coverage", "nan", "TRACE"), "--min-coverage"),
        (("report", "--min-coverage", "", "TRACE"), "--min-coverage"),
        (("report", "TRACE", "-o"), "-o"),
        (("ranges", "TRACE", "--format", "html"), "html"),
        (("report", "missing.sqlite"), "missing.sqlite"),
        (("report", "TRACE", "missing.sqlite"), "missing.sqlite"),
        (("report", "a" * 300), "aaa"),
        (("report", ""), "no such file"),
        (("report", "-"), "-"),
        (("report", "/dev/null"), "/dev/null"),
        (("report", "TRACE", "--phases", "missing.toml"), "missing.toml"),
        (("report", "TRACE", "--phases", "TRACE"), "TRACE"),
        (("report", "TRACE", "--phases", "."), "."),
        (("ranges", "TRACE", "--phases", "missing.toml"), "missing.toml"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_bad_usage_and_input(
    arguments: tuple[str, ...],
    told: str,
    server: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(server.parent)
    given = [server.name if text == "TRACE" else text for text in arguments]
    result = cli(*given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told.replace("TRACE", server.name if "TRACE" in given else "TRACE") in result.stderr or (
        told == "TRACE" and server.name in result.stderr
    )
    assert "Traceback" not in result.stderr


def test_errors_name_what_where_and_the_next_step(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    result = cli("report", path)
    assert result.exit_code == 2
    first, *rest = result.stderr.splitlines()
    assert first == f"traceanalyzer: {path}: the format is not known"
    assert ".nsys-rep" in "".join(rest)


def test_errors_do_not_steer_the_terminal(cli: Cli, tmp_path: Path) -> None:
    result = cli("report", tmp_path / "\x1b[2J\x1b]0;title\x07\r\x9b31m.sqlite")
    assert result.exit_code == 2
    assert all(char.isprintable() or char == "\n" for char in result.stderr)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("[[rule]]\nname = '('\nphase = 'verify'", "("),
        ("[[rule]]\nname = 'x'\nphase = 'verifies'", "verifies"),
        ("[[rule]]\nphase = 'verify'", "name"),
        ("[[rule]]\nname = 'x'\ncolour = 'red'", "colour"),
        ("rule = 5", "rule"),
        ("= nonsense", "rules.toml"),
    ],
)
def test_wrong_rules_are_told_before_traces_are_read(
    rules: str, told: str, tmp_path: Path, cli: Cli
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(rules)
    for command in ("report", "ranges"):
        result = cli(command, "--phases", path, tmp_path / "missing.sqlite")
        assert (result.exit_code, result.stdout) == (2, "")
        assert str(path) in result.stderr
        assert told in result.stderr
        assert "missing.sqlite" not in result.stderr


def test_rules_of_a_user_are_used(tmp_path: Path, cli: Cli) -> None:
    export = Export()
    export.range("my forward", 100, 200, THREAD)
    export.launched("gemm", (110, 120), (130, 180), THREAD, 1)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'my forward'\nphase = 'verify'\n")
    assert "verify" not in cli("ranges", path).stdout
    assert "verify" in cli("ranges", path, "--phases", rules).stdout
    assert cli("report", path, "--min-coverage", "1").exit_code == 3
    assert cli("report", path, "--min-coverage", "1", "--phases", rules).exit_code == 0


@pytest.mark.parametrize(
    ("asked", "code"), [("0", 0), ("0.4", 0), ("0.5", 0), ("0.500001", 3), ("1", 3)]
)
def test_the_coverage_gate(asked: str, code: int, tmp_path: Path, cli: Cli) -> None:
    """Half of the busy time is launched in a range; at the border the gate is open."""
    export = Export()
    export.range("verify", 100, 200, THREAD)
    export.launched("inside", (110, 120), (1000, 1500), THREAD, 1)
    export.launched("outside", (300, 310), (2000, 2500), THREAD, 2)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    result = cli("report", path, "--min-coverage", asked)
    assert result.exit_code == code
    assert "Can it be trusted?" in result.stdout, "the report itself is printed in any case"
    assert ("50.00%" in result.stderr) == (code == 3)
    assert ("traceanalyzer ranges" in result.stderr) == (code == 3)


def test_the_gate_of_a_capture_without_gpu_work(tmp_path: Path, cli: Cli) -> None:
    export = Export()
    export.range("verify", 100, 200, THREAD)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    assert cli("report", path, "--min-coverage", "0.1").exit_code == 3
    assert cli("report", path, "--min-coverage", "0").exit_code == 0


def test_an_unexpected_file_system_error_is_told(cli: Cli, tmp_path: Path) -> None:
    """A file that vanishes or breaks while it is read."""
    folder = tmp_path / "folder.sqlite"
    folder.mkdir()
    result = cli("report", folder)
    assert result.exit_code == 2
    assert str(folder) in result.stderr


# Streams and signals, in a process of their own.


@pytest.fixture
def long_table(tmp_path: Path) -> Path:
    """A trace whose range table does not fit a pipe's buffer."""
    export = Export()
    for number in range(1200):
        name = f"range number {number} " + "x" * 80
        export.range(name, number * 10, number * 10 + 9, THREAD)
    export.launched("gemm", (1, 2), (3, 4), THREAD, 1)
    return export.write_sqlite(tmp_path / "long.sqlite")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_reader_that_goes_is_no_error(long_table: Path, form: str) -> None:
    process = start("ranges", long_table, "--format", form)
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() in (0, 128 + signal.SIGPIPE, -signal.SIGPIPE)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("command", ["report", "ranges"])
def test_a_full_disk_behind_standard_output(server: Path, command: str) -> None:
    with open("/dev/full", "wb") as full:
        process = start(command, server, stdout=full)
        _, errors = process.communicate()
    assert b"Traceback" not in errors
    assert b"No space left" in errors
    assert process.returncode == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams(server: Path, closed: str) -> None:
    path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m traceanalyzer report "$1" {closed}', sys.executable, server],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 2)
    if closed == "<&-":
        assert done.returncode == 0
        assert b"verify" in done.stdout


def test_interrupted_while_reading(tmp_path: Path) -> None:
    """While nsys exports, which can take minutes: its process ends with ours."""
    nsys = tmp_path / "nsys"
    started = tmp_path / "started"
    nsys.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        '*--version*) echo "NVIDIA Nsight Systems version 2030.1.1.1-0" ;;\n'
        '*--help*) echo "--lazy= --output= --tables= --type= sqlite, parquetdir" ;;\n'
        f'*) touch "{started}"; exec sleep 60 ;;\n'
        "esac\n"
    )
    nsys.chmod(0o755)
    trace = tmp_path / "trace.nsys-rep"
    trace.write_bytes(b"NVIDIA Tegra Profiler Report 2025@3@2@474-2532\n" + b"\0" * 100)
    process = start("report", trace, "--nsys", nsys)
    deadline = time.monotonic() + 30
    while not started.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert started.exists(), process.communicate()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert errors.strip() == b"interrupted"


def test_interrupted_at_the_start(server: Path) -> None:
    """Before anything is imported: Ctrl-C right after the command."""
    code = (
        "import os, signal, sys, traceanalyzer.__main__ as m\n"
        "class Hook:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'traceanalyzer.commands':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Hook())\n"
        "m.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "report", server],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 130


def test_nothing_on_standard_error_when_all_is_well(server: Path) -> None:
    result = run_cli("report", server)
    assert (result.exit_code, result.stderr) == (0, "")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stdout)


def test_many_files_at_once(tmp_path: Path, cli: Cli) -> None:
    for rank in range(9):
        export = Export()
        served(export, 100 + rank, rank=rank)
        export.write_sqlite(tmp_path / f"rank{rank}.sqlite")
    result = cli("report", *sorted(tmp_path.glob("*.sqlite")))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "and 8 more" in result.stdout
    assert "9 ranks" in result.stdout
