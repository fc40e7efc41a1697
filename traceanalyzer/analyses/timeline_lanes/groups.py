"""The groups of a timeline's lanes: a rank with the CPU threads of its process, on one clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analyses.timeline_lanes.model import (
    CALLS,
    COLLECTIVES,
    CYCLES,
    GRAPH_LAUNCHES,
    PHASES,
    STREAM,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]

_TITLES = {CYCLES: "cycles", PHASES: "phases", COLLECTIVES: "collectives"}


@dataclass(frozen=True, slots=True)
class Groups:
    """Attributes of the groups.

    Attributes:
        titles: One a rank; processes without GPU work follow.
        processes: Row in `trace.processes` of each.
        of_thread: Group of each thread; threads of a process with several GPUs are drawn with
            its first.
        shift_ns: What to add to times of each group to bring them on one clock.
        thread_ids: The operating system's number of each thread.
        thread_names: Its name, None when the trace has none.
        notes: What to know about the clocks.
    """

    titles: tuple[str, ...]
    processes: tuple[int, ...]
    of_thread: Int64s
    shift_ns: Int64s
    thread_ids: tuple[int, ...]
    thread_names: tuple[str | None, ...]
    notes: tuple[str, ...]

    def lane_title(self, kind: str, track: int, row: int) -> str:
        """What a person reads beside a lane."""
        if kind == STREAM:
            title = f"stream {track}"
        elif kind in (GRAPH_LAUNCHES, CALLS):
            what = "graph launches" if kind == GRAPH_LAUNCHES else "API calls"
            title = f"{what} {self.thread_ids[track]}"
        elif kind in _TITLES:
            title = _TITLES[kind]
        else:
            thread, elsewhere = divmod(track, 2)
            name = self.thread_names[thread]
            title = f"{name or 'thread'} {self.thread_ids[thread]}"
            title += ", closed elsewhere" if elsewhere else ""
        return f"{title} · {row + 1}" if row else title


def find_groups(phased: PhasedTrace) -> Groups:
    """Group the threads of a trace by rank, and align the clocks of its files."""
    trace = phased.trace
    process = list(phased.ranks.process)
    titles = [
        f"rank {number}" + (f" · {name}" if name else "")
        for number, name in zip(phased.ranks.number, trace.devices["name"], strict=True)
    ]
    for row in trace.threads["process"].unique(maintain_order=True).to_list():
        if row not in process:
            process.append(row)
            titles.append(f"process {trace.processes['process_id'][row]}")
    of_process = {row: place for place, row in reversed(list(enumerate(process)))}
    of_thread = [of_process[row] for row in trace.threads["process"].to_list()]
    of_file, notes = _shifts(trace)
    files = trace.processes["file"].to_numpy()
    return Groups(
        titles=tuple(titles),
        processes=tuple(process),
        of_thread=np.array(of_thread, np.int64),
        shift_ns=of_file[files[np.array(process, np.int64)]],
        thread_ids=tuple(trace.threads["thread_id"]),
        thread_names=tuple(trace.threads["name"]),
        notes=notes,
    )


def _shifts(trace: Trace) -> tuple[Int64s, tuple[str, ...]]:
    """What to add to each file's times, and what to say about it."""
    files = trace.files.height
    nothing = np.zeros(files, np.int64)
    if files < 2:
        return nothing, ()
    start = trace.files["start_utc_ns"]
    if start.null_count():
        return nothing, (
            "The ranks come from several files whose clocks are not known: "
            "do not compare times of two files.",
        )
    utc = start.to_numpy()
    return utc - utc.min(), (
        "The ranks come from several files, aligned by the UTC start that each states: "
        "do not read skew between ranks from this picture.",
    )
