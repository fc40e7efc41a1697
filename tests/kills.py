"""Runs that are killed at chosen moments, and whether what has a final name is whole afterwards."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tests.exports import Export, served
from tests.harness import REPOSITORY
from tests.importers.fake_nsys import NEW_HELP, write_exports, write_fake_nsys
from traceanalyzer import load
from traceanalyzer.cache.folder import remove
from traceanalyzer.cache.store import Store
from traceanalyzer.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

# A moment is a share of the time of the last whole run, or "writing": as soon as something
# unfinished is there. A fork spares most of Python's own start.
_FORKING: Final = """
import os, signal, sys, time
sys.argv[0] = "traceanalyzer"
{imports}
def child():
    try:
        {body}
    except SystemExit as ended:
        os._exit(ended.code or 0)
    os._exit(0)
def hidden():
    return {{name for name in os.listdir({folder!r}) if name.startswith(".")}}
whole = None
for line in sys.stdin:
    began, before = time.monotonic(), hidden()
    pid = os.fork()
    if not pid:
        child()
    if line != "whole\\n":
        if line == "writing\\n":
            while hidden() <= before and not os.waitid(
                os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
            ):
                time.sleep(0.0002)
        else:
            time.sleep(float(line) * whole)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if line == "whole\\n":
        whole = time.monotonic() - began
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
_KEEPING: Final = """store.discard("a")
        assert store.keep("a", write) is None"""
_STORE: Final = """
from pathlib import Path
from traceanalyzer.cache.store import Store
store = Store(Path(sys.argv[1]))
def write(folder):
    for number in range(30):
        (folder / f"{number}").write_bytes(bytes([number]) * 100_000)
"""
_FILES_KEPT: Final = {f"{number}": bytes([number]) * 100_000 for number in range(30)}


@dataclass(frozen=True)
class Killed:
    """What came of kill runs.

    Attributes:
        kills: How many runs died by the signal; one that was faster ended by itself.
        while_writing: Those that left something unfinished beside the final name; every other
            kill waits for the moment in which it appears.
        damaged: Times that something under a final name was not whole afterwards.
        next_run: "succeeds", or what the run behind them did.
    """

    kills: int
    while_writing: int
    damaged: int
    next_run: str


@dataclass(frozen=True)
class Program:
    """What is run and killed.

    Attributes:
        folder: Where it writes.
        is_whole: Whether what lies there under final names is whole, if anything does.
        arguments: Of the command line.
        environment: Beside this process's own.
        parts: Imports and body of the child, when it is not the command line.
        before: What is done before each run.
    """

    folder: Path
    is_whole: Callable[[], bool]
    arguments: Sequence[str | Path]
    environment: Mapping[str, str] | None = None
    parts: tuple[str, str] = ("from traceanalyzer.__main__ import main", "main(sys.argv[1:])")
    before: Callable[[], None] = lambda: None


Kills = Callable[[Path, Sequence[float]], Killed]
"""Given a folder and the moments; see `moments_of`."""


def moments_of(seed: int, count: int) -> list[float]:
    """Shares of a run's time, spread over nearly all of it."""
    dice = random.Random(seed)
    return [0.9 * (place + dice.random()) / count for place in range(count)]


def killed(program: Program, moments: Sequence[float]) -> Killed:
    """Run a program whole, then kill it at each moment, then run it whole again."""
    with subprocess.Popen(
        [sys.executable, "-c", _forking(program), *program.arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "POLARS_MAX_THREADS": "1",
            **(program.environment or {}),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pipes = process.stdin, process.stdout
        assert _one(program, pipes, "whole") == (0, True)
        assert _one(program, pipes, "whole") == (0, True)  # the second one finds warm files
        kills = damaged = while_writing = 0
        left = _unfinished(program.folder)
        for moment in _strung(moments):
            code, is_whole = _one(program, pipes, moment)
            damaged += not is_whole
            for sooner in ("0.5", "0.25", "0.1"):
                if code != -signal.SIGKILL:  # it was faster
                    code, is_whole = _one(program, pipes, sooner)
                    damaged += not is_whole
            kills += code == -signal.SIGKILL
            before, left = left, _unfinished(program.folder)
            while_writing += bool(left - before)
        code, is_whole = _one(program, pipes, "whole")
    next_run = "succeeds" if code == 0 and is_whole else "fails"
    return Killed(kills, while_writing, damaged, next_run)


def _forking(program: Program) -> str:
    imports, body = program.parts
    return _FORKING.format(imports=imports, body=body, folder=os.fspath(program.folder))


def _strung(moments: Sequence[float]) -> list[str]:
    """Every other one strikes as soon as something is being written."""
    return ["writing" if place % 2 else f"{each}" for place, each in enumerate(moments)]


def _one(program: Program, pipes: tuple[IO[str], IO[str]], moment: str) -> tuple[int, bool]:
    program.before()
    pipes[0].write(f"{moment}\n")
    pipes[0].flush()
    code = int(pipes[1].readline())
    return code, program.is_whole()


def _unfinished(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.startswith(".")}


def _server(folder: Path) -> Path:
    """Two ranks of a small server."""
    export = Export()
    served(export)
    served(export, 5200, rank=1)
    return export.write_sqlite(folder / "server.sqlite")


def _output(folder: Path, name: str) -> Path:
    output = folder / "out" / name
    output.parent.mkdir()
    return output


def report_file(folder: Path, moments: Sequence[float]) -> Killed:
    """A report as JSON."""
    output = _output(folder, "report.json")

    def is_whole() -> bool:
        return Report.from_json(output.read_bytes()).capture.ops > 0

    return killed(
        Program(output.parent, is_whole, ("report", _server(folder), "-o", output)), moments
    )


def report_page(folder: Path, moments: Sequence[float]) -> Killed:
    """A report as a page."""
    output = _output(folder, "report.html")

    def is_whole() -> bool:
        return output.read_text().rstrip().endswith("</html>")

    return killed(
        Program(output.parent, is_whole, ("report", _server(folder), "-o", output)), moments
    )


def table_folder(form: str) -> Kills:
    """An export to a folder of tables, which stands there already; it is whole or absent."""

    def kills(folder: Path, moments: Sequence[float]) -> Killed:
        output, expected = _output(folder, "tables"), dict[str, bytes]()

        def is_whole() -> bool:
            if not output.exists():
                return True
            found = {file.name: file.read_bytes() for file in output.iterdir()}
            expected.update({} if expected else found)
            return found == expected

        arguments = ("export", _server(folder), "--to", form, "--force", "-o", output)
        return killed(Program(output.parent, is_whole, arguments), moments)

    return kills


def perfetto_file(folder: Path, moments: Sequence[float]) -> Killed:
    """An export for Perfetto."""
    output, expected = _output(folder, "out.pftrace.gz"), list[bytes]()

    def is_whole() -> bool:
        found = gzip.decompress(output.read_bytes())
        expected.append(found)
        return found == expected[0]

    arguments = ("export", _server(folder), "--to", "perfetto", "--force", "-o", output)
    return killed(Program(output.parent, is_whole, arguments), moments)


def cached_export(folder: Path, moments: Sequence[float]) -> Killed:
    """The export of an nsys report in the cache, which each run has to make anew."""
    nsys = write_fake_nsys(
        folder / "bin" / "nsys",
        write_exports(folder),
        version="2030.1.1.1-0",
        help_text=NEW_HELP,
    )
    report = folder / "run.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 2025@3@2@474-2532\n" + bytes(100))
    cache = folder / "cache"
    cache.mkdir()
    seen: list[int] = []

    def kept() -> list[Path]:
        return [path for path in cache.iterdir() if not path.name.startswith(".")]

    def forget() -> None:
        for path in kept():
            remove(path)

    def is_whole() -> bool:
        exports = [path for path in kept() if path.name.startswith("run")]
        names = [load(path).names.height for path in exports]
        seen.extend(names)
        return all(0 < each == seen[0] for each in names)

    arguments = ("report", report, "--nsys", nsys.path, "-o", os.devnull)
    environment = {"TRACEANALYZER_CACHE": str(cache)}
    return killed(Program(cache, is_whole, arguments, environment, before=forget), moments)


def kept_folder(folder: Path, moments: Sequence[float]) -> Killed:
    """A folder that the cache keeps, which each run removes and keeps anew."""
    store = Store(folder / "cache")
    store.folder.mkdir()

    def is_whole() -> bool:
        found = store.find("a")
        return found is None or {it.name: it.read_bytes() for it in found.iterdir()} == _FILES_KEPT

    parts = (_STORE, _KEEPING)
    return killed(Program(store.folder, is_whole, (store.folder,), parts=parts), moments)


KILLED: Final[dict[str, Kills]] = {
    "report as JSON": report_file,
    "report as HTML": report_page,
    "export to parquet": table_folder("parquet"),
    "export to CSV": table_folder("csv"),
    "export to Perfetto": perfetto_file,
    "export of an nsys report in the cache": cached_export,
    "folder kept in the cache": kept_folder,
}
"""What is killed, by what it writes."""
