"""`traceanalyzer report`: its forms, where it writes, and how it looks on a terminal."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import json
import os
import pty
import re
import stat
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands.test_ranges import HOSTILE
from tests.exports import KERNEL, PRE_META, START_END, Export, global_pid, global_tid, served
from tests.harness import REPOSITORY
from tests.other_user import without_rights_of_root

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.commands.conftest import Cli

THREAD, PROCESS = global_tid(10), global_pid(10)
FORMS = ("terminal", "json", "markdown", "csv")
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


# Forms.


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("r.json", "json"),
        ("r.md", "markdown"),
        ("r.csv", "csv"),
        ("r.txt", "terminal"),
        ("r", "terminal"),
    ],
)
def test_the_suffix_of_the_output_chooses_the_form(
    name: str, form: str, server: Path, cli: Cli, tmp_path: Path
) -> None:
    wanted = cli("report", server, "--format", form).stdout
    result = cli("report", server, "-o", tmp_path / name)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / name).read_text() == wanted


def test_a_form_that_is_asked_for_wins_over_the_suffix(
    server: Path, cli: Cli, tmp_path: Path
) -> None:
    cli("report", server, "--format", "csv", "-o", tmp_path / "r.json")
    assert (tmp_path / "r.json").read_text() == cli("report", server, "--format", "csv").stdout


SPREAD = ("mean", "p50", "p5", "p95", "p99")
REPORT = {
    "schema_version",
    "tool",
    "capture",
    "clock",
    "ranks",
    "buckets",
    "acceptance",
    "verdict",
    "findings",
    "trust",
}
PHASE = {
    "phase",
    "ops",
    "kernels",
    "kernel_ns",
    "graph_rows",
    "graph_row_ns",
    "launches",
    "graph_launches",
    "summed_ns",
    "busy_ns",
    "exclusive_ns",
    "overlap_ns",
    "window_ns_per_cycle",
    "gaps",
    "host_lead_ns",
}


def test_json_has_every_key_of_the_definition(server: Path, cli: Cli) -> None:
    report: dict[str, Any] = json.loads(cli("report", server, "--format", "json").stdout)
    assert set(report) >= REPORT
    assert report["schema_version"] == 1
    assert report["tool"]["name"] == "traceanalyzer"
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    for rank in report["ranks"]:
        assert set(rank) >= {"rank", "process_id", "device", "coverage", "cycles", "phases"}
        assert set(rank["device"]) >= {"index", "name"}
        shares = []
        for method in rank["coverage"]["by_method"]:
            assert set(method) >= {"method", "busy_ns", "share"}
            shares.append(method["share"])
        assert sum(shares) == pytest.approx(1)
        assert set(rank["cycles"]["dropped"]) == {"warm_up", "edge", "interrupted", "dummy"}
        assert set(rank["cycles"]["period_ns"]) == set(SPREAD)
        assert [phase["phase"] for phase in rank["phases"]] == ["draft", "verify", "draft_extend"]
        for phase in rank["phases"]:
            assert set(phase) >= PHASE
            assert set(phase["window_ns_per_cycle"]) == set(SPREAD)
            assert set(phase["host_lead_ns"]) >= {"p5", "p50"}
            for gap in phase["gaps"]:
                assert set(gap) >= {"cause", "ns"}
    whole = report["ranks"][0]["phases"]
    assert [phase["kernel_ns"] for phase in whole] == [1_000_000, 2_500_000, 500_000]
    assert [phase["window_ns_per_cycle"]["mean"] for phase in whole] == [200e3, 500e3, 100e3]


def test_json_keeps_whole_nanoseconds(tmp_path: Path, cli: Cli) -> None:
    """Integers beyond 2**53 must not pass through a float."""
    export = Export()
    start = 1_700_000_000_000_000_001
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=start)
    export.range("verify", start, start + 100, THREAD)
    export.launched("gemm", (start + 1, start + 2), (start + 3, start + 4), THREAD, 1)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    report = json.loads(cli("report", path, "--format", "json").stdout)
    assert report["capture"]["files"][0]["start_utc_ns"] == start
    assert report["ranks"][0]["phases"][0]["kernel_ns"] == 1


def test_csv_is_one_row_a_rank_and_phase(server: Path, cli: Cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("report", server, "--format", "csv").stdout)))
    assert [(row["rank"], row["phase"]) for row in rows] == [
        (rank, phase) for rank in "01" for phase in ("draft", "verify", "draft_extend")
    ]
    assert rows[0]["process_id"] == "4100"
    assert rows[1]["kernel_ns"] == "2500000"
    assert rows[1]["window_ns_per_cycle_mean"] == "500000.0"


def test_markdown_tables_are_tables(server: Path, cli: Cli) -> None:
    text = cli("report", server, "--format", "markdown").stdout
    assert_tables(text)
    assert "| verify | 0.5000 | 62.5 % |" in text


def assert_tables(text: str) -> None:
    """Every table row has as many cells as its head."""
    width = 0
    for line in text.splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.sub(r"\\.", "", line).split("|")) - 2
        width = width or cells
        assert cells == width, line


@pytest.mark.parametrize("form", FORMS)
def test_without_gpu_work_the_host_is_timed_and_it_is_said(
    form: str, tmp_path: Path, cli: Cli
) -> None:
    export = Export()
    served(export)
    export.tables[KERNEL] = []
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    result = cli("report", path, "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "verify" in result.stdout
    if form != "csv":
        assert "host" in result.stdout


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", ["nothing", "a range", "a kernel", "0/0"])
def test_hardly_anything_recorded(rows: str, form: str, tmp_path: Path, cli: Cli) -> None:
    export = Export(PRE_META)
    if rows == "a range":
        export.range("verify", 1, 2, THREAD)
    if rows == "a kernel":
        export.kernel(1, 2, PROCESS, 1)
    if rows == "0/0":
        export.launched("gemm", (1, 2), (0, 0), THREAD, 1)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    result = cli("report", path, "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")


# Where it writes.


def test_a_failed_write_leaves_what_was_there(
    server: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up in the middle of the file."""
    folder = tmp_path / "out"
    folder.mkdir()
    output = folder / "r.json"
    output.write_text("the report before")

    def half(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half)
    result = cli("report", server, "-o", output)
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(output) in result.stderr
    assert "No space left" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["r.json"]
    assert output.read_text() == "the report before"


def test_no_room_for_a_file_at_all(server: Path, cli: Cli, tmp_path: Path) -> None:
    """A limit on file sizes, which is met as a full disk is."""
    output = tmp_path / "r.json"
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from traceanalyzer.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "report", server, "-o", output],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(output) in done.stderr
    assert not output.exists()
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "folder", "folder/", "missing/r.json", "n" * 255]
)
def test_outputs_that_cannot_be(
    name: str, server: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    result = cli("report", server.name, "-o", name)
    assert "Traceback" not in result.stderr
    if len(name) == 255:  # the longest that a file system takes
        assert (result.exit_code in (0, 2), result.stdout) == (True, "")
        return
    assert (result.exit_code, result.stdout) == (2, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_folder_that_may_not_be_written(server: Path, cli: Cli, tmp_path: Path) -> None:
    cli("report", server, "-o", tmp_path / "r.md")  # imports what is needed
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    server.chmod(0o644)
    with without_rights_of_root(tmp_path):
        result = cli("report", server, "-o", folder / "r.md")
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(folder / "r.md") in result.stderr
    assert "may be written to" in result.stderr
    assert list(folder.iterdir()) == []


def test_the_trace_is_never_overwritten(server: Path, cli: Cli, tmp_path: Path) -> None:
    """`-o *.sqlite` names the first trace as the output of the others."""
    other = tmp_path / "other.sqlite"
    export = Export()
    served(export)
    export.write_sqlite(other)
    link = tmp_path / "link.sqlite"
    link.symlink_to(server)
    for given, output in (([server], server), ([server, other], other), ([server], link)):
        before = output.read_bytes()
        result = cli("report", *given, "-o", output)
        assert output.read_bytes() == before
        assert result.exit_code == 2
        assert str(output) in result.stderr
        result = cli("ranges", *given, "--format", "csv", "-o", output)
        assert output.read_bytes() == before
        assert result.exit_code == 2


def test_special_files_are_written_to_and_never_replaced(
    server: Path, cli: Cli, tmp_path: Path
) -> None:
    """As root, `-o /dev/null` would otherwise put a file in the place of the device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    result = cli("report", server, "--format", "csv", "-o", pipe)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert result.exit_code in (0, 2)
    if result.exit_code == 0:
        assert os.read(reader, 100).startswith(b"rank,")
    os.close(reader)


def test_a_link_to_the_output_stays_a_link(server: Path, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "target.md"
    target.write_text("before")
    link = tmp_path / "latest.md"
    link.symlink_to("target.md")
    assert cli("report", server, "-o", link).exit_code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("# Trace report")


def test_an_existing_file_is_replaced_as_a_whole(server: Path, cli: Cli, tmp_path: Path) -> None:
    output = tmp_path / "r.csv"
    output.write_text("x" * 100_000)
    output.chmod(0o640)
    assert cli("report", server, "-o", output).exit_code == 0
    assert "x" * 10 not in output.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_report_is_written_when_the_gate_fails(server: Path, cli: Cli, tmp_path: Path) -> None:
    export = Export()
    export.launched("outside", (1, 2), (3, 4), THREAD, 1)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    output = tmp_path / "r.json"
    assert cli("report", path, "--min-coverage", "0.9", "-o", output).exit_code == 3
    assert json.loads(output.read_text())["coverage"]["covered_share"] == 0


# Hostile texts.


@pytest.fixture
def hostile_report(tmp_path: Path) -> Path:
    """A trace with odd texts wherever a report shows one."""
    export = Export()
    served(export)
    for number, text in enumerate(HOSTILE):
        process_id = 5000 + number
        export.add("PROCESSES", globalPid=global_pid(process_id), pid=process_id, name=text)
        export.kernel(number, number + 1, global_pid(process_id), 1, name=text)
        export.range(text, number, number + 1, global_tid(process_id), eventType=START_END)
        lost = f"Not all CUDA events might have been collected. {text}"
        export.add("DIAGNOSTIC_EVENT", severity=2, source=1, text=lost)
        device = {"gpuId": number, "cudaId": 0, "pid": process_id}
        export.add("TARGET_INFO_GPU", vmId=0, id=number, cuDevice=number, name=text)
        export.add("TARGET_INFO_CUDA_DEVICE", **device)
    for key, text in (("NAME", "[red]N\\[/]"), ("VERSION", "\x1b[31m\\[/] 1")):
        export.add("META_DATA_EXPORT", name=f"EXPORT_PRODUCT_{key}", value=text)
    folder = tmp_path / "[b]o|d`d\x1b[31m\\[b]\n<i>"
    folder.mkdir()
    return export.write_sqlite(folder / "tr[red]ace\\.sqlite")


@pytest.mark.parametrize("form", FORMS)
def test_hostile_texts_break_no_form(form: str, hostile_report: Path, cli: Cli) -> None:
    result = cli("report", hostile_report, "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    if form in ("terminal", "markdown"):
        assert all(char.isprintable() or char == "\n" for char in result.stdout)
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", result.stdout) or form == "csv"
    if form == "json":
        report = json.loads(result.stdout)
        assert report["capture"]["files"][0]["path"] == str(hostile_report)
        assert {rank["process_name"] for rank in report["ranks"]} >= set(HOSTILE)
    if form == "csv":
        rows = list(csv.reader(io.StringIO(result.stdout)))
        assert len({len(row) for row in rows}) == 1
    if form == "markdown":
        assert_tables(result.stdout)
        assert "<script>" not in re.sub(r"`[^`]*`", "", result.stdout).replace("\\<", "")
    if form == "terminal":
        assert "[bold]x[/]" in result.stdout
        assert "tr[red]ace\\.sqlite" in result.stdout.replace("\n", "")


# On a terminal.


_WITH_PATIENCE = (
    "import traceanalyzer.commands.progress_bar as bar\n"
    "bar._PATIENCE_S = {}\n"
    "from traceanalyzer.__main__ import main\n"
    "main()\n"
)
PATIENT = _WITH_PATIENCE.format("float('inf')")
IMPATIENT = _WITH_PATIENCE.format(0)


def on_terminal(
    columns: int, *arguments: str | Path, env: Mapping[str, str] | None = None, code: str = PATIENT
) -> tuple[int, str]:
    """Exit code and output on a terminal of so many columns; `PATIENT` shows no progress bar."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    quiet = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**quiet, "TERM": "xterm-256color", "PYTHONPATH": path, **(env or {})},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    pieces = []
    while True:
        try:
            pieces.append(os.read(master, 1 << 16))
        except OSError:
            break
        if not pieces[-1]:
            break
    os.close(master)
    return process.wait(), b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [40, 200])
def test_colour_and_width_on_a_terminal(columns: int, server: Path) -> None:
    code, shown = on_terminal(columns, "report", server)
    assert code == 0
    assert "\x1b[" in shown
    plain = ANSI.sub("", shown)
    assert all(char.isprintable() or char == "\n" for char in plain)
    assert max(len(line) for line in plain.splitlines()) <= columns
    assert "Can it be trusted?" in plain
    assert "verify" in plain


@pytest.mark.parametrize("command", ["report", "ranges"])
def test_no_figure_is_cut_off_on_a_terminal_of_80_columns(command: str, tmp_path: Path) -> None:
    """Half a number is a wrong number, and one cannot write a rule for half a name.

    Times here are as long as those of a capture of some minutes.
    """
    export = Export()
    served(export)
    export.range("verify", 100, 200, THREAD)
    times = (110, 120), (130, 98_765_432_100_000)
    export.launched("long_kernel", *times, THREAD, 1)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    code, shown = on_terminal(80, command, path)
    plain = ANSI.sub("", shown)
    assert (code, max(len(line) for line in plain.splitlines()) <= 80) == (0, True)
    assert "\x1b[" in shown
    assert "…" not in plain
    assert "98,765,432.1" in plain
    assert ("eagle:draft_extend" if command == "ranges" else "draft_extend") in plain


def test_colour_can_be_switched_off(server: Path) -> None:
    code, shown = on_terminal(80, "report", server, env={"NO_COLOR": "1"})
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m|38;", shown)


def test_a_file_from_a_terminal_is_plain(server: Path, tmp_path: Path) -> None:
    code, shown = on_terminal(40, "report", server, "-o", tmp_path / "r.txt")
    assert (code, shown) == (0, "")
    assert "\x1b" not in (tmp_path / "r.txt").read_text()


def test_a_progress_bar_on_a_terminal_alone(server: Path) -> None:
    code, shown = on_terminal(80, "report", server, code=IMPATIENT)
    assert code == 0
    assert "reading tables" in shown
    # The bar is gone before the report comes, and the cursor is back.
    report = shown.rindex("Can it be trusted?")
    assert "reading tables" not in shown[report:]
    assert shown.count("\x1b[?25h") == shown.count("\x1b[?25l")
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT, "report", server],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    assert b"reading tables" not in done.stdout


def test_an_error_after_the_progress_bar_is_readable(server: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(server.read_bytes()[:9000])
    other = tmp_path / "other.sqlite"
    other.write_bytes(server.read_bytes()[:9500])
    code, shown = on_terminal(80, "report", broken, other, code=IMPATIENT)
    assert code == 2
    assert f"traceanalyzer: {broken}" in shown
    assert shown.count("\x1b[?25h") == shown.count("\x1b[?25l")
