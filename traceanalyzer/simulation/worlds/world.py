"""A world: one server that can be served untraced, and recorded in any way.

    world = World(WorldSettings())
    truth = world.served          # figures of the untraced server
    world.record(Recorder(graph_trace="node", node_us=1.5)).write("trace.sqlite")

Everything is simulated; the truth of a run is read off the run itself, never off what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from traceanalyzer.simulation.nsys_files import write_nsys_sqlite
from traceanalyzer.simulation.nsys_schema import NSYS_2025_5
from traceanalyzer.simulation.worlds.figures import Figures, figures_of
from traceanalyzer.simulation.worlds.recorded import with_faults
from traceanalyzer.simulation.worlds.runs import Run, run_of
from traceanalyzer.simulation.worlds.settings import UNTRACED, Recorder, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.recording import Recording

__all__ = ["Capture", "Truth", "World"]


@dataclass(frozen=True)
class Capture:
    """One run under a recorder.

    Attributes:
        run: What really happened in it.
    """

    run: Run
    recorder: Recorder
    seed: int

    @cached_property
    def figures(self) -> Figures:
        """Of this very run: as it was traced, on the true clock."""
        return figures_of(self.run.recording, self.run.steps)

    @cached_property
    def recording(self) -> Recording:
        """What its file holds, the recorder's faults included."""
        return with_faults(self.run.recording, self.recorder, self.seed)

    def write(self, path: Path) -> Path:
        """Write the SQLite export of Nsight Systems; returns the path."""
        write_nsys_sqlite(self.recording, path, NSYS_2025_5)
        return path


@dataclass(frozen=True, slots=True)
class Truth:
    """The true figures of a server as served untraced, in its main bucket.

    Attributes:
        speculating: The untraced server.
        plain: The same with speculation off; None where it speculates not at all.
        speedup: Of decoding in the main bucket, S = A x T_base(B) / T(B).
        break_even_accept_len: T(B) / T_base(B).
    """

    speculating: Figures
    plain: Figures | None
    speedup: float | None
    break_even_accept_len: float | None


@dataclass(frozen=True)
class World:
    """One server under one load."""

    settings: WorldSettings

    def record(self, recorder: Recorder = UNTRACED) -> Capture:
        """Run the server under a recorder."""
        return Capture(run_of(self.settings, recorder), recorder, self.settings.seed)

    @property
    def plain(self) -> World:
        """The same server and load with speculation off."""
        return World(self.settings.without_speculation())

    @cached_property
    def served(self) -> Figures:
        """Figures of the untraced server."""
        return self.record().figures

    @cached_property
    def truth(self) -> Truth:
        """Figures of the untraced server beside those of its plain twin."""
        if not self.settings.speculates:
            return Truth(self.served, None, None, None)
        plain = self.plain.served
        main = next((each for each in self.served.buckets if each.shape.kind == "verify"), None)
        if main is None:
            return Truth(self.served, plain, None, None)
        step_ns = step_at(plain, main.shape.batch)
        if step_ns is None:
            return Truth(self.served, plain, None, None)
        break_even = main.period_ns / step_ns
        return Truth(self.served, plain, main.accept_len / break_even, break_even)


def step_at(plain: Figures, batch: int) -> float | None:
    """Mean plain decode step at a batch, None where there was none."""
    for each in plain.buckets:
        if each.shape.kind == "decode" and each.shape.batch == batch:
            return each.period_ns
    return None
