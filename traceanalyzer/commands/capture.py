"""`traceanalyzer capture`: record a server under Nsight Systems, then print the report."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.capture.plan import Abilities, Window
    from traceanalyzer.capture.server import Server
    from traceanalyzer.importers.nsys_command import Nsys

_DEFAULT = Path("eagle.nsys-rep")
_LOOK_SECONDS = 30
_LACKS_PACKAGE = 99

_ENDED_BY_US = ("time", "endpoint", "until")


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "-o",
    "--output",
    metavar="REPORT",
    default=_DEFAULT,
    show_default=True,
    type=click.Path(path_type=Path),
    help="The report to write.",
)
@click.option(
    "--window",
    metavar="WINDOW",
    default="all",
    show_default=True,
    help="When to collect: all, time:DELAY_S:DURATION_S, nvtx:RANGE@DOMAIN, "
    "endpoint:DELAY_S:DURATION_S or endpoint:DELAY_S:STEPSsteps (DELAY_S after the server is up, "
    "through its own /start_profile and /stop_profile; steps: SGLang only), profiler (between "
    "cudaProfilerStart and Stop, whoever calls them), or until:FILE (until the program writes that "
    "file; then it is ended, as an engine that kills its own workers loses what they recorded "
    "last).",
)
@click.option(
    "--server",
    metavar="URL",
    help="The server's address, for --window endpoint (default: this machine, and the command's "
    "--port or the engine's own).",
)
@click.option(
    "--untraced-check",
    metavar="URL|NUMBER",
    help="Put traced and untraced tokens/s side by side: by the counters of the server at URL "
    "(its /metrics, read each second in the window and outside it, under your load), or against "
    "the tokens/s that you measured without capture.",
)
@click.option(
    "--graphs",
    type=click.Choice(["node", "graph", "precapture"]),
    default="node",
    show_default=True,
    help="CUDA graph replays kernel by kernel, or as wholes (cheaper), or kernel by kernel with "
    "the ranges open when the graphs were built.",
)
@click.option(
    "--two-pass",
    is_flag=True,
    help="Run COMMAND twice under the same window, first with graph replays as wholes, then kernel "
    "by kernel; report the times of the first with the kernel classes of the second.",
)
@click.option("--cuda/--no-cuda", default=True, show_default=True, help="Trace CUDA.")
@click.option(
    "--hooks/--no-hooks",
    default=True,
    show_default=True,
    help="Put ranges around the engine's phases (nvtx_hooks).",
)
@click.option("--keep-env", metavar="NAME", multiple=True, help="Pass this variable on as well.")
@click.option("--all-env", is_flag=True, help="Pass all of the environment on.")
@click.option("--nsys", metavar="PATH", help="Nsight Systems command line (default: found).")
@click.option("--print", "only_print", is_flag=True, help="Print the command line and stop.")
@click.argument("target", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    output: Path,
    window: str,
    server: str | None,
    untraced_check: str | None,
    graphs: str,
    two_pass: bool,
    cuda: bool,
    hooks: bool,
    keep_env: tuple[str, ...],
    all_env: bool,
    nsys: str | None,
    only_print: bool,
    target: tuple[str, ...],
) -> int:
    """Record COMMAND under nsys with the flags an LLM server needs, and report.

    Collection is stopped before the server, so that no worker's buffers are lost. Ctrl-C stops
    collection and keeps what was recorded; once more, and it is thrown away. The exit code is
    COMMAND's own when that failed.
    """
    from traceanalyzer.capture.plan import Plan, Window
    from traceanalyzer.commands.recording import Recording
    from traceanalyzer.commands.recording_twice import both_passes, record_both

    report = (output if output.suffix == ".nsys-rep" else Path(f"{output}.nsys-rep")).absolute()
    plan = Plan(report, graphs, Window.parse(window), f"traceanalyzer-{os.getpid()}", cuda)
    tool, abilities = _tool(nsys)
    recording = Recording(
        tool,
        abilities,
        plan,
        target,
        _environment(keep_env, all_env=all_env, hooks=hooks),
        _endpoint(plan.window, server, target),
        _untraced(untraced_check),
    )
    recordings = both_passes(recording) if two_pass else [recording]
    if only_print:
        variables = ["NVTX_HOOKS=1"] if hooks else []
        for each in recordings:
            click.echo(shlex.join([*variables, *each.command_line(each.plan.report)]))
        if plan.window.kind in _ENDED_BY_US:
            click.echo("capture itself ends this window; the line alone records on", err=True)
        return 0
    _check_program(target, recording.environment)
    return record_both(recordings) if two_pass else recording.run()


def _endpoint(window: Window, address: str | None, target: Sequence[str]) -> Server | None:
    """The server whose endpoint opens the window; None for other windows."""
    from traceanalyzer.capture.endpoint_window import check_steps, server_of
    from traceanalyzer.errors import InputError

    if window.kind == "endpoint":
        check_steps(window, target)
        return server_of(address, target)
    if address is not None:
        raise InputError(
            "an address is of no use with this window",
            where="--server",
            next_step="Use it with --window endpoint:DELAY_S:DURATION_S.",
        )
    return None


def _untraced(text: str | None) -> float | Server | None:
    """Tokens/s as given, or the server that counts them."""
    from traceanalyzer.capture.server import Server
    from traceanalyzer.errors import InputError

    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        return Server.at(text, "--untraced-check")
    if not (isfinite(number) and number > 0):
        raise InputError(
            f"{text} is no number of tokens/s",
            where="--untraced-check",
            next_step="Give what you measured without capture, or the server's address.",
        )
    return number


def _tool(option: str | None) -> tuple[Nsys, Abilities]:
    """The nsys to record with, and what it can do."""
    from traceanalyzer.capture.plan import Abilities
    from traceanalyzer.errors import InputError
    from traceanalyzer.importers.nsys_command import candidates, said_by

    tool = next(candidates(option), None)
    if tool is None:
        raise InputError(
            "no nsys was found to record with",
            next_step="Install Nsight Systems, or name it with --nsys or the variable NSYS.",
        )
    return tool, Abilities(tool.release, said_by(tool.path, "profile", "--help") or "")


def _environment(keep: tuple[str, ...], *, all_env: bool, hooks: bool) -> dict[str, str]:
    from traceanalyzer.capture.environment import filtered_environment

    environment = dict(os.environ) if all_env else filtered_environment(os.environ, keep)
    if not hooks:
        return environment
    from nvtx_hooks.__main__ import hooked_environment

    return hooked_environment(environment)


def _check_program(target: Sequence[str], environment: dict[str, str]) -> None:
    """Refuse what cannot start, before nsys hides why.

    Raises:
        InputError: There is no such program, or its Python lacks the module of `-m`.
    """
    from traceanalyzer.errors import InputError

    program = shutil.which(target[0], path=environment.get("PATH"))
    if program is None:
        raise InputError(
            "no such program, or it cannot be run",
            where=target[0],
            next_step="Give the command as you would type it: traceanalyzer capture -- COMMAND.",
        )
    if len(target) > 2 and target[1] == "-m" and Path(program).name.startswith("python"):
        package = target[2].partition(".")[0]
        if package.isidentifier() and not _has_package(program, package, environment):
            raise InputError(
                f"{package} is not installed for this Python",
                where=program,
                next_step=f"Install {package} there, or name the Python that has it.",
            )


def _has_package(python: str, package: str, environment: dict[str, str]) -> bool:
    """Whether a Python finds a package; yes when it cannot be asked."""
    look = (
        "import importlib.util, sys; "
        f"sys.exit({_LACKS_PACKAGE} if importlib.util.find_spec({package!r}) is None else 0)"
    )
    try:
        done = subprocess.run(  # noqa: S603 - an argument list, no shell
            [python, "-c", look],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return done.returncode != _LACKS_PACKAGE
