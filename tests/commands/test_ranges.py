"""`traceanalyzer ranges`: its tables for people, spreadsheets and programs."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.exports import GRAPH_TRACE, NVTX, START_END, Export, global_pid, global_tid, served

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Cli

PID = 10
THREAD, PROCESS = global_tid(PID), global_pid(PID)
COLUMNS = "range,style,process_id,thread_id,kernel,range_instances,kernel_instances,total_ns"

HOSTILE = (
    "[bold]x[/]",
    "[/]",
    "\\[/bold]",
    "\\\\[/red]",
    "[link=https://example.org]click[/link]",
    "ends in a backslash\\",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "line\nfeed",
    "carriage\rreturn",
    "tab\tstop",
    "null\x00byte",
    '"quoted"',
    "a,b;c",
    "|pipe|",
    "`tick`",
    "<script>alert(1)</script>",
    "*bold* _it_ ~no~ #1 !",
    "=cmd|' /C calc'!A0",
    "\u202egnp.exe",
    "line\u2028separator",
    " leading and trailing ",
    "käse 奶酪 🧀",
    "n" * 10_000,
    "",
)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A trace with a range and a kernel of each hostile name."""
    export = Export()
    for number, name in enumerate(HOSTILE):
        start = 1000 * number
        export.range(name, start, start + 500, THREAD)
        times = (start + 10, start + 20), (start + 100, start + 200)
        export.launched(name, *times, THREAD, number + 1)
    return export.write_sqlite(tmp_path / "hostile.sqlite")


def test_ranges_with_their_phases_and_times(server: Path, cli: Cli) -> None:
    rows = table(cli("ranges", server, "--format", "csv").stdout)
    assert [row["range"] for row in rows] == ["eagle:verify", "eagle:draft", "eagle:draft_extend"]
    assert rows[1] == {
        "range": "eagle:draft",
        "style": "push_pop",
        "phase": "draft",
        "instances": "10",
        "host_ns": "120000",
        "ops": "20",
        "kernels": "20",
        "gpu_ns": "2000000",
        "cross_thread": "0",
    }


def test_every_form_says_the_same(server: Path, cli: Cli) -> None:
    for kernels in ((), ("--kernels",)):
        rows = table(cli("ranges", server, *kernels, "--format", "csv").stdout)
        objects: list[dict[str, Any]] = json.loads(
            cli("ranges", server, *kernels, "--format", "json").stdout
        )
        assert [{key: str(value) for key, value in row.items()} for row in objects] == rows
        printed = "".join(cli("ranges", server, *kernels).stdout.split())
        assert all(piece in printed for row in rows for piece in row["range"].split("_"))


def test_kernels_have_the_promised_columns(tmp_path: Path, cli: Cli) -> None:
    worker = global_tid(PID, 99)
    export = Export()
    export.domain("eagle", 1, THREAD)
    export.range("outer", 0, 1000, THREAD)
    export.range("verify", 100, 400, THREAD, domainId=1)
    export.range("verify", 500, 900, THREAD, domainId=1)
    export.range("verify", 510, 890, THREAD, domainId=1)  # nested in its like
    export.range("request", 100, 300, worker, eventType=START_END)
    export.launched("gemm<1>", (110, 120), (2000, 2010), THREAD, 1)
    export.launched("gemm<1>", (520, 530), (2020, 2050), THREAD, 2)
    export.launched("gemm<1>", (390, 401), (2100, 2200), THREAD, 3)  # straddles verify's end
    export.launched("other, kernel", (1100, 1110), (3000, 3001), THREAD, 4)
    export.launched("late", (150, 160), (4000, 4007), worker, 5)
    export.call(600, 610, THREAD, 6, "cudaGraphLaunch_v10000")
    export.op(GRAPH_TRACE, 5000, 5500, PROCESS, 6)
    export.kernel(6000, 6002, PROCESS, 77, name="orphan")
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    printed = cli("ranges", path, "--kernels", "--format", "csv").stdout
    assert printed.splitlines()[0] == COLUMNS
    pid = str(PID)
    assert [tuple(row.values()) for row in table(printed)] == [
        ("", "", "", "", "orphan", "0", "1", "2"),
        ("", "", pid, pid, "other, kernel", "0", "1", "1"),
        ("eagle:verify", "push_pop", pid, pid, "[CUDA graph]", "2", "1", "500"),
        ("eagle:verify", "push_pop", pid, pid, "gemm<1>", "3", "2", "40"),
        ("outer", "push_pop", pid, pid, "[CUDA graph]", "1", "1", "500"),
        ("outer", "push_pop", pid, pid, "gemm<1>", "1", "3", "140"),
        ("request", "start_end", pid, "99", "late", "1", "1", "7"),
    ]


@pytest.mark.parametrize("missing", ["ranges", "kernels", "both"])
@pytest.mark.parametrize("form", ["csv", "json", "terminal"])
def test_without_ranges_or_kernels_only_the_header(
    missing: str, form: str, tmp_path: Path, cli: Cli
) -> None:
    export = Export()
    if missing != "both":
        export.launched("gemm", (110, 120), (130, 180), THREAD, 1)
        export.range("verify", 100, 200, THREAD)
        table = NVTX if missing == "ranges" else "CUPTI_ACTIVITY_KIND_KERNEL"
        export.tables[table] = []
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    result = cli("ranges", path, "--kernels", "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    if form == "csv":
        assert result.stdout == COLUMNS + "\n"
    if form == "json":
        assert json.loads(result.stdout) == []
    names = cli("ranges", path, "--format", form)
    assert (names.exit_code, names.stderr) == (0, "")
    assert ("verify" in names.stdout) == (missing == "kernels")


def test_torch_annotations_have_the_same_columns(tmp_path: Path, cli: Cli) -> None:
    from tests.importers.test_loading import torch_trace

    path = torch_trace(tmp_path / "trace.json", 4100)
    lines = cli("ranges", path, "--kernels", "--format", "csv").stdout.splitlines()
    assert lines == [COLUMNS, "verify,annotation,4100,4100,gemm,1,1,5000"]


# Output.


@pytest.mark.parametrize(("name", "form"), [("r.csv", "csv"), ("r.json", "json")])
def test_the_suffix_of_the_output_chooses_the_form(
    name: str, form: str, server: Path, cli: Cli, tmp_path: Path
) -> None:
    """As it does for `report`: a person who asks for r.csv wants to open it as such."""
    wanted = cli("ranges", server, "--format", form).stdout
    assert cli("ranges", server, "-o", tmp_path / name).stdout == ""
    assert (tmp_path / name).read_text() == wanted


def test_output_goes_to_the_file_alone(server: Path, cli: Cli, tmp_path: Path) -> None:
    wanted = cli("ranges", server, "--kernels", "--format", "csv").stdout
    result = cli("ranges", server, "--kernels", "--format", "csv", "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "out").read_text() == wanted


# Hostile names.


@pytest.mark.parametrize("kernels", [(), ("--kernels",)], ids=["names", "kernels"])
def test_hostile_names_come_through_csv_and_json_unchanged(
    hostile: Path, kernels: tuple[str, ...], cli: Cli
) -> None:
    result = cli("ranges", hostile, *kernels, "--format", "csv", "-o", hostile.parent / "out")
    assert result.exit_code == 0
    rows = table((hostile.parent / "out").read_bytes().decode())
    assert {row["range"] for row in rows} == set(HOSTILE)
    assert len(rows) == len(HOSTILE)
    if kernels:
        assert {row["kernel"] for row in rows} == set(HOSTILE)
        assert {row["total_ns"] for row in rows} == {"100"}
    result = cli("ranges", hostile, *kernels, "--format", "json", "-o", hostile.parent / "out")
    objects = json.loads((hostile.parent / "out").read_bytes())
    assert {row["range"] for row in objects} == set(HOSTILE)


@pytest.mark.parametrize("kernels", [(), ("--kernels",)], ids=["names", "kernels"])
def test_hostile_names_do_not_steer_the_terminal(
    hostile: Path, kernels: tuple[str, ...], cli: Cli
) -> None:
    result = cli("ranges", hostile, *kernels)
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(char.isprintable() or char == "\n" for char in result.stdout)
    for text in ("[bold]x[/]", "[link=https://example.org]", "\\[/bold]", "\\\\[/red]"):
        assert text in result.stdout.replace(" ", "").replace("\n", ""), "shown as it is written"


def test_nothing_is_cut_at_the_usual_width(tmp_path: Path, cli: Cli) -> None:
    """Output to a pipe is 110 columns wide: a name as engines have them stays on its line."""
    export = Export()
    export.domain("TensorRT-LLM", 1, THREAD)
    name = "_forward_step 17: 0 ctx reqs, 8 gen reqs"
    export.range(name, 0, 40_000_000_000, THREAD, domainId=1)
    export.launched("gemm", (1, 2), (3, 30_000_000_000), THREAD, 1)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    printed = cli("ranges", path).stdout
    assert f"TensorRT-LLM:{name}" in printed
    assert "29,999.999" in printed or "30,000.000" in printed


def test_a_rule_without_phase_is_shown_as_none(tmp_path: Path, cli: Cli) -> None:
    export = Export()
    served(export)
    export.range("nobody knows", 1, 2, THREAD)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    rows = {row["range"]: row for row in table(cli("ranges", path, "--format", "csv").stdout)}
    assert rows["nobody knows"]["phase"] == ""
    assert rows["eagle:verify"]["phase"] == "verify"


def test_a_row_takes_few_lines(tmp_path: Path, cli: Cli) -> None:
    """Names of real kernels are long; beside them the range must stay readable."""
    kernel = (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
        "flash::CollectiveMainloopFwdSm90<(int)2, cute::tuple<cute::C<(int)1>>>>>>(T1::Params)"
    )
    export = Export()
    export.domain("eagle", 1, THREAD)
    export.range("draft_extend", 0, 1_000_000, THREAD, domainId=1)
    for number in range(10):
        export.launched(f"{kernel} {number}", (1, 2), (3, 4), THREAD, number)
    path = export.write_sqlite(tmp_path / "trace.sqlite")
    lines = cli("ranges", "--kernels", path).stdout.splitlines()
    assert len(lines) <= 2 + 10 * 8
    assert any("eagle:draft_extend" in line for line in lines)
