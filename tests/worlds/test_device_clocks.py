"""GPU clocks that are microseconds off, and drift: what is compared across GPUs, or with a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.answers import analyzed, bucket_like, complaints, is_off
from traceanalyzer.simulation.worlds import Parallel, Recorder, World, WorldSettings

if TYPE_CHECKING:
    from pathlib import Path

PARALLEL = Parallel(tensor=2, slow_rank_share=0.03)
WORLD = World(WorldSettings(engine="sglang_v2", parallel=PARALLEL, cycles=30))
CLOCKS = [((0.0, 5.0), 0.0), ((0.0, -5.0), 0.0), ((2.0, 0.0), 20.0)]


def recorder(offsets_us: tuple[float, ...], drift_ppm: float) -> Recorder:
    return Recorder(graph_trace="node", clock_offsets_us=offsets_us, drift_ppm=drift_ppm)


def waits_by_starts(recorder_used: Recorder) -> dict[int, float]:
    """Last start less own start of each all-reduce, in turn: mean by rank."""
    capture = WORLD.record(recorder_used)
    starts = [
        [
            op.start_ns
            for op in capture.recording.ops
            if op.process is process and op.kernel and "AllReduce" in op.kernel.demangled
        ]
        for process in capture.recording.processes
    ]
    last = [max(both) for both in zip(*starts, strict=True)]
    return {
        rank: sum(end - own for end, own in zip(last, times, strict=True)) / len(times)
        for rank, times in enumerate(starts)
    }


TRUE_WAITS = waits_by_starts(recorder((), 0.0))


@pytest.mark.parametrize(("offsets_us", "drift_ppm"), CLOCKS)
def test_waits_across_clocks_are_right_or_refused(
    tmp_path: Path, offsets_us: tuple[float, ...], drift_ppm: float
) -> None:
    true = TRUE_WAITS
    naive = waits_by_starts(recorder(offsets_us, drift_ppm))
    assert max(abs(naive[rank] - true[rank]) for rank in true) > 0.2 * max(true.values())
    capture = WORLD.record(recorder(offsets_us, drift_ppm))
    (group,) = analyzed(capture, tmp_path).skew
    for row in group.waits:
        wanted = capture.figures.collective_wait_ns[row.rank, row.phase]
        if row.wait_ns_per_cycle is not None:
            assert row.wait_ns_per_cycle == pytest.approx(wanted, rel=0.1, abs=500)
    if not group.resolved:
        assert group.waiting_included, "why nothing is told"
        assert group.late_rank is None


@pytest.mark.parametrize(("offsets_us", "drift_ppm"), CLOCKS)
def test_windows_do_not_depend_on_where_a_clock_stands(
    tmp_path: Path, offsets_us: tuple[float, ...], drift_ppm: float
) -> None:
    main = WORLD.served.bucket("verify")
    report = analyzed(WORLD.record(recorder(offsets_us, drift_ppm)), tmp_path)
    assert is_off(bucket_like(report, main.shape).mean_period_ns.value, main.period_ns) < 1e-4


def test_a_lead_is_off_by_the_clock_and_a_start_before_its_launch_is_told(tmp_path: Path) -> None:
    one = World(WorldSettings(engine="sglang_v1", cycles=30))
    near = analyzed(one.record(recorder((3.0,), 0.0)), tmp_path)
    truth = one.served.host_lead[0, "draft"].p50
    (draft,) = [phase for phase in near.ranks[0].phases if phase.phase == "draft"]
    assert draft.host_lead_ns is not None
    assert abs(draft.host_lead_ns.p50 - truth) <= 3_500
    early = analyzed(one.record(recorder((-12.0,), 0.0)), tmp_path)
    assert any(text.startswith("clocks_not_aligned:") for text in complaints(early))
