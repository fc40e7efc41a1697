"""How a simulated server comes up: its processes, threads and domains, and work from before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation import kernel_names as names
from traceanalyzer.simulation.machine import COMPUTE, HostThread, Rank
from traceanalyzer.simulation.recording import (
    UNATTRIBUTED,
    Diagnostic,
    Domain,
    Op,
    Process,
    Recording,
)

if TYPE_CHECKING:
    from traceanalyzer.simulation.settings import Eagle3Settings

_FIRST_PROCESS_ID, _PROCESS_STEP = 41_000, 7
_FIRST_CORRELATION, _CORRELATION_STEP = 900, 11
_ORPHAN_CORRELATION: Final = 100
_START_NS = 40_000_000
_ORPHAN_NS = 25_000


def start_rank(recording: Recording, settings: Eagle3Settings, rank: int) -> Rank:
    """Bring up one tensor-parallel rank.

    All ranks count their correlation ids through nearly the same numbers, so an id of one rank is
    that of another call on the next.
    """
    process = Process(
        _FIRST_PROCESS_ID + _PROCESS_STEP * rank,
        f"sglang::scheduler_TP{rank}",
        device_id=0 if settings.one_visible_gpu else rank,
        gpu_id=rank,
    )
    recording.processes.append(process)
    main = recording.thread(process, process.process_id, f"scheduler_TP{rank}")
    offload = recording.thread(process, process.process_id + 3, "kv_offload")
    inside = settings.capture_recorded and not settings.precapture
    first_ns = 12_000_000 if inside else -3_000_000_000
    for place, name in enumerate(("NCCL", settings.domain)):
        if name is not None:
            recording.domains.append(Domain(main, first_ns + 50_000 * place, name))
    recording.diagnostics.append(
        Diagnostic(1_000_000, 1, "CUDA injection initialized successfully.", process)
    )
    start_ns = _START_NS + 90_000 * rank
    return Rank(
        recording,
        process,
        HostThread(recording, main, start_ns),
        HostThread(recording, offload, start_ns),
        _FIRST_CORRELATION + _CORRELATION_STEP * rank,
        1 + (settings.slow_rank_share if rank == settings.ranks - 1 else 0),
        settings.backtraces,
    )


def run_orphans(rank: Rank, count: int) -> None:
    """Let kernels run that were launched before the recording began: no launch row of them."""
    start_ns = rank.main.now_ns
    for place in range(count):
        rank.recording.ops.append(
            Op(
                "kernel",
                rank.process,
                COMPUTE,
                start_ns,
                start_ns + _ORPHAN_NS,
                _ORPHAN_CORRELATION + place,
                UNATTRIBUTED,
                "no launch row",
                kernel=names.DOWN_GEMM,
            )
        )
        start_ns += _ORPHAN_NS + 1_000
    rank.occupy(COMPUTE, start_ns)
