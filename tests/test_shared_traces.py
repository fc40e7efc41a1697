"""Real traces recorded by others: each imports whole and is reported, whatever it lacks."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.harness import needs_shared, run_cli, shared_folder
from traceanalyzer import Report, analyze, load
from traceanalyzer.renderers.csv_tables import render_csv
from traceanalyzer.renderers.markdown import render_markdown
from traceanalyzer.renderers.terminal import render_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import Trace

pytestmark = needs_shared

# What each file must give beyond its counts: its GPUs' names, and the checks that must warn.
NSYS = {
    "a100_cloverleaf_mpi_2024.5": ({"NVIDIA A100-SXM4-80GB"}, {"coverage", "cycles"}),
    "a100_graph_trace_rows_2024.6": ({"NVIDIA A100-SXM4-80GB"}, {"graphs", "recorder"}),
    "a100_saxpy_two_domains_2022.2": ({"NVIDIA A100-SXM4-40GB"}, {"coverage"}),
    "a100_training_no_nvtx_2024.6": ({"NVIDIA A100-SXM4-80GB"}, {"recorder"}),
    "a100_training_nvtx_2024.6": ({"NVIDIA A100-SXM4-80GB"}, {"recorder"}),
    "h100_two_ranks_mfu_2026.2": (set(), {"launches"}),
    "h100_two_ranks_nccl_2026.2": (set(), {"launches"}),
    "no_kernel_table_no_meta_table": (set(), {"GPU work"}),
    "quadro_no_meta_table": ({"Quadro RTX 6000"}, {"coverage"}),
    "start_end_ranges_no_kernels_2022.4": (set(), {"GPU work"}),
    "training_nvtx_2025.1": ({"NVIDIA GeForce RTX 3070 Ti"}, {"coverage"}),
}
KINETO = {
    "a100_alexnet.json.gz",
    "a100_event_sync_multi_stream.json.gz",
    "a100_graphs_nccl_rank0.json.gz",
    "a100_zoology.json",
    "b200_eager.json.gz",
    "cpu_only.json.gz",
    "mi210_gpu_only.json.gz",
    "mi300x_sglang_capture_bs32.json.gz",
    "mi300x_sglang_decode_one_graph.json.gz",
    "mi300x_vllm_decode_full_graph.json.gz",
    "mi300x_vllm_piecewise_graphs.json.gz",
    "mtia_no_gpu_kernels.json.gz",
    "torch1.8_capitalised_categories.json.gz",
    "v100_graph_429_kernels_per_launch.json.gz",
    "v100_nanosecond_clock.json.gz",
}


def shared_traces(kind: str) -> Path:
    folder = shared_folder()
    assert folder
    return folder / "traces" / kind


def counts_in_nsys(path: Path) -> Counter[str]:
    """Rows by kind, from plain SQL; missing tables count nothing."""
    queries = {
        "kernel": "CUPTI_ACTIVITY_KIND_KERNEL",
        "memcpy": "CUPTI_ACTIVITY_KIND_MEMCPY",
        "memset": "CUPTI_ACTIVITY_KIND_MEMSET",
        "graph": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "launches": "CUPTI_ACTIVITY_KIND_RUNTIME WHERE eventClass IN (0, 1)",
        "ranges": "NVTX_EVENTS WHERE eventType IN (59, 60, 70, 71)",
        "marks": "NVTX_EVENTS WHERE eventType = 34",
        "syncs": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    }
    found: Counter[str] = Counter()
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        for kind, query in queries.items():
            if query.split()[0] in tables:
                found[kind] = database.execute(f"SELECT count(*) FROM {query}").fetchone()[0]
        if "CUPTI_ACTIVITY_KIND_KERNEL" in tables:
            total = "SELECT total(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
            found["kernel_ns"] = int(database.execute(total).fetchone()[0])
    return found


CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_runtime": "launches",
    "cuda_driver": "launches",
    "runtime": "launches",
    "user_annotation": "ranges",
}


def counts_in_kineto(path: Path) -> Counter[str]:
    """Complete events by kind, from plain JSON."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
    content: Any = json.loads(text)
    events = content if isinstance(content, list) else content["traceEvents"]
    kinds = (
        CATEGORIES.get(str(event.get("cat")).lower()) for event in events if event["ph"] == "X"
    )
    return Counter(kind for kind in kinds if kind)


def counts_in(trace: Trace) -> Counter[str]:
    found: Counter[str] = Counter(trace.ops["kind"].to_list())
    for table in ("launches", "ranges", "marks", "syncs"):
        found[table] = getattr(trace, table).height
    return found


def reported(trace: Trace) -> Report:
    """The report, after every form of it was made and the ledger was added up."""
    report = analyze(trace)
    for text in (render_terminal(report, plain=True), render_markdown(report), render_csv(report)):
        assert text
    assert Report.from_json(report.to_json()) == report
    for rank in report.ranks:
        if rank.device:
            shares = [method.share for method in rank.coverage.by_method]
            assert sum(shares) == pytest.approx(1)
            assert sum(phase.ops for phase in rank.phases) > 0
    return report


def test_every_shared_trace_has_an_expectation() -> None:
    assert {path.stem for path in shared_traces("nsys").iterdir()} == set(NSYS)
    assert {path.name for path in shared_traces("kineto").iterdir()} == KINETO


@pytest.mark.parametrize("name", NSYS)
def test_nsys_exports(name: str) -> None:
    path = shared_traces("nsys") / f"{name}.sqlite"
    gpus, warned = NSYS[name]
    trace = load(path)
    report = reported(trace)
    expected = counts_in_nsys(path)
    kernel_ns = expected.pop("kernel_ns", 0)
    assert +counts_in(trace) == +expected
    phases = [phase for rank in report.ranks for phase in rank.phases]
    if trace.ops.height:
        assert sum(phase.kernels for phase in phases) == expected["kernel"]
        assert sum(phase.kernel_ns for phase in phases) == kernel_ns
        assert sum(phase.graph_rows for phase in phases) == expected["graph"]
    assert {rank.device.name for rank in report.ranks if rank.device} - {None} == gpus
    assert warned <= {check.check for check in report.trust if check.status == "warning"}


def test_nsys_versions_are_told() -> None:
    for path in sorted(shared_traces("nsys").iterdir()):
        (version,) = load(path).files["product_version"].to_list()
        if "no_meta_table" in path.name:
            assert version is None
        else:
            year_and_release = path.stem.rpartition("_")[2]
            assert version.startswith(year_and_release)


def test_two_processes_share_ids_and_nothing_else() -> None:
    """264 correlation ids are used by both processes; joining on the id alone mixes them."""
    trace = load(shared_traces("nsys") / "h100_two_ranks_mfu_2026.2.sqlite")
    ids = [
        set(part["correlation_id"].drop_nulls())
        for part in trace.launches.partition_by("process", maintain_order=True)
    ]
    assert len(ids[0] & ids[1]) == 264
    lost = load(shared_traces("nsys") / "h100_two_ranks_nccl_2026.2.sqlite")
    keys = lost.launches.select("process", "correlation_id").unique()
    orphans = lost.ops.filter(pl.col("kind") == "kernel").join(
        keys, on=["process", "correlation_id"], how="anti"
    )
    assert orphans.height == 1810


def test_both_domains_of_the_oldest_export() -> None:
    trace = load(shared_traces("nsys") / "a100_saxpy_two_domains_2022.2.sqlite")
    assert trace.ranges["domain"].n_unique() >= 2


@pytest.mark.parametrize("name", sorted(KINETO))
def test_kineto_traces(name: str) -> None:
    path = shared_traces("kineto") / name
    trace = load(path)
    report = reported(trace)
    expected, found = counts_in_kineto(path), counts_in(trace)
    for kind in ("kernel", "memcpy", "memset", "launches", "ranges"):
        assert found[kind] == expected[kind], kind
    assert report.capture.time_base == ("gpu" if trace.ops.height else "host")


def test_one_command_for_one_of_each(tmp_path: Path) -> None:
    for path in (
        shared_traces("nsys") / "h100_two_ranks_mfu_2026.2.sqlite",
        shared_traces("kineto") / "mi300x_sglang_decode_one_graph.json.gz",
    ):
        output = tmp_path / "report.json"
        result = run_cli("report", path, "-o", output)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
        assert Report.from_json(output.read_bytes()).capture.ops > 0


def test_files_of_no_trace_beside_them_are_refused() -> None:
    result = run_cli("report", shared_traces("captures"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no trace" in result.stderr
