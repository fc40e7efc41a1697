"""The command line: one module a command, imported only when it runs.

Exit codes: 0 done; 2 bad usage or input; 3 a gate that the user asked for failed; 130 interrupted.
"""

from __future__ import annotations

from importlib import import_module

import click

import traceanalyzer

_COMMANDS = {
    "capture": "Record a server under Nsight Systems, then print the report.",
    "compare": "Print what changed between two captures; a gate for regressions.",
    "doctor": "Print what is wrong with a capture, and the flag or variable that mends it.",
    "export": "Write the trace for other tools: Perfetto, parquet, CSV.",
    "hooks": "See and manage the hooks that put ranges into a server.",
    "ranges": "List the ranges in a trace: time, and the phase each is read as.",
    "report": "Print whether speculation wins, where the time goes, and what to do.",
    "scrub": "Copy an nsys SQLite export without environment, persons and hosts.",
    "sweep": "Predict the best draft length from captures at several of them.",
    "timeline": "Write the trace as a page to look into: lanes, and cycles one below another.",
}


class _LazyGroup(click.Group):
    """A group whose commands are imported when they run, so that --help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"traceanalyzer.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version=traceanalyzer.__version__, prog_name="traceanalyzer")
def cli() -> None:
    """Where the GPU time of EAGLE-3 speculative decoding goes, from one recorded trace."""
