"""A stand-in for nsys that runs its program and fails as it is told; see `install`."""

from __future__ import annotations

import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

VERSION = "NVIDIA Nsight Systems version 2022.4.2.1-df9881f"
OPTIONS = (
    "--output= --session-new= --cuda-graph-trace= --trace-fork-before-exec= "
    "--capture-range= --capture-range-end="
)
REPORT = b"NVIDIA Tegra Profiler Report 1"


def install(folder: Path, mode: str, export: Path | None = None, options: str = OPTIONS) -> Path:
    """Make an `nsys` in a folder.

    Args:
        folder: Where to.
        mode: "whole" (a report when the program ends or collection is stopped), "when told" (a
            report once the file `told` is in the folder), "nothing" (no report), "full" (half a
            report and a full disk), "stuck" (half a report, and it heeds no request to end).
        export: What `nsys export` makes of any report; of a folder `graph.sqlite` or
            `node.sqlite`, as graphs were recorded.
        options: What `nsys profile --help` offers.
    """
    path = folder / "nsys"
    call = f"import fake_nsys; fake_nsys.main({mode!r}, {str(export)!r}, {options!r})"
    text = f"#!{sys.executable} -S\nimport sys; sys.path.insert(0, {str(Path(__file__).parent)!r})"
    path.write_text(f"{text}\n{call}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def main(mode: str, export: str, options: str) -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(VERSION)
    elif "--help" in arguments:
        print(options)
    elif arguments[0] == "export":
        target = next(word for word in arguments if word.startswith("--output="))
        report = next(word for word in arguments if word.endswith(".nsys-rep"))
        graphs = "graph" if Path(report).read_bytes().endswith(b"graph") else "node"
        source = Path(export) / f"{graphs}.sqlite" if Path(export).is_dir() else Path(export)
        shutil.copy(source, target.partition("=")[2])
    elif arguments[0] == "stop":
        Path(sys.argv[0]).with_name("stopped").touch()
        time.sleep(0.2)  # the report is written meanwhile
    elif arguments[0] == "profile":
        sys.exit(profile(mode, arguments[1:]))


def profile(mode: str, arguments: list[str]) -> int:
    report = Path(arguments[arguments.index("--output") + 1]).with_suffix(".nsys-rep")
    program = arguments[2:]
    while program[0].startswith("-"):
        program = program[1:]
    half = mode in ("full", "stuck")
    if half:
        report.write_bytes(REPORT[:9])
    if mode == "stuck":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(program, start_new_session=True)
    folder = Path(sys.argv[0]).parent
    signs = [folder / ("told" if mode == "when told" else "stopped")]
    while child.poll() is None:
        if mode != "nothing" and not half and any(sign.exists() for sign in signs):
            report.write_bytes(REPORT)
        time.sleep(0.02)
    if mode == "whole":
        traced = [word for word in arguments if word.startswith("--cuda-graph-trace=")]
        report.write_bytes(REPORT + b"\0" * 64 + "".join(traced).encode())
    if mode == "stuck":
        time.sleep(600)
    if mode == "full":
        print("Error writing bytes: No space left on device", file=sys.stderr)
        return 1
    return child.returncode if child.returncode >= 0 else 128 - child.returncode
