"""A run's ranks on a real Dask cluster of this machine, from which workers are taken."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.errors import InputError
from traceanalyzer.importers import FilePart, load
from traceanalyzer.pipeline import analyze
from traceanalyzer.pipeline.cluster import Cluster
from traceanalyzer.pipeline.files import Run, analyze_files
from traceanalyzer.pipeline.workers import WorkerDied
from traceanalyzer.simulation import Eagle3Settings, eagle3_server, write_kineto
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distributed import LocalCluster

RANKS = 64


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("run")
    settings = replace(Eagle3Settings.small(), ranks=RANKS, cycles=5, warm_up_cycles=1)
    recording = eagle3_server(settings)
    found = []
    for number, process in enumerate(recording.processes):
        found.append(folder / f"rank_{number}.json")
        write_kineto(recording, found[-1], process)
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as found:
        yield found


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that were killed take their time to come back where the machine is busy."""
    monkeypatch.setattr("traceanalyzer.pipeline.cluster._PATIENCE_S", 120)


def parts(files: list[Path]) -> list[FilePart]:
    return [FilePart(file) for file in files]


def kill_one(cluster: LocalCluster) -> None:
    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)


def test_64_ranks_are_told_as_one_process_tells_them_though_a_worker_is_killed(
    files: list[Path], cluster: LocalCluster
) -> None:
    serial = analyze(load(files)).to_json()
    submitted = threading.Semaphore(0)

    class Watched(Cluster):
        def submit(self, work, /, *arguments):  # type: ignore[no-untyped-def]
            found = super().submit(work, *arguments)
            submitted.release()
            return found

    def kill_in_the_middle() -> None:
        for _ in range(RANKS):
            submitted.acquire()
        kill_one(cluster)

    killer = threading.Thread(target=kill_in_the_middle, daemon=True)
    killer.start()
    with Watched(cluster.scheduler_address) as watched:
        report = analyze_files(parts(files), Run(), Known(), watched)
    assert not killer.is_alive()
    assert report.to_json() == serial


def test_a_file_that_cannot_be_read_is_one_named_missing_rank(
    files: list[Path], cluster: LocalCluster, tmp_path: Path
) -> None:
    few = files[:3]
    broken = tmp_path / "rank_1.json"
    broken.write_bytes(files[1].read_bytes()[:1])
    with Cluster(cluster.scheduler_address) as there:
        report = analyze_files(parts([few[0], broken, few[2]]), Run(), Known(), there)
    (missing,) = [check for check in report.trust if check.check == "missing rank"]
    assert "rank_1.json" in missing.text
    assert {rank.rank for rank in report.ranks} == {0, 2}


def test_what_workers_die_of_again_and_again_is_told_as_that(cluster: LocalCluster) -> None:
    with Cluster(cluster.scheduler_address) as there:
        doomed = there.submit(os._exit, 1)
        with pytest.raises(WorkerDied, match="workers were lost"):
            doomed.result()


ADDRESSES = ["tcp://127.0.0.1:1", "nonsense", "", "tcp://", "http://127.0.0.1:1", "a:99999"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_nobody_there_is_an_error_with_a_next_step(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traceanalyzer.pipeline.cluster._PATIENCE_S", 1)
    with pytest.raises(InputError, match="no Dask scheduler") as refused:
        Cluster(address)
    assert refused.value.next_step is not None


def test_a_port_that_says_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceanalyzer.pipeline.cluster._PATIENCE_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(InputError, match="no Dask scheduler answers: timed out"):
            Cluster(f"127.0.0.1:{port}")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"address": 5}', '{"address": "nobody"}'])
def test_a_file_that_no_scheduler_wrote_is_an_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(text)
    with pytest.raises(InputError, match="no Dask scheduler"):
        Cluster(str(file))


def test_a_scheduler_file_tells_the_address(cluster: LocalCluster, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": cluster.scheduler_address}))
    with Cluster(str(file)) as there:
        assert there.submit(sum, [1, 2]).result() == 3


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match="not installed") as refused:
        Cluster("tcp://127.0.0.1:8786")
    assert refused.value.next_step is not None
    assert "traceanalyzer[dask]" in refused.value.next_step


def test_a_cluster_without_workers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr("traceanalyzer.pipeline.cluster._PATIENCE_S", 1)
    nobody = LocalCluster(n_workers=0, dashboard_address=None)
    with nobody, pytest.raises(InputError, match="no workers"):
        Cluster(nobody.scheduler_address)


def test_workers_of_another_version_are_refused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traceanalyzer.__version__", "99")
    with pytest.raises(InputError, match="not 99"):
        Cluster(cluster.scheduler_address)
