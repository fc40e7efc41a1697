"""`traceanalyzer capture`: record a server under Nsight Systems, then print the report."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from traceanalyzer.capture.plan import Abilities, Plan
    from traceanalyzer.importers.nsys_command import Nsys

_DEFAULT = Path("eagle.nsys-rep")


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
    help="When to collect: all, time:DELAY_S:DURATION_S, nvtx:RANGE@DOMAIN, profiler (between "
    "cudaProfilerStart and Stop, as SGLang's and vLLM's /start_profile call them), or until:FILE "
    "(until the program writes that file; then it is ended, as an engine that kills its own "
    "workers loses what they recorded last).",
)
@click.option(
    "--graphs",
    type=click.Choice(["node", "graph", "precapture"]),
    default="node",
    show_default=True,
    help="CUDA graph replays kernel by kernel, or as wholes (cheaper), or kernel by kernel with "
    "the ranges open when the graphs were built.",
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
    graphs: str,
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
    collection and keeps what was recorded.
    """
    from traceanalyzer.capture.plan import Plan, Window, profile_command

    report = (output if output.suffix == ".nsys-rep" else Path(f"{output}.nsys-rep")).absolute()
    plan = Plan(report, graphs, Window.parse(window), f"traceanalyzer-{os.getpid()}", cuda)
    tool, abilities = _tool(nsys)
    line = profile_command(tool, abilities, plan, target)
    environment = _environment(keep_env, all_env=all_env, hooks=hooks)
    if only_print:
        variables = ["NVTX_HOOKS=1"] if hooks else []
        click.echo(shlex.join([*variables, *line]))
        return 0
    _check_program(target[0], environment)
    return _record(tool, plan, line, environment)


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


def _check_program(program: str, environment: dict[str, str]) -> None:
    from traceanalyzer.errors import InputError

    if shutil.which(program, path=environment.get("PATH")) is None:
        raise InputError(
            "no such program, or it cannot be run",
            where=program,
            next_step="Give the command as you would type it: traceanalyzer capture -- COMMAND.",
        )


def _record(tool: Nsys, plan: Plan, line: list[str], environment: dict[str, str]) -> int:
    from traceanalyzer.capture.outcome import collection_ended, recorded_file, remove_old
    from traceanalyzer.capture.session import Session

    remove_old(plan.report)
    _say(
        f"recording with nsys {tool.release} into {plan.report}; the report stores the program's "
        f"environment ({len(environment)} variables passed on)"
    )
    collected = collection_ended(plan.report, plan.window)
    ended = Session.start(tool, plan.session, line, environment).wait(collected)
    recorded = recorded_file(plan.report)
    _report(recorded, tool)
    return ended.exit_code


def _report(recorded: Path, tool: Nsys) -> None:
    """Print the report of what was recorded."""
    from traceanalyzer.commands.inputs import deliver, read_traces
    from traceanalyzer.pipeline import analyze
    from traceanalyzer.renderers.terminal import render_terminal

    trace = read_traces((recorded,), str(tool.path))
    deliver(render_terminal(analyze(trace), plain=False).encode(errors="replace"), None)


def _say(text: str) -> None:
    print(f"traceanalyzer: {text}", file=sys.stderr)
