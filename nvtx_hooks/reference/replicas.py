"""Serves with one process or with several data-parallel ones, each with all the weights.

Several are spawned, as SGLang's are, and end by returning, so that a profiler in them can flush.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from nvtx_hooks.reference import weights
from nvtx_hooks.reference.engine import Engine
from nvtx_hooks.reference.serving import replica_record, serve, workload

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from nvtx_hooks.reference.config import EngineSettings
    from nvtx_hooks.reference.serving import WorkloadSettings


class ReplicaFailed(RuntimeError):
    """A replica ended without a result; it has said why on stderr."""


@dataclass(frozen=True, slots=True)
class ReplicaJob:
    """What one replica needs; it can be pickled.

    Attributes:
        weights: From `weights.pack`.
        settings: Of the engine; `dp_rank` and `dp_size` say which replica it is.
        workload: Of all replicas.
        device: "cpu" or "cuda"; replicas take the CUDA devices in turn.
    """

    weights: bytes
    settings: EngineSettings
    workload: WorkloadSettings
    device: str = "cpu"


def run_replica(job: ReplicaJob) -> dict[str, Any]:
    """Serve one replica's requests in this process.

    Returns:
        `serving.replica_record`.
    """
    # Threads of one process would only contend: the matrices are small, and replicas share cores.
    torch.set_num_threads(1)
    rank, size = job.settings.dp_rank, job.settings.dp_size
    models = weights.unpack(job.weights)
    device = _device(job.device, rank)
    engine = Engine(models.target.to(device), models.draft_head.to(device), job.settings)
    engine.warm_up()
    served = serve(engine, workload(job.workload, rank, size))
    return replica_record(served, rank, job.settings.k)


def run_replicas(job: ReplicaJob) -> list[dict[str, Any]]:
    """Serve with `job.settings.dp_size` processes, this one when it is one.

    Raises:
        ReplicaFailed: One of them ended without a result.
    """
    size = job.settings.dp_size
    if size == 1:
        return [run_replica(job)]
    context = multiprocessing.get_context("spawn")
    started = []
    try:
        for rank in range(size):
            receiving, sending = context.Pipe(duplex=False)
            ranked = replace(job, settings=replace(job.settings, dp_rank=rank))
            process = context.Process(target=_send_result, args=(ranked, sending))
            process.start()
            sending.close()
            started.append((process, receiving))
        records = [_receive(rank, receiving) for rank, (_, receiving) in enumerate(started)]
    except BaseException as error:
        # Ctrl-C has reached them as well, and a profiler in them wants to end in peace.
        patience = 5.0 if isinstance(error, KeyboardInterrupt) else 0.0
        for process, _ in started:
            process.join(patience)
            process.terminate()
        raise
    finally:
        for process, _ in started:
            process.join()
    return records


def _device(name: str, rank: int) -> torch.device:
    if name != "cuda":
        return torch.device(name)
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _send_result(job: ReplicaJob, sending: Connection) -> None:
    # It is the parent that answers Ctrl-C.
    with contextlib.suppress(KeyboardInterrupt):
        sending.send(run_replica(job))
    sending.close()


def _receive(rank: int, receiving: Connection) -> dict[str, Any]:
    try:
        record: dict[str, Any] = receiving.recv()
    except EOFError:
        raise ReplicaFailed(f"replica {rank} ended without a result") from None
    return record
