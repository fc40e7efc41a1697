"""The two recordings of `traceanalyzer capture --two-pass`, and the one report of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.commands.recording import say
from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traceanalyzer.commands.recording import Recording


def both_passes(recording: Recording) -> list[Recording]:
    """The pass with whole-graph rows and that with nodes.

    Args:
        recording: Its `graphs` say how nodes are recorded; its report's name is that of neither:
            `run.nsys-rep` becomes `run-totals.nsys-rep` and `run-shares.nsys-rep`.

    Raises:
        InputError: CUDA is not recorded, nodes are not, speeds are asked for, which recording
            nodes changes, or the window ends with a file that the first pass leaves behind.
    """
    plan = recording.plan
    for wrong, option in (
        (not plan.cuda, "--no-cuda"),
        (plan.graphs == "graph", "--graphs graph"),
        (recording.untraced is not None, "--untraced-check"),
        (plan.window.kind == "until", "--window until"),
    ):
        if wrong:
            raise InputError("this is of no use with --two-pass", where=option)
    return [
        replace(
            recording,
            plan=replace(
                plan,
                graphs=graphs,
                report=plan.report.with_stem(f"{plan.report.stem}-{part}"),
                session=f"{plan.session}-{part}",
            ),
        )
        for part, graphs in (("totals", "graph"), ("shares", plan.graphs))
    ]


def record_both(recordings: Sequence[Recording]) -> int:
    """Record one after the other and print the report of both.

    Returns:
        The program's own exit code when it failed or was interrupted, which ends it all; the
        recordings made so far are kept.

    Raises:
        InputError: A pass recorded nothing, or the two cannot be made one report.
    """
    recorded: list[Path] = []
    for each in recordings:
        code = each.run(recorded.append)
        if code:
            kept = f"; kept: {', '.join(map(str, recorded))}" if recorded else ""
            say(f"no report of two passes: the program ended with {code}{kept}")
            return code
    totals, shares = recorded
    _report(totals, shares, str(recordings[0].nsys.path))
    return 0


def _report(totals: Path, shares: Path, nsys: str) -> None:
    from traceanalyzer.commands.inputs import deliver
    from traceanalyzer.commands.two_pass import combined
    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.renderers.terminal import render_terminal

    report = combined(totals, shares, nsys, AnalysisOptions())
    deliver(render_terminal(report, plain=False).encode(errors="replace"), None)
