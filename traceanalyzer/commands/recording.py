"""One recording of `traceanalyzer capture`, from starting nsys to the printed report.

The program's own failure is passed on whatever else went wrong; what was recorded is kept and
reported as far as it can be.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.capture.completeness import completeness_lines, process_counts, rank_evidence
from traceanalyzer.capture.endpoint_window import EndpointWindow
from traceanalyzer.capture.outcome import (
    collection_ended,
    disk_full,
    kept,
    left_by,
    nothing_left,
    nsys_folders,
    recording_folder,
)
from traceanalyzer.capture.plan import profile_command
from traceanalyzer.capture.session import Session
from traceanalyzer.capture.speed import SpeedWatch, TracedSpeed
from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from traceanalyzer.capture.plan import Abilities, Plan
    from traceanalyzer.capture.server import Server
    from traceanalyzer.capture.session import Ended
    from traceanalyzer.importers.nsys_command import Nsys
    from traceanalyzer.trace import Trace


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything that one recording needs to know.

    Attributes:
        nsys: What records.
        abilities: What it can do.
        plan: What to record, and the report's final path.
        target: The program and its arguments.
        environment: All of the program's variables.
        server: The engine's, when its endpoint opens the window.
        untraced: Tokens/s without tracing as the user gave them, or the server whose own
            counters tell them; None when they are not asked for.
    """

    nsys: Nsys
    abilities: Abilities
    plan: Plan
    target: Sequence[str]
    environment: dict[str, str]
    server: Server | None = None
    untraced: float | Server | None = None

    def command_line(self, report: Path) -> list[str]:
        """The `nsys profile` command line that writes `report`.

        Raises:
            InputError: This nsys is too old for something the plan asks for.
        """
        plan = replace(self.plan, report=report)
        return profile_command(self.nsys, self.abilities, plan, self.target)

    def run(self, use: Callable[[Path], None] | None = None) -> int:
        """Record, keep what was recorded, and print the report.

        Args:
            use: What to do with the recording instead of printing its report.

        Returns:
            The program's own exit code when it failed, 130 after Ctrl-C, else 0.

        Raises:
            InputError: The program did not fail, but nothing can be reported.
        """
        self.command_line(self.plan.report)  # what cannot be asked for is refused before writing
        with recording_folder(self.plan.report) as folder, ExitStack() as watches:
            inside = folder / self.plan.report.name
            watch = self._speed_watch(watches)
            window = self._window(inside, watches)
            self._announce()
            session = Session.start(
                self.nsys, self.plan.session, self.command_line(inside), self.environment
            )
            ended = session.wait(window)
            watches.close()
            failure = window.failure if isinstance(window, EndpointWindow) else None
            try:
                recorded = self._kept(inside, ended, failure)
                if use is None:
                    self._report(recorded, watch)
                else:
                    use(recorded)
            except InputError as error:
                if ended.exit_code == 0:
                    raise
                say(str(error))
        return ended.exit_code

    def _speed_watch(self, watches: ExitStack) -> SpeedWatch | None:
        if self.untraced is None or isinstance(self.untraced, float):
            return None
        return watches.enter_context(SpeedWatch(self.untraced))

    def _window(self, report: Path, watches: ExitStack) -> Callable[[], bool]:
        ended = collection_ended(report, self.plan.window)
        if self.server is None:
            return ended
        return watches.enter_context(EndpointWindow(self.server, self.plan.window, ended))

    def _announce(self) -> None:
        say(
            f"recording with nsys {self.nsys.release} into {self.plan.report}; the report stores "
            f"the program's environment ({len(self.environment)} variables passed on)"
        )

    def _kept(self, inside: Path, ended: Ended, failure: InputError | None) -> Path:
        """The recording under its final name, or under one that says it is cut short."""
        full = disk_full(*nsys_folders(self.plan.report))
        recorded = left_by(inside)
        if recorded is None:
            raise full or failure or nothing_left(self.plan.report)
        if failure:
            say(str(failure))
        whole = full is None and not ended.cut
        path = kept(recorded, self.plan.report, whole=whole)
        if not whole:
            say(f"{path}: it may be cut short" + (f": {full}" if full else ""))
        return path

    def _report(self, recorded: Path, watch: SpeedWatch | None) -> None:
        """Print the report, what ranks lack, and the two speeds."""
        from traceanalyzer.commands.analysing import read_traces
        from traceanalyzer.commands.inputs import deliver
        from traceanalyzer.pipeline import analyze
        from traceanalyzer.renderers.terminal import render_terminal

        trace = read_traces((recorded,), str(self.nsys.path))
        report = render_terminal(analyze(trace), plain=False)
        speed = self._speed(trace, watch)
        if speed is not None:
            report = f"{report.rstrip()}\n\n{speed}\n"
        deliver(report.encode(errors="replace"), None)
        for line in _completeness(trace, cuda=self.plan.cuda):
            say(line)

    def _speed(self, trace: Trace, watch: SpeedWatch | None) -> TracedSpeed | None:
        if watch is not None:
            return watch.speed(recorded_window_ns(trace))
        if not isinstance(self.untraced, float):
            return None
        traced = marked_tokens_per_s(trace)
        how = "untraced as given; traced from the accept marks"
        if traced is None:
            how = (
                "untraced as given; the trace has no accept marks that tell how many tokens were "
                "made (--hooks marks them; or give the server's address instead of a number)"
            )
        return TracedSpeed.of(traced, self.untraced, how)


def recorded_window_ns(trace: Trace) -> tuple[int, int] | None:
    """When collection began and ended, ns since 1970: from the first row to the last.

    Rows before time zero are of what happened before collection (graphs built earlier).

    Returns:
        None when the file does not say what its time zero is, or holds no rows.
    """
    import polars as pl

    zero = trace.files["start_utc_ns"].item(0)
    times = pl.concat(
        [frame.select("start_ns", "end_ns") for frame in (trace.ranges, trace.launches, trace.ops)]
    ).filter(pl.col("start_ns") >= 0)
    if zero is None or not times.height:
        return None
    first, last = times.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return zero + first, zero + last


def marked_tokens_per_s(trace: Trace) -> float | None:
    """Tokens/s by the accept marks: committed after the first cycle, by the time to the last.

    First tokens, which prefill makes, are not in them.

    Returns:
        None without marks of two cycles.
    """
    import polars as pl

    from nvtx_hooks.vocabulary import ACCEPT, ACCEPT_COUNT
    from traceanalyzer.analyses.acceptance import acceptance_of
    from traceanalyzer.phases.marks import read_marks

    acceptance = acceptance_of(trace)
    marks = [
        read_marks(trace, mark).select("process", "cycle", "time_ns")
        for mark in (ACCEPT, ACCEPT_COUNT)
    ]
    cycles = pl.concat(marks).group_by("process", "cycle").agg(pl.col("time_ns").min())
    intervals = cycles.height - cycles["process"].n_unique()
    if acceptance is None or intervals < 1:
        return None
    first, last = cycles.select(a=pl.col("time_ns").min(), b=pl.col("time_ns").max()).row(0)
    per_cycle = acceptance.committed_tokens / cycles.height
    return float(per_cycle * intervals / ((last - first) / 1e9)) if last > first else None


def _completeness(trace: Trace, *, cuda: bool) -> list[str]:
    import numpy as np

    from nvtx_hooks.vocabulary import RANKS
    from traceanalyzer.phases.marks import read_marks
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.phases.spans import classify_ranges

    phase = classify_ranges(trace, Rules.shipped()).phase
    counts = process_counts(trace, np.flatnonzero(phase >= 0))
    told = read_marks(trace, RANKS).select("tp_size", "pp_size").max().row(0)
    expected = told[0] * max(told[1], 1) if told[0] else None
    ranks = rank_evidence(trace.processes, counts, cuda=cuda)
    return completeness_lines(ranks, cuda=cuda, expected=expected)


def say(text: str) -> None:
    """Tell the user something that is no part of the report."""
    print(f"traceanalyzer: {text}", file=sys.stderr)
