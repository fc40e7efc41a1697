"""What goes wrong with real captures, done to a simulated recording, one trouble at a time.

Each trouble has its name from the finding that tells of it.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.recording import Diagnostic, Overhead
from traceanalyzer.simulation.samples import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from traceanalyzer.simulation.recording import Recording

PAGE_BYTES: Final = 512
"""Page size of the broken samples: most of their tables hold a row or two."""

_MOST_BYTES: Final = 60_000
_EARLY_NS: Final = 2_000_000
_LOST_ITERATIONS: Final = 3
_KEPT_TEXT_SHARE: Final = 0.8
_OVERHEAD_SHARE: Final = 0.1


def _no_kernels(recording: Recording) -> None:
    """The GPU's records were never delivered."""
    recording.ops.clear()
    recording.graphs.clear()
    recording.graph_nodes.clear()


def _kernels_on_some_ranks(recording: Recording) -> None:
    """The last worker was killed before its GPU records were flushed."""
    last = recording.processes[-1]
    recording.ops[:] = [op for op in recording.ops if op.process is not last]


def _forked_workers(recording: Recording) -> None:
    """CUDA was not traced in the last worker, which was forked."""
    _kernels_on_some_ranks(recording)
    last = recording.processes[-1]
    recording.calls[:] = [row for row in recording.calls if row.thread.process is not last]
    recording.syncs[:] = [row for row in recording.syncs if row.process is not last]
    recording.graphs[:] = [row for row in recording.graphs if row.thread.process is not last]
    recording.graph_nodes[:] = [
        row for row in recording.graph_nodes if row.thread.process is not last
    ]


def _nvtx_too_new(recording: Recording) -> None:
    """Domains are created, and nothing is recorded in them."""
    recording.ranges.clear()
    recording.marks.clear()


def _no_phase_ranges(recording: Recording) -> None:
    """Nobody put ranges into the server."""
    _nvtx_too_new(recording)
    recording.domains.clear()


def _captured_not_replayed(recording: Recording) -> None:
    """Ranges around the model's code: they open while it is captured, never at a replay."""
    end_ns = max(row.end_ns for row in recording.calls if "GraphInstantiate" in row.name)
    recording.ranges[:] = [row for row in recording.ranges if row.start_ns < end_ns]
    recording.graphs.clear()
    recording.graph_nodes.clear()


def _ranges_left_open(recording: Recording) -> None:
    """The first verify leaves its range by an exception, and nobody pops it."""
    place = next(
        place
        for place, row in enumerate(recording.ranges)
        if row.name == "verify" and row.payload == recording.iterations[0].number
    )
    recording.ranges[place] = replace(recording.ranges[place], end_ns=None)


def _buffers_lost(recording: Recording) -> None:
    """The recorder says that it lost events."""
    process = recording.processes[0]
    text = "Not all CUDA events might have been collected."
    recording.diagnostics.append(Diagnostic(recording.end_ns, 2, text, process))


def _launches_without_kernels(recording: Recording) -> None:
    """Collection stopped while the GPU was iterations behind."""
    first = recording.iterations[-_LOST_ITERATIONS].number
    recording.ops[:] = [op for op in recording.ops if (op.iteration or 0) < first]


def _clocks_not_aligned(recording: Recording) -> None:
    """The GPU's clock is 2 ms behind the CPU's."""
    recording.ops[:] = [
        replace(op, start_ns=op.start_ns - _EARLY_NS, end_ns=op.end_ns - _EARLY_NS)
        for op in recording.ops
    ]


def _profiler_overhead(recording: Recording) -> None:
    """The recorder flushes its buffers at the start of every cycle."""
    cycles = [row for row in recording.ranges if row.name == "cycle"]
    whole_ns = recording.end_ns - cycles[0].start_ns
    length_ns = int(_OVERHEAD_SHARE * whole_ns / len(cycles))
    recording.overheads += [
        Overhead(row.thread, row.start_ns, row.start_ns + length_ns, "CUPTI: Buffer flush")
        for row in cycles
    ]


def _secrets_stored(recording: Recording) -> None:
    """The program was recorded with all of its user's environment."""
    recording.host = "gpu-node-17"
    recording.environment.update(
        {
            "USER": "casey",
            "HOME": "/home/casey",
            "HOSTNAME": "gpu-node-17",
            "PATH": "/home/casey/venv/bin:/usr/bin",
            "HF_TOKEN": "simulated-not-a-token",
            "WANDB_API_KEY": "simulated-not-a-key",
        }
    )
    recording.program = "/home/casey/venv/bin/python3.11"


TROUBLES: Final[Mapping[str, Callable[[Recording], None]]] = {
    "no_kernels": _no_kernels,
    "kernels_on_some_ranks": _kernels_on_some_ranks,
    "forked_workers": _forked_workers,
    "nvtx_too_new": _nvtx_too_new,
    "no_phase_ranges": _no_phase_ranges,
    "captured_not_replayed": _captured_not_replayed,
    "ranges_left_open": _ranges_left_open,
    "buffers_lost": _buffers_lost,
    "launches_without_kernels": _launches_without_kernels,
    "clocks_not_aligned": _clocks_not_aligned,
    "profiler_overhead": _profiler_overhead,
    "secrets_stored": _secrets_stored,
}
"""What can be done to a recording, by the finding that tells of it."""


def cut_text(path: Path) -> None:
    """Cut a JSON trace off after four fifths of its text, in the middle of an event."""
    packed = path.suffix == ".gz"
    data = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    data = data[: int(len(data) * _KEPT_TEXT_SHARE)]
    path.write_bytes(gzip.compress(data, mtime=0) if packed else data)


@dataclass(frozen=True, slots=True)
class BrokenSample:
    """A sample with one trouble, and the sound one beside it.

    Attributes:
        finding: The one finding that it raises.
        sample: How it is written.
        twin: The sample that differs in the trouble alone, and raises none.
        shows: What happened to it.
    """

    finding: str
    sample: Sample
    twin: str
    shows: str


def _sample(name: str, options: str = "") -> Sample:
    return Sample(f"broken/{name}", f"--preset tiny {options}".strip(), _MOST_BYTES)


_PAIR: Final = "--ranks 2 --cycles 2 --set capture_recorded=false"
HEALTHY: Final = (
    _sample("healthy.sqlite"),
    _sample("healthy_2025.sqlite", "--flavour 2025.5"),
    _sample("healthy_two_ranks.sqlite", _PAIR),
    _sample("healthy.json.gz", "--format kineto"),
)
"""The sound twins."""

_MADE: Final = (
    ("no_kernels", "", "healthy", "API calls and ranges, but no GPU records"),
    ("kernels_on_some_ranks", _PAIR, "healthy_two_ranks", "one worker of two left no kernels"),
    ("forked_workers", _PAIR, "healthy_two_ranks", "one worker of two has ranges and no CUDA"),
    ("nvtx_too_new", "", "healthy", "domains without ranges, nsys 2022.4"),
    ("no_phase_ranges", "", "healthy", "no ranges at all"),
    ("captured_not_replayed", "", "healthy", "ranges only while graphs were captured"),
    ("ranges_left_open", "", "healthy", "the first verify was never popped"),
    ("buffers_lost", "--flavour 2025.5", "healthy_2025", "the recorder says that events are lost"),
    ("launches_without_kernels", "", "healthy", "the last three iterations never ran"),
    ("clocks_not_aligned", "", "healthy", "the GPU's clock is 2 ms behind"),
    ("profiler_overhead", "", "healthy", "a tenth of each cycle goes to flushing buffers"),
    ("secrets_stored", "", "healthy", "made-up variables, person and host, as nsys stores them"),
)
_SET: Final = (
    ("synchronisation_in_phases", "--set synchronise=true", "timers that synchronise"),
    ("kernels_without_launches", "--set orphan_kernels=3", "three kernels without API calls"),
    ("accept_marks_missing", "--set marks=false", "ranges, but no marks"),
    ("lag_over_a_cycle", "--set lag_cycles=2", "the GPU runs two iterations behind"),
)
BROKEN: Final = (
    *(
        BrokenSample(
            name, _sample(f"{name}.sqlite", f"{options} --trouble {name}".strip()),
            f"broken/{twin}.sqlite", shows,
        )
        for name, options, twin, shows in _MADE
    ),
    *(
        BrokenSample(name, _sample(f"{name}.sqlite", options), "broken/healthy.sqlite", shows)
        for name, options, shows in _SET
    ),
    BrokenSample(
        "graph_mode",
        _sample("graph_mode.sqlite", "--graph-mode graph"),
        "broken/healthy_2025.sqlite",
        "each replay is one row",
    ),
    BrokenSample(
        "truncated",
        _sample("truncated.json.gz", "--format kineto --trouble truncated"),
        "broken/healthy.json.gz",
        "the JSON breaks off in the middle of an event",
    ),
)  # fmt: skip
"""One broken sample a finding."""
