from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from nvtx_hooks.reference import __main__ as command
from nvtx_hooks.reference import replicas
from tests.harness import REPOSITORY
from tests.nvtx_hooks.reference.conftest import TRAINING

if TYPE_CHECKING:
    from pathlib import Path

    from nvtx_hooks.reference.training import TrainedModels

TRAINED = [part for name, value in TRAINING.items() for part in (f"--{name}", str(value))]


@pytest.fixture
def cached(
    trained: TrainedModels, weights_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Options that find trained weights in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(weights_cache))
    return ["--cache", *TRAINED]


def run(*arguments: str | Path) -> dict[str, Any]:
    """Run the command in this process and return its JSON report."""
    file = str(arguments[-1])
    assert command.main([str(argument) for argument in (*arguments[:-1], "--json", file)]) == 0
    with open(file, encoding="utf-8") as report:
        return json.load(report)


def test_the_report_tells_what_was_asked_and_done(
    cached: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--requests", "5", "--batch", "2", "--draft-tokens", "3", "--max-tokens", "12"]
    report = run(*cached, *options, tmp_path / "report.json")
    sums = report["totals"]
    assert report["settings"]["draft_tokens"] == 3
    assert len(sums["accepted_histogram"]) == 4
    (replica,) = report["replicas"]
    assert replica["process_id"] == os.getpid()
    assert len(replica["requests"]) == 5
    assert all(step["requests"] <= 2 for step in replica["steps"])
    printed = capsys.readouterr().out
    assert "request-4" in printed
    assert f"{sums['committed']} = {sums['accepted']} accepted" in printed
    assert f"accept_len  {sums['accept_len']:.3f}" in printed


def test_speculation_changes_the_speed_and_not_the_text(cached: list[str], tmp_path: Path) -> None:
    texts = {}
    for name, options in {
        "plain": ["--no-speculation"],
        "chain": ["--graphs", "eager"],
        "tree": ["--tree", "--draft-tokens", "10", "--branches", "4", "--depth", "2"],
    }.items():
        report = run(*cached, "--requests", "4", *options, tmp_path / "report.json")
        texts[name] = [request["tokens"] for request in report["replicas"][0]["requests"]]
        sums = report["totals"]
        assert (sums["decodes"], sums["cycles"]).index(0) == (0 if name != "plain" else 1)
    assert texts["plain"] == texts["chain"] == texts["tree"]


def test_two_spawned_replicas_serve_what_one_does(cached: list[str], tmp_path: Path) -> None:
    arguments = [*cached, "--requests", "5", "--temperature", "0.8", "--tree"]
    alone = run(*arguments, tmp_path / "alone.json")
    file = tmp_path / "both.json"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "nvtx_hooks.reference",
            *arguments,
            "--workers",
            "2",
            "--json",
            file,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    both = json.loads(file.read_text(encoding="utf-8"))
    assert [replica["rank"] for replica in both["replicas"]] == [0, 1]
    assert len({replica["process_id"] for replica in both["replicas"]} - {os.getpid()}) == 2
    texts = [
        {
            request["id"]: request["tokens"]
            for replica in report["replicas"]
            for request in replica["requests"]
        }
        for report in (alone, both)
    ]
    assert texts[0] == texts[1]
    assert both["totals"]["tokens"] == alone["totals"]["tokens"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--requests", "0"], "not a whole number above 0: 0"),
        (["--draft-tokens", "two"], "not a whole number above 0: two"),
        (["--temperature", "-1"], "not a number from 0: -1"),
        (["--temperature", "nan"], "not a number from 0: nan"),
        (["--seed", "-3"], "not a whole number above 0: -3"),
        (["--tree", "--draft-tokens", "99"], "99 nodes: depth 4 with 3 branches takes 4 to 30"),
        (["--layers", "2"], "--layers has to be 3 or more"),
        (["--hidden-size", "40"], "--hidden-size a multiple of 32"),
        (["--graphs", "cuda"], "CUDA"),
        (["--json", "/no/such/folder/x.json"], "cannot write /no/such/folder/x.json"),
        (["--json", "."], "cannot write .: not a file"),
        (["--device", "tpu"], "invalid choice: 'tpu'"),
    ],
)
def test_bad_usage_is_told_before_any_work(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_missing_cuda_device_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--device", "cuda"])
    assert ended.value.code == 2
    assert "no CUDA device" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nvtx_hooks").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = ["--cache", "--training-steps", "1", "--hidden-size", "32", "--layers", "3"]
    with pytest.raises(SystemExit) as ended:
        command.main(options)
    assert ended.value.code == 2
    assert "cannot write to the cache" in capsys.readouterr().err


def test_a_replica_that_dies_ends_the_command(
    cached: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Forked, so that the children need not import torch before they die.
    forking = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: forking)
    monkeypatch.setattr(replicas, "_send_result", lambda job, sending: os._exit(9))
    assert command.main([*cached, "--workers", "2"]) == 1
    assert "replica 0 ended without a result" in capsys.readouterr().err


def test_an_interrupt_ends_with_its_own_code(
    cached: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(job: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(replicas, "run_replicas", interrupted)
    assert command.main(cached) == 130
