"""What is done to a recording once its server has stopped: request ranges, and leaving rows out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.simulation.recording import Range, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.machine import Rank

_REQUEST_ITERATIONS = 6


def add_requests(recording: Recording, ranks: Sequence[Rank], step: str) -> None:
    """Add start/end ranges over several steps; every second one ends on another thread.

    Args:
        recording: Gets the ranges.
        ranks: Processes that have them.
        step: Name of the scheduler's range around a step.
    """
    for rank in ranks:
        batches = sorted(
            row.start_ns
            for row in recording.ranges
            if row.name == step and row.thread is rank.main.thread
        )
        for place, first in enumerate(range(0, len(batches), _REQUEST_ITERATIONS)):
            last = first + _REQUEST_ITERATIONS
            recording.ranges.append(
                Range(
                    rank.main.thread,
                    batches[first] - 5_000,
                    batches[last] + 20_000 if last < len(batches) else None,
                    "request",
                    style="start_end",
                    end_thread=rank.offload.thread if place % 2 else None,
                    registered=False,
                )
            )


def forget_gpu(recording: Recording) -> None:
    """Leave only what a session without CUDA tracing records."""
    recording.ops.clear()
    recording.calls.clear()
    recording.syncs.clear()
    recording.graphs.clear()
    recording.graph_nodes.clear()
    recording.diagnostics.clear()
