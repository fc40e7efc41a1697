"""Names of the variables that a report stores, and never a value of one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests.harness import needs_nsys
from tests.importers.fake_nsys import NEW_HELP, OLD_HELP, write_exports, write_fake_nsys
from traceanalyzer.commands import cli
from traceanalyzer.importers import nsys_report_environment
from traceanalyzer.importers.nsys_report_environment import recorded_variables
from traceanalyzer.renderers.protobuf import bytes_field

if TYPE_CHECKING:
    from pathlib import Path

HEAD = b"NVIDIA Tegra Profiler Report 2025@3@2@474-2532\n"
STREAM = b"\x08\x01NVIDIA Nsight Systems Stream 2022.4.2.1\n"
VALUE = "tell-nobody-9f31"


def entry(name: str, value: str = VALUE) -> bytes:
    """A variable as the map of a report holds it."""
    return bytes_field(1, bytes_field(1, name) + bytes_field(2, value))


def block(*names: str) -> bytes:
    """All variables as a report's DeviceEnvironment holds them."""
    text = "\0".join(f"{name}={VALUE}" for name in names)
    return bytes_field(1, bytes_field(1, "DeviceEnvironment") + bytes_field(2, text))


def written(path: Path, *parts: bytes, head: bytes = HEAD) -> Path:
    path.write_bytes(head + b"\0more\n".join((b"", *parts, b"")))
    return path


@pytest.mark.parametrize("head", [HEAD, STREAM], ids=["report", "stream"])
def test_maps_and_blocks_are_read(tmp_path: Path, head: bytes) -> None:
    many = [f"V{number}" for number in range(200)]  # a block whose length takes several bytes
    path = written(tmp_path / "r", entry("HF_TOKEN"), block("API_KEY", "A=B", *many), head=head)
    assert recorded_variables(path) == tuple(
        sorted({"DeviceEnvironment", "HF_TOKEN", "API_KEY", "A", *many})
    )


def test_what_only_looks_like_a_variable_is_none(tmp_path: Path) -> None:
    wrong_length = b"\n\x05HF_TOKEN\x12\x01x"
    after_a_block = block("A") + b"\0LATER_TOKEN=x"
    assert recorded_variables(written(tmp_path / "r", wrong_length, after_a_block)) == (
        "A",
        "DeviceEnvironment",
    )


def test_both_ends_of_a_long_report_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsys_report_environment, "_LOOKED_AT_BYTES", 1000)
    path = written(
        tmp_path / "r", entry("FIRST"), bytes(5000), entry("MIDDLE"), bytes(5000), entry("LAST")
    )
    assert recorded_variables(path) == ("FIRST", "LAST")


@pytest.mark.parametrize("data", [b"", HEAD[:-30], b"SQLite format 3\0" + entry("HF_TOKEN")])
def test_other_files_store_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert recorded_variables(tmp_path / "file") == ()
    assert recorded_variables(tmp_path) == recorded_variables(tmp_path / "missing") == ()


@pytest.mark.parametrize("help_text", [OLD_HELP, NEW_HELP], ids=["old nsys", "new nsys"])
@pytest.mark.parametrize("is_cached", [False, True])
def test_the_doctor_warns_and_no_file_holds_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, help_text: str, is_cached: bool
) -> None:
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "kept" / "cache"))
    nsys = write_fake_nsys(
        tmp_path / "nsys" / "nsys",
        write_exports(tmp_path),
        version="2030.1.1.1-0",
        help_text=help_text,
    )
    path = written(tmp_path / "run.nsys-rep", entry("HF_TOKEN"), entry("SEED"))
    for output in (["first.json"] if is_cached else []) + ["second.json"]:
        told = _doctored(path, tmp_path / "kept" / output, "--nsys", str(nsys.path))
    assert "HF_TOKEN" in told
    assert "SEED" not in told
    _assert_absent(tmp_path / "kept")


def _doctored(path: Path, output: Path, *more: str) -> str:
    output.parent.mkdir(exist_ok=True)
    done = CliRunner().invoke(cli, ["doctor", str(path), "-o", str(output), *more])
    assert done.exit_code == 0, done.output
    assert VALUE not in done.output
    told = output.read_text()
    assert "secrets_stored" in told
    return told


def _assert_absent(folder: Path) -> None:
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 1
    assert not [file for file in files if b"tell-nobody" in file.read_bytes()]


@needs_nsys
def test_a_real_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.importers.test_nsys_report import RECORDED_PROGRAM

    (tmp_path / "program.py").write_text(RECORDED_PROGRAM)
    options = ("-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "report")
    subprocess.run(
        ["nsys", "profile", *options, sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "SOME_API_KEY": VALUE},
        capture_output=True,
        check=False,
    )
    (path,) = (*tmp_path.glob("report.nsys-rep"), *tmp_path.glob("report.qdstrm"))[:1]
    assert VALUE.encode() in path.read_bytes()
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "kept" / "cache"))
    assert "SOME_API_KEY" in _doctored(path, tmp_path / "kept" / "doctor.json")
    _assert_absent(tmp_path / "kept")
