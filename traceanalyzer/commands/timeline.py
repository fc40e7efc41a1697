"""`traceanalyzer timeline`: the trace as a page to look into."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.commands.analysing import read_traces
from traceanalyzer.commands.inputs import (
    check_output,
    deliver,
    inference_choice,
    trace_inputs,
)

if TYPE_CHECKING:
    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes

MOST_SPANS = 2_000_000
"""A page of so many takes about 12 MB and opens in about two seconds."""

_UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)\s*")


class Window(click.ParamType[tuple[int, int]]):
    """Two times after one another, such as 1.2s,1.35s."""

    name = "window"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Start and end in ns."""
        if isinstance(value, tuple):
            return value
        found = [_TIME.fullmatch(part) for part in str(value).split(",")]
        times = [round(float(each[1]) * _UNITS[each[2]]) for each in found if each]
        if len(found) != 2 or len(times) != 2 or times[0] >= times[1]:
            self.fail(f"{value!r} is no window; write START,END such as 1.2s,1350ms.", param, ctx)
        return times[0], times[1]


class CycleNumbers(click.ParamType[tuple[int, int]]):
    """One cycle, or several in a row, such as 10-20."""

    name = "cycles"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """First and last."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(value))
        if found is None:
            self.fail(f"{value!r} is no row of cycles; write A-B such as 10-20.", param, ctx)
        return int(found[1]), int(found[2] or found[1])


@click.command()
@trace_inputs
@inference_choice
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="The page to write.",
)
@click.option(
    "--window",
    metavar="START,END",
    type=Window(),
    help="Detail only from START to END after the trace's beginning (1.2s,1350ms).",
)
@click.option(
    "--cycles",
    metavar="A-B",
    type=CycleNumbers(),
    help="Detail only of cycles A to B of the first rank, counted from 1.",
)
@click.option(
    "--max-spans",
    metavar="N",
    type=click.IntRange(min=1),
    default=MOST_SPANS,
    show_default=True,
    help="Above this whole cycles are chosen, and the page says so.",
)
def command(
    traces: tuple[Path, ...],
    phases_file: Path | None,
    nsys: str | None,
    infer: bool,
    output: Path,
    window: tuple[int, int] | None,
    cycles: tuple[int, int] | None,
    max_spans: int,
) -> None:
    """Write the trace as one page to look into: lanes to zoom, and its cycles one below another.

    It opens by double click, needs no network, and can be attached to an issue. Cycles and phases
    are always complete; --window and --cycles choose whose ops, API calls and ranges are in it.
    """
    from traceanalyzer.analyses.timeline_lanes.choice import within_limit
    from traceanalyzer.assembly.timeline import whole_timeline
    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.renderers.html.timeline_page import timeline_page

    if window and cycles:
        raise click.UsageError("--window and --cycles exclude each other.")
    check_output(output, traces)
    rules = AnalysisOptions(phases_file).rules()
    trace = read_traces(traces, nsys)
    lanes = whole_timeline(trace, rules, infer=infer)
    lanes = within_limit(_chosen(lanes, window, cycles), max_spans)
    page = timeline_page(lanes, [path.name for path in traces])
    deliver(page.encode(), output)


def _chosen(
    lanes: TimelineLanes, window: tuple[int, int] | None, cycles: tuple[int, int] | None
) -> TimelineLanes:
    from traceanalyzer.analyses.timeline_lanes.choice import in_cycles, in_window

    if window:
        return in_window(lanes, *window)
    return in_cycles(lanes, *cycles) if cycles else lanes
