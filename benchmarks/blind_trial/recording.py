"""A world as a user records it: files on disk, the options of a command line, and reports.

Only paths leave this module's first half; its second half, the analysis, sees nothing else.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from records import Recorded, Remark

import traceanalyzer
from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.log import read_acceptance
from traceanalyzer.pipeline import analyze
from traceanalyzer.simulation.worlds import log_of
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known
from traceanalyzer.verdict.two_pass import unjudged, with_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from traceanalyzer.report import Report
    from traceanalyzer.simulation.worlds import DrawnWorld, Recorder

GRAPH: Final = "graph mode"
NODE: Final = "node mode"
TWO_PASS: Final = "two passes"
SYNCHRONISED: Final = "synchronised"
WAYS: Final = (GRAPH, NODE, TWO_PASS, SYNCHRONISED)

_LOST_IN_ONE_OF: Final = 8
_NODES_IN_ONE_OF: Final = 3
_SYNCHRONISED_IN_ONE_OF: Final = 6
_LOG_IN_ONE_OF: Final = 3


@dataclass(frozen=True, slots=True)
class Habits:
    """How the user of a world records it.

    Attributes:
        lost_buffers: Buffers that never arrive, in the captures of the speculating server.
        nodes: Whether both servers are recorded node by node too.
        synchronised: Whether one capture more is made under synchronising timers.
        log: Whether the server's log is named too.
    """

    lost_buffers: int
    nodes: bool
    synchronised: bool
    log: bool

    @classmethod
    def of(cls, seed: int) -> Habits:
        """Drawn by lot, apart from the world."""
        rng = random.Random(f"habits {seed}")
        loses = rng.randrange(_LOST_IN_ONE_OF) == 0
        return cls(
            rng.randint(1, 3) if loses else 0,
            rng.randrange(_NODES_IN_ONE_OF) == 0,
            rng.randrange(_SYNCHRONISED_IN_ONE_OF) == 0,
            rng.randrange(_LOG_IN_ONE_OF) == 0,
        )


@dataclass(frozen=True, slots=True)
class Files:
    """What lies on disk afterwards; None where it was not recorded."""

    graph: Path
    baseline: Path
    nodes: tuple[Path, Path] | None
    synchronised: Path | None
    log: Path | None


def recorded(world: DrawnWorld, habits: Habits, folder: Path) -> Files:
    """Record a world into an existing folder."""

    def spoilt(recorder: Recorder) -> Recorder:
        return replace(recorder, lost_buffers=habits.lost_buffers)

    plain, by = world.plain, world.recorders
    nodes, synchronised, log = None, None, None
    if habits.nodes:
        nodes = (
            world.record(spoilt(by.node)).write(folder / "node.sqlite"),
            plain.record(by.node).write(folder / "baseline_node.sqlite"),
        )
    if habits.synchronised:
        capture = world.record(spoilt(by.synchronised))
        synchronised = capture.write(folder / "synchronised.sqlite")
    if habits.log and (text := log_of(world.record().run, world.settings.engine)):
        log = folder / "server.log"
        log.write_text(text)
    return Files(
        world.record(spoilt(by.graph)).write(folder / "graph.sqlite"),
        plain.record(by.graph).write(folder / "baseline.sqlite"),
        nodes,
        synchronised,
        log,
    )


def reports(files: Files) -> Iterator[tuple[str, Report | Recorded]]:
    """The report of each way, or what was said instead of one.

    As `traceanalyzer report` makes them; each capture is analysed once, as a report of it that was
    kept as JSON may be named in its place.
    """
    graph, plain, log = _analyzed(files.graph), _analyzed(files.baseline), files.log
    yield GRAPH, _attempt(GRAPH, lambda: _judged(graph, plain, log))
    if files.nodes is not None:
        node, plain_node = (_analyzed(path) for path in files.nodes)
        yield NODE, _attempt(NODE, lambda: _judged(node, plain_node, log))

        def both() -> Report:
            return _judged(with_shares(graph, node), with_shares(plain, plain_node), log)

        yield TWO_PASS, _attempt(TWO_PASS, both)
    if files.synchronised is not None:
        timed = _analyzed(files.synchronised)
        yield SYNCHRONISED, _attempt(SYNCHRONISED, lambda: _judged(timed, plain, log))


def _analyzed(path: Path) -> Report:
    return analyze(traceanalyzer.load(path))


def _judged(report: Report, plain: Report, log: Path | None) -> Report:
    readings = () if log is None else (read_acceptance(log, engine=None, version=None),)
    return judged(unjudged(report), Known(measured_baseline(plain), readings))


def _attempt(way: str, make: Callable[[], Report]) -> Report | Recorded:
    try:
        return make()
    except InputError as error:
        remark = Remark("no report", str(error.where), error.what, error.next_step)
        return Recorded(way, "no report", [], [remark])
