"""From paths to one Trace: what is recognised, which files are ranks, and what is refused."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.exports import PRE_META, Export, described, global_pid, global_tid, served
from tests.other_user import without_rights_of_root
from traceanalyzer import InputError, Trace, analyze, load

REPORT_HEADER = b"NVIDIA Tegra Profiler Report 2099@1@1@7-000000v0\n"


def nsys_export(path: Path, process_id: int = 4100, *, rank: int | None = None) -> Path:
    """One rank's SQLite export; its process says its rank only when one is given."""
    export = Export(PRE_META)
    served(export, process_id)
    if rank is not None:
        name = f"sglang::scheduler_TP{rank}"
        export.add("PROCESSES", globalPid=global_pid(process_id), pid=process_id, name=name)
    return export.write_sqlite(path)


def torch_trace(path: Path, process_id: int = 4100, *, rank: int | None = None) -> Path:
    """One rank's torch.profiler trace."""
    event = {"ph": "X", "pid": process_id, "tid": process_id}
    kernel = {"correlation": 1, "device": 0, "stream": 7}
    content: dict[str, Any] = {
        "schemaVersion": 1,
        "traceEvents": [
            {**event, "cat": "user_annotation", "name": "verify", "ts": 1, "dur": 10},
            {
                **event,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": 2,
                "dur": 1,
                "args": {"correlation": 1},
            },
            {
                "ph": "X",
                "pid": 0,
                "tid": 7,
                "cat": "kernel",
                "name": "gemm",
                "ts": 20,
                "dur": 5,
                "args": kernel,
            },
        ],
    }
    if rank is not None:
        content["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 8}
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def ranks(trace: Trace) -> list[tuple[int, int]]:
    """Rank and process id of each rank of the report."""
    return [(rank.rank, rank.process_id) for rank in analyze(trace).ranks]


# What is recognised.


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    assert load(nsys_export(tmp_path / "a.json")).files["format"].to_list() == ["nsys-sqlite"]
    assert load(torch_trace(tmp_path / "b.sqlite")).files["format"].to_list() == ["torch-profiler"]
    zipped = torch_trace(tmp_path / "c.json.gz").rename(tmp_path / "c.nsys-rep")
    assert load(zipped).files["format"].to_list() == ["torch-profiler"]
    export = Export()
    served(export)
    folder = export.write_parquet(tmp_path / "d.sqlite")
    assert load(folder).files["format"].to_list() == ["nsys-parquet"]


def test_every_kind_of_path_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = nsys_export(tmp_path / "a.sqlite")
    monkeypatch.chdir(tmp_path)
    for given in (
        path,
        str(path),
        "a.sqlite",
        Path("a.sqlite"),
        [path],
        (str(path),),
        iter([path]),
    ):
        assert load(given).ops.height == 20
    (tmp_path / "link").symlink_to("a.sqlite")
    assert load("link").files["path"].to_list() == ["link"]


def test_no_paths_at_all() -> None:
    with pytest.raises(InputError):
        load([])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (b"hello", "not known"),
        (b"\0" * 10_000, "not known"),
        (b"[1, 2, 3]", "not known"),
        (b'{"tool": {"name": "traceanalyzer"}}', "not known"),
        (b"\x1f\x8b", "not known"),
        (gzip.compress(b"SQLite format 3\0", mtime=0), "not known"),
        (b"PAR1 something PAR1", "not known"),
    ],
)
def test_other_files_are_refused(content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    path.write_bytes(content)
    with pytest.raises(InputError, match=what) as caught:
        load(path)
    assert caught.value.where == str(path)
    assert ".nsys-rep" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    "name", ["pipe", "loop", "nowhere", "missing", "missing/deeper", "pipe/deeper", "a" * 300]
)
def test_things_that_are_no_files(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("missing")
    with pytest.raises(InputError) as caught:
        load(tmp_path / name)
    assert caught.value.where == str(tmp_path / name)


def test_device_files_do_not_hang() -> None:
    for name in ("/dev/null", "/dev/zero"):
        with pytest.raises(InputError):
            load(name)


@pytest.mark.parametrize("what", ["file", "folder", "file in it", "child"])
def test_no_permission(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    path = nsys_export(folder / "trace.sqlite")
    ranks(load(path))  # imports all there is, which another user may be unable to do
    folder.chmod(0o755 if what in ("file", "child") else 0)
    path.chmod(0)
    given = path if what in ("file", "file in it") else folder
    try:
        with without_rights_of_root(tmp_path), pytest.raises(InputError) as caught:
            load(given)
    finally:
        folder.chmod(0o755)
    assert caught.value.where in (str(given), str(path))


# Folders and ranks.


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trace") as caught:
        load(tmp_path)
    assert caught.value.where == str(tmp_path)
    assert caught.value.next_step


def test_a_folder_of_nothing_we_know(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "config.json").write_text('{"a": 1}')
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "deeper").mkdir()
    nsys_export(tmp_path / "deeper" / "rank0.sqlite")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no trace"):
        load(tmp_path)


def test_other_files_in_a_folder_are_passed_over(tmp_path: Path) -> None:
    nsys_export(tmp_path / "rank0.sqlite")
    (tmp_path / "rank0.log").write_text("hello")
    (tmp_path / "report.json").write_bytes(analyze(load(tmp_path / "rank0.sqlite")).to_json())
    (tmp_path / "empty.sqlite").touch()
    (tmp_path / "itself").symlink_to(".")
    assert load(tmp_path).files["path"].to_list() == [str(tmp_path / "rank0.sqlite")]


def test_a_database_of_something_else_in_a_folder(tmp_path: Path) -> None:
    """A coverage file or a browser's database says nothing about the trace beside it."""
    nsys_export(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(tmp_path / ".coverage")) as database, database:
        database.execute("CREATE TABLE arc (id INTEGER)")
    assert load(tmp_path).ops.height == 20


def test_ranks_that_processes_state(tmp_path: Path) -> None:
    """The file's own metadata wins over its name."""
    for name, process_id, rank in (("rank0", 11, 6), ("rank1", 10, 2)):
        nsys_export(tmp_path / f"{name}.sqlite", process_id, rank=rank)
    assert ranks(load(tmp_path)) == [(6, 11), (2, 10)]


def test_ranks_that_torch_states(tmp_path: Path) -> None:
    for name, process_id, rank in (("a", 11, 6), ("b", 10, 2)):
        torch_trace(tmp_path / f"{name}.json", process_id, rank=rank)
    assert ranks(load(tmp_path)) == [(6, 11), (2, 10)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["rank0", "rank1"], [0, 1]),
        (["rank_1", "rank_2", "rank_10"], [1, 2, 10]),
        (["rank-3", "rank-7"], [3, 7]),
        (["report_TP3", "report_TP5"], [3, 5]),
        (["out_0", "out_1"], [0, 1]),
        (["out_2", "out_9", "out_10"], [2, 9, 10]),
        (["run7_gpu0", "run7_gpu1"], [0, 1]),
        (["node0_rank4", "node1_rank2"], [4, 2]),
        (["llama_tp8_rank3", "llama_tp8_rank5"], [3, 5]),
        (["llama_dp0_tp1", "llama_dp0_tp0"], [1, 0]),
        (["a", "b"], [0, 1]),
        (["a_rank1", "b_rank1"], [0, 1]),
    ],
    ids=lambda value: "+".join(map(str, value)),
)
def test_ranks_that_names_tell(names: list[str], expected: list[int], tmp_path: Path) -> None:
    for number, name in enumerate(names):
        nsys_export(tmp_path / f"{name}.sqlite", 4100 + number)
    found = {process_id - 4100: rank for rank, process_id in ranks(load(tmp_path))}
    assert [found[number] for number in range(len(names))] == expected


def test_files_come_in_natural_order(tmp_path: Path) -> None:
    for name in ("rank_10", "rank_2", "rank_1", "²"):  # the last is a digit, but no int()
        nsys_export(tmp_path / name)
    names = [Path(path).name for path in load(tmp_path).files["path"]]
    assert names == ["rank_1", "rank_2", "rank_10", "²"]


def test_formats_may_be_mixed(tmp_path: Path) -> None:
    nsys_export(tmp_path / "rank0.sqlite", 10)
    torch_trace(tmp_path / "rank1.json", 11)
    export = Export(PRE_META)
    served(export, 12)
    export.write_parquet(tmp_path / "rank2_pqtdir")
    trace = load(tmp_path)
    assert trace.files["format"].to_list() == ["nsys-sqlite", "torch-profiler", "nsys-parquet"]
    assert ranks(trace) == [(0, 10), (1, 11), (2, 12)]


def test_several_paths_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    nsys_export(folder / "rank1.sqlite", 11)
    nsys_export(folder / "rank2.sqlite", 12)
    single = nsys_export(tmp_path / "rank0.sqlite", 10)
    assert ranks(load([folder, single])) == [(1, 11), (2, 12), (0, 10)]


def test_one_bad_file_among_several_is_named(tmp_path: Path) -> None:
    good = nsys_export(tmp_path / "rank0.sqlite")
    bad = tmp_path / "rank1.sqlite"
    bad.write_bytes(good.read_bytes()[:2000])
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert caught.value.where == str(bad)


def test_the_same_file_twice_is_one_rank(tmp_path: Path) -> None:
    """Given by mistake, as `trace.sqlite *.sqlite` does: ops must not count double, unsaid."""
    path = nsys_export(tmp_path / "rank0.sqlite")
    try:
        trace = load([path, tmp_path, tmp_path / "." / "rank0.sqlite"])
    except InputError as error:
        assert error.where is not None  # noqa: PT017  refusing is as good
        return
    assert trace.ops.height == 20


# Reports and their exports.


def test_a_report_beside_its_export_counts_once(tmp_path: Path) -> None:
    for rank in (0, 1):
        report = tmp_path / f"rank{rank}.nsys-rep"
        report.write_bytes(REPORT_HEADER)
        os.utime(report, (time.time() - 100,) * 2)
        nsys_export(tmp_path / f"rank{rank}.sqlite", 4100 + rank)
    trace = load(tmp_path)
    assert trace.files.height == 2
    assert ranks(trace) == [(0, 4100), (1, 4101)]


def test_both_exports_of_a_report_count_once(tmp_path: Path) -> None:
    export = Export(PRE_META)
    served(export)
    export.write_sqlite(tmp_path / "rank0.sqlite")
    export.write_parquet(tmp_path / "rank0_pqtdir")
    assert load(tmp_path).ops.height == 20


def test_an_export_older_than_its_report_is_not_the_report(tmp_path: Path) -> None:
    """The report was recorded again: the export beside it is of the run before."""
    export = nsys_export(tmp_path / "rank0.sqlite")
    os.utime(export, (time.time() - 1000,) * 2)
    (tmp_path / "rank0.nsys-rep").write_bytes(REPORT_HEADER)
    with pytest.raises(InputError) as caught:  # there is no nsys of 2099 to export it
        load(tmp_path)
    assert "rank0.nsys-rep" in str(caught.value)


# Joining.


def test_processes_of_different_files_stay_apart(tmp_path: Path) -> None:
    """Equal process, thread and correlation ids in two files mean nothing to each other."""
    thread, process = global_tid(10), global_pid(10)
    first, second = Export(PRE_META), Export(PRE_META)
    first.range("verify", 100, 200, thread)
    first.call(110, 120, thread, 1)
    first.kernel(130, 180, process, 2, name="no call here")
    second.range("draft", 100, 200, thread)
    second.call(110, 120, thread, 2)
    second.kernel(130, 180, process, 2, name="drafted")
    first.write_sqlite(tmp_path / "rank0.sqlite")
    second.write_sqlite(tmp_path / "rank1.sqlite")
    trace = load(tmp_path)
    assert trace.processes["process_id"].to_list() == [10, 10]
    report = analyze(trace)
    found = {
        rank.rank: [(each.phase, each.kernels) for each in rank.phases] for rank in report.ranks
    }
    assert found == {0: [("unattributed", 1)], 1: [("draft", 1)]}


def test_a_joined_trace_holds_what_the_parts_hold(tmp_path: Path) -> None:
    paths = [
        nsys_export(tmp_path / "rank0.sqlite", 10),
        torch_trace(tmp_path / "rank1.json", 11),
        nsys_export(tmp_path / "rank2.sqlite", 10),
    ]
    parts = [load(path) for path in paths]
    whole = load(paths)
    for table in ("ops", "launches", "ranges", "marks", "syncs", "devices", "threads"):
        expected = [row for part in parts for row in described(part, table)]
        assert described(whole, table) == expected, table
    assert whole.files["path"].to_list() == [str(path) for path in paths]
    assert whole.threads["process"].to_list() == [0, 1, 2]
    assert whole.names["text"].is_unique().all()
    assert whole.diagnostics["file"].is_in([0, 1, 2]).all()


def test_loading_leaves_the_folder_alone(tmp_path: Path) -> None:
    nsys_export(tmp_path / "rank0.sqlite")
    torch_trace(tmp_path / "rank1.json.gz")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    load(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    shutil.rmtree(tmp_path)
