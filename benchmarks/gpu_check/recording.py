"""A few hooked cycles under torch.profiler: what the analyzer says of them, and the trace to keep.

The profiler stores no environment. Of its events those are kept that an analysis reads, and of its
header what tells neither file names nor hosts.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from steady import PHASES, SteadyLoop, hooked
from torch.profiler import ProfilerActivity, profile

import traceanalyzer
from nvtx_hooks.emit import RecordFunction

if TYPE_CHECKING:
    from traceanalyzer.report import Report

KEPT_CATEGORIES = {
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_runtime",
    "cuda_driver",
    "cuda_sync",
    "ac2g",
    "user_annotation",
    "gpu_user_annotation",
}
KEPT_HEADER = ("schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds")


@dataclass(frozen=True)
class Recorded:
    """What a trace says of the cycles in it; times in seconds a cycle.

    Attributes:
        period_s: From one target forward to the next.
        window_s: By phase, gaps included: what leaving it out can save at most.
        busy_s: By phase, only while no other runs.
        graph_launches: By phase, a cycle.
        attributed_share: Share of the GPU's busy time that has a launch in a known range; None on a
            CPU.
        cycles: Cycles the figures are means over.
    """

    period_s: float
    window_s: dict[str, float]
    busy_s: dict[str, float]
    graph_launches: dict[str, float]
    attributed_share: float | None
    cycles: int


def record(loop: SteadyLoop, cycles: int, path: Path) -> Recorded:
    """Record cycles of a running loop into a small gzipped trace, and analyze that.

    Args:
        loop: It has been started, without hooks.
        cycles: How many.
        path: File to write, ending in .json.gz.
    """
    activities = [ProfilerActivity.CPU]
    if loop.device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with hooked(RecordFunction(always=False)):
        with profile(activities=activities) as profiler:
            loop.run(cycles)
        with TemporaryDirectory() as folder:
            whole = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(whole))
            keep(json.loads(whole.read_bytes()), path)
    return read(traceanalyzer.analyze(traceanalyzer.load(path)))


def keep(trace: dict[str, Any], path: Path) -> None:
    """Write the part of a trace that an analysis reads."""
    events = [
        event
        for event in trace["traceEvents"]
        if event.get("cat") in KEPT_CATEGORIES and event["name"] != "PyTorch Profiler (0)"
    ]
    header = {name: trace[name] for name in KEPT_HEADER if name in trace}
    text = json.dumps({**header, "traceEvents": events}, separators=(",", ":"))
    # Neither the time nor the file's own name belongs into it.
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        packed.write(text.encode())


def read(report: Report) -> Recorded:
    """The figures of a report on one rank whose cycles are alike.

    Raises:
        SystemExit: There are no cycles in it, or several shapes.
    """
    if len(report.ranks) != 1 or len(report.buckets) != 1:
        raise SystemExit(f"{len(report.ranks)} ranks and {len(report.buckets)} shapes of cycles")
    (rank,), (bucket,) = report.ranks, report.buckets
    windows = {phase.phase: phase for phase in bucket.phases}
    missing = PHASES.keys() - windows.keys()
    if missing:
        raise SystemExit(f"phases without a window: {', '.join(sorted(missing))}")
    return Recorded(
        bucket.period_ns.mean / 1e9,
        {name: windows[name].window_ns_per_cycle.mean / 1e9 for name in PHASES},
        {
            name: (windows[name].window_ns_per_cycle.mean - windows[name].gap_ns_per_cycle) / 1e9
            for name in PHASES
        },
        {name: windows[name].graph_launches_per_cycle for name in PHASES},
        rank.coverage.covered_share if rank.coverage.busy_ns else None,
        bucket.cycles,
    )
