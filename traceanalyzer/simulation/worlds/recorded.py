"""What a recorder's own faults make of the rows it saw: wrong clocks, lost buffers, a window."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nvtx_hooks.vocabulary import RANKS
from traceanalyzer.simulation.recording import Diagnostic

if TYPE_CHECKING:
    from traceanalyzer.simulation.recording import Op, Recording
    from traceanalyzer.simulation.worlds.settings import Recorder

_BUFFER_OPS: Final = 120
LOST_TEXT: Final = "Not all CUDA events might have been collected."
"""How Nsight Systems says that buffers are gone."""


def with_faults(recording: Recording, recorder: Recorder, seed: int) -> Recording:
    """The recording as its file holds it; the given one stays as it is."""
    ops = _without_lost(recording.ops, recorder, seed)
    diagnostics = list(recording.diagnostics)
    if recorder.lost_buffers:
        process = recording.processes[0]
        diagnostics.append(Diagnostic(recording.end_ns, 2, LOST_TEXT, process))
    last = max((op.process.gpu_id for op in ops), default=0)
    faulty = replace(
        recording,
        ops=[_moved(op, recorder, last) for op in ops],
        diagnostics=diagnostics,
    )
    return _within(faulty, recorder.window_us) if recorder.window_us else faulty


def _within(recording: Recording, window_us: tuple[float, float]) -> Recording:
    """What is recorded between two instants: a row that began before is not there at all."""
    first_ns, last_ns = (round(1e3 * each) for each in window_us)

    def held(start_ns: int, end_ns: int) -> bool:
        return first_ns <= start_ns and end_ns <= last_ns

    calls = [row for row in recording.calls if held(row.start_ns, row.end_ns)]
    launched = {(row.thread.process.process_id, row.correlation_id) for row in calls}
    ranges = [
        row if row.end_ns is None or row.end_ns <= last_ns else replace(row, end_ns=None)
        for row in recording.ranges
        if held(row.start_ns, row.start_ns)
    ]
    ops = [
        op
        if (op.process.process_id, op.correlation_id) in launched
        else replace(op, method="no launch row")
        for op in recording.ops
        if held(op.start_ns, op.end_ns)
    ]
    return replace(
        recording,
        calls=calls,
        ranges=ranges,
        ops=ops,
        marks=[
            row
            for row in recording.marks
            if row.name == RANKS or held(row.time_ns, row.time_ns)  # told again when it begins
        ],
        syncs=[row for row in recording.syncs if held(row.start_ns, row.end_ns)],
        overheads=[row for row in recording.overheads if held(row.start_ns, row.end_ns)],
    )


def _moved(op: Op, recorder: Recorder, last: int) -> Op:
    """An op at the time its GPU's clock shows."""
    offsets = recorder.clock_offsets_us
    if not offsets and not recorder.drift_ppm:
        return op
    place = op.process.gpu_id
    offset_us = offsets[min(place, len(offsets) - 1)] if offsets else 0.0
    rate = 1e-6 * recorder.drift_ppm if place == last else 0.0

    def shown(time_ns: int) -> int:
        return time_ns + round(1e3 * offset_us + rate * time_ns)

    return replace(op, start_ns=shown(op.start_ns), end_ns=shown(op.end_ns))


def _without_lost(ops: list[Op], recorder: Recorder, seed: int) -> list[Op]:
    """All ops but those of some buffers; a buffer holds what one GPU ran in a row."""
    if not recorder.lost_buffers:
        return list(ops)
    rng = random.Random(f"lost {seed}")  # noqa: S311  no secret
    places = [place for place, op in enumerate(ops) if op.process is ops[0].process]
    starts = [
        rng.randrange(len(places) // 4, max(len(places) // 4 + 1, len(places) - _BUFFER_OPS))
        for _buffer in range(recorder.lost_buffers)
    ]
    lost = {place for start in starts for place in places[start : start + _BUFFER_OPS]}
    return [op for place, op in enumerate(ops) if place not in lost]
