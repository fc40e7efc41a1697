"""One run of a world's server under a recorder: its rows, and what each step did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.simulation.worlds.engines import server_of
from traceanalyzer.simulation.worlds.parallel import parallel_server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.simulation.recording import Recording
    from traceanalyzer.simulation.worlds.settings import Recorder, WorldSettings
    from traceanalyzer.simulation.worlds.steps import Step


@dataclass(frozen=True, slots=True)
class Run:
    """What happened.

    Attributes:
        recording: Every row, on the true clock.
        steps: By number.
    """

    recording: Recording
    steps: Mapping[int, Step]


def run_of(settings: WorldSettings, recorder: Recorder) -> Run:
    """Run a world's server.

    Args:
        settings: The server and its load.
        recorder: Who watches.
    """
    apart = settings.parallel.data > 1 or settings.parallel.pipeline > 1
    server = (parallel_server if apart else server_of)(settings, recorder)
    server.run()
    return Run(server.recording, server.steps)
