"""Where the Nsight Systems command line is, what it can do, and how it is run.

A candidate counts only when `nsys --version` answers; what a program said is kept for the life
of this process.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO

INSTALL_PATTERNS: Final = (
    "opt/nvidia/nsight-systems/*/bin/nsys",
    "opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "opt/nvidia/hpc_sdk/*/*/profilers/Nsight_Systems/bin/nsys",
    "usr/local/cuda*/bin/nsys",
    "usr/local/cuda*/*sight*ystems*/bin/nsys",
    "usr/lib/nsight-systems/bin/nsys",
)

_VERSION = re.compile(r"version (\d+(?:\.\d+)+[\w.-]*)")
_PERCENTAGE = re.compile(r"\[[=\s]*(\d{1,3})%")
_PROBE_SECONDS = 60
_SECONDS_TO_OBEY = 5
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Nsys:
    """An `nsys` that answered; `version` is all of its version, such as 2022.4.2.1-df9881f."""

    path: Path
    version: str

    @property
    def release(self) -> str:
        """The version without its build: 2022.4.2.1."""
        return self.version.partition("-")[0]

    @property
    def number(self) -> tuple[int, ...]:
        """The release's numbers, for comparison."""
        return release_number(self.release)

    def can_export(self, *abilities: str) -> bool:
        """Whether `nsys export --help` speaks of all of these types and options."""
        help_text = said_by(self.path, "export", "--help") or ""
        return all(ability in help_text for ability in abilities)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended, and the last lines it printed, progress bars left out."""

    exit_code: int
    last_lines: str


def release_number(release: str) -> tuple[int, ...]:
    """2022.4.2.1 as (2022, 4, 2, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", release))


def candidates(option: str | None) -> Iterator[Nsys]:
    """Each `nsys` that may be used, best first.

    Args:
        option: What the user named. It, or else the environment variable NSYS, is then the only
            candidate; otherwise PATH comes first, then the usual install folders, newest first.

    Raises:
        InputError: What the user named does not exist or does not run.
    """
    for named, where in ((option, "--nsys"), (os.environ.get("NSYS"), "environment variable NSYS")):
        if named:
            yield _named(named, where)
            return
    on_path = shutil.which("nsys")
    first = probe(Path(on_path)) if on_path else None
    if first:
        yield first
    for nsys in installed(Path("/")):
        if first is None or not nsys.path.samefile(first.path):
            yield nsys


def _named(named: str, where: str) -> Nsys:
    path = shutil.which(named)
    if path is None:
        raise InputError(f"{named} is not a program that can be run", where=where)
    nsys = probe(Path(path))
    if nsys is None:
        raise InputError(f"{named} does not answer `--version` as nsys does", where=where)
    return nsys


def installed(root: Path) -> list[Nsys]:
    """Each `nsys` in the usual install folders below `root`, newest first."""
    paths = {path for pattern in INSTALL_PATTERNS for path in root.glob(pattern)}
    answered = filter(None, map(probe, sorted(paths)))
    return sorted(answered, key=lambda nsys: nsys.number, reverse=True)


def probe(path: Path) -> Nsys | None:
    """The `nsys` at `path`, or None when it doesn't run or is something else."""
    version = _VERSION.search(said_by(path, "--version") or "")
    return Nsys(path, version[1]) if version else None


@cache
def said_by(path: Path, *arguments: str) -> str | None:
    """What a program prints when run with `arguments`, or None when that fails."""
    try:
        done = subprocess.run(  # noqa: S603 - an argument list, no shell
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=child_environment(),
            timeout=_PROBE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout + done.stderr).decode(errors="replace")


def child_environment() -> dict[str, str]:
    """What of our own environment `nsys` needs; exports record some of the rest (USER)."""
    passed_on = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in passed_on if name in os.environ} | {"LC_ALL": "C"}


def qdstrm_importer(nsys: Nsys) -> Path | None:
    """The QdstrmImporter installed with `nsys`: it sits in `host-linux-*` beside its folder.

    Debian reaches the real program through links in three folders, and only the second of them
    has the importer as its neighbour, so every link on the way is looked at.
    """
    for folder in _folders_on_the_way(nsys.path):
        for importer in sorted(folder.parent.glob("[hH]ost-*/QdstrmImporter")):
            return importer
    return None


def _folders_on_the_way(path: Path) -> Iterator[Path]:
    """The folder of `path` and of each link it leads through, down to the file at the end."""
    while True:
        folder = path.parent.resolve()
        yield folder
        step = folder / path.name
        if not step.is_symlink():
            return
        path = folder / step.readlink()


def run(
    command: Sequence[str | Path],
    env: Mapping[str, str],
    progress: Callable[[float | None], None],
) -> Finished:
    """Run a program to its end; nothing it prints reaches our own output.

    Args:
        command: Program and arguments.
        env: All of the program's environment.
        progress: Told the share done (0 to 1) that the program prints, None until it does.

    Raises:
        OSError: The program can't be started.
    """
    progress(None)
    # A group of its own: Ctrl-C then reaches the program through us alone, and what the program
    # itself has started (some installs have a shell script for `nsys`) ends with it.
    child = subprocess.Popen(  # noqa: S603 - an argument list, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        start_new_session=True,
    )
    assert child.stdout is not None
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    try:
        for line in _lines(child.stdout):
            if percentage := _PERCENTAGE.search(line):
                progress(min(int(percentage[1]), 100) / 100)
            elif line.strip():
                last_lines.append(line.rstrip())
        # With a time limit the wait is made of short sleeps, which Ctrl-C ends, too.
        return Finished(child.wait(threading.TIMEOUT_MAX), "\n".join(last_lines))
    finally:
        child.stdout.close()
        if child.poll() is None:
            _end(child)


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Lines as they come; a carriage return, which draws progress bars, ends one too."""
    # polars 2.1 installs a handler of SIGINT under which a blocking read goes on through Ctrl-C;
    # poll() is never restarted after a signal (signal(7)), so it notices.
    ready = select.poll()
    ready.register(stream, select.POLLIN)
    rest = b""
    while ready.poll() and (chunk := os.read(stream.fileno(), 65536)):
        *whole, rest = re.split(rb"[\r\n]", rest + chunk)
        for line in whole:
            yield line.decode(errors="replace")
    yield rest.decode(errors="replace")


def _end(child: subprocess.Popen[bytes]) -> None:
    for request in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, request)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_SECONDS_TO_OBEY)
            return
