"""Runs all tools on one trace in alternation, and turns their runs into rows."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from peers.judging import errors
from peers.measuring import Limits, Run, median, timed
from peers.results import Row
from peers.tools import floors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from peers.judging import Error
    from peers.results import Session
    from peers.tools.tool import Missing, Tool
    from peers.traces import Trace


@dataclass(frozen=True, slots=True)
class Plan:
    """How often what is run.

    Attributes:
        runs: Of our own commands and of reading alone.
        peer_runs: Of each peer, at most `runs`, spread over the rounds.
        limits: Of each process.
        warm_up: Whether a run that is not counted comes first: it warms page caches, and fills
            our own cache for the report that comes from it.
    """

    runs: int = 3
    peer_runs: int = 1
    limits: Limits = field(default_factory=Limits)
    warm_up: bool = True


@dataclass(frozen=True, slots=True)
class _Measured:
    tool: Tool
    runs: list[Run]
    errors: list[Error]
    failure: str | None


def compare(
    trace: Trace, tools: Sequence[Tool], scratch: Path, plan: Plan, say: Callable[[str], None]
) -> list[_Measured]:
    """Run the tools in rounds; round 0 warms up."""
    scratch.mkdir(parents=True, exist_ok=True)
    measured = [_Measured(tool, [], [], None) for tool in tools]
    for turn in range(0 if plan.warm_up else 1, plan.runs + 1):
        for place, one in enumerate(measured):
            if not _due(one.tool, place, turn, plan):
                continue
            folder = _emptied(scratch / f"tool{place}")
            run = _run(one.tool, trace, folder, plan.limits)
            say(f"{trace.name}: {one.tool.name}: {run.cpu_s:.2f} s, {run.peak_mb:,.0f} MB")
            if turn:
                one.runs.append(run)
                measured[place] = _answered(one, trace, folder, run)
            shutil.rmtree(folder)
    shutil.rmtree(scratch)
    return measured


def _due(tool: Tool, place: int, turn: int, plan: Plan) -> bool:
    if tool.cheap:
        return True
    return turn > 0 and (turn + place) % plan.runs < plan.peer_runs


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _run(tool: Tool, trace: Trace, folder: Path, limits: Limits) -> Run:
    path = trace.path
    if tool.writes:
        path = folder / f"copy{trace.path.suffix}"
        shutil.copy(trace.path, path)
    env = {name: value.replace("{folder}", str(folder)) for name, value in tool.env.items()}
    return timed(tool.command(path, folder), folder, limits, env)


def _answered(one: _Measured, trace: Trace, folder: Path, run: Run) -> _Measured:
    """With what this run found judged; a run that failed has found nothing."""
    if run.failure or one.tool.answer is None or one.tool.question not in trace.truth:
        return _Measured(one.tool, one.runs, one.errors, run.failure or one.failure)
    try:
        found = one.tool.answer(folder)
    except (OSError, KeyError, ValueError) as error:
        return _Measured(one.tool, one.runs, [], f"no answer to read: {error!r:.80}")
    return _Measured(one.tool, one.runs, errors(found, trace.truth[one.tool.question]), None)


def rows(trace: Trace, measured: Sequence[_Measured], session: Session) -> list[Row]:
    """What a run says of each tool."""
    floor = next(
        (median(one.runs).cpu_s for one in measured if one.tool.name in (floors.SCAN, floors.JSON)),
        None,
    )
    return [_row(trace, one, floor, session) for one in measured if one.runs]


def missing_row(trace: Trace, tool: Missing, session: Session) -> Row:
    """The row of a tool that is not there: no run, and the reason."""
    return Row(
        trace=trace.name,
        form=trace.form,
        kernels=trace.kernels,
        megabytes=trace.megabytes,
        tool=tool.name,
        version="",
        runs=0,
        cpu_s=0.0,
        wall_s=0.0,
        peak_mb=0.0,
        floor_cpu_s=None,
        session=session,
        failure=tool.reason,
    )


def _row(trace: Trace, one: _Measured, floor: float | None, session: Session) -> Row:
    middle = median(one.runs)
    return Row(
        trace=trace.name,
        form=trace.form,
        kernels=trace.kernels,
        megabytes=trace.megabytes,
        tool=one.tool.name,
        version=one.tool.version,
        runs=len(one.runs),
        cpu_s=middle.cpu_s,
        wall_s=middle.wall_s,
        peak_mb=middle.peak_mb,
        floor_cpu_s=floor,
        session=session,
        question=one.tool.question,
        errors=one.errors,
        failure=middle.failure or one.failure,
        note=one.tool.note,
    )
