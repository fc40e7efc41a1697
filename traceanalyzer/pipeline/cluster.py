"""A Dask cluster that the user already has, as the place where ranks are measured.

Its workers read the files where they lie, and send back small tables. Dask runs a task again
elsewhere when its worker is lost; only what several workers died of counts as lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import traceanalyzer
from traceanalyzer.errors import InputError
from traceanalyzer.pipeline.workers import Pending, WorkerDied

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_Result = TypeVar("_Result")

_PATIENCE_S: Final = 15


class Cluster:
    """A connection, within `with`.

    Args:
        address: Of the scheduler, such as tcp://host:8786, or the file that it wrote.

    Raises:
        InputError: Dask is not installed, nobody answers there, or no worker has this version of
            traceanalyzer.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError:
            raise InputError(
                "Dask is not installed",
                where="--scheduler",
                next_step="Install it with: pip install 'traceanalyzer[dask]'",
            ) from None
        self._distributed = distributed
        where: dict[str, Any] = {"address": address}
        if Path(address).is_file():
            where = {"scheduler_file": address}
        try:
            self._client = distributed.Client(**where, timeout=_PATIENCE_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"no Dask scheduler answers: {error}",
                where=f"--scheduler {address}",
                next_step="Give its address, such as tcp://host:8786, or its scheduler file.",
            ) from None
        try:
            self._check(address)
        except BaseException:
            self._client.close()
            raise

    def _check(self, address: str) -> None:
        where = f"--scheduler {address}"
        try:
            self._client.wait_for_workers(1, timeout=_PATIENCE_S)
        except TimeoutError:
            raise InputError(
                "the cluster has no workers",
                where=where,
                next_step="Start some: dask worker ADDRESS",
            ) from None
        try:
            versions = self._client.run(_version)
        except Exception as error:  # whatever reading our code raises over there
            raise InputError(
                f"a worker cannot run traceanalyzer: {error}",
                where=where,
                next_step="Install traceanalyzer where the workers run.",
            ) from None
        other = {worker: found for worker, found in versions.items() if found != _version()}
        if other:
            worker, found = next(iter(other.items()))
            raise InputError(
                f"the worker {worker} has traceanalyzer {found}, not {_version()}",
                where=where,
                next_step="Install the same version everywhere.",
            )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.close()

    def submit(self, work: Callable[..., _Result], /, *arguments: Any) -> Pending[_Result]:
        """Run `work` on a worker; its result raises `WorkerDied` where several died of it."""
        future = self._client.submit(work, *arguments, pure=False)
        lost = (
            self._distributed.scheduler.KilledWorker,
            self._distributed.CancelledError,
            self._distributed.comm.CommClosedError,
        )
        return _Submitted(future, lost)


@dataclass(frozen=True, slots=True)
class _Submitted:
    """What was submitted, and what its loss looks like."""

    future: Any
    lost: tuple[type[BaseException], ...]

    def result(self) -> Any:
        """Its result, once it is there."""
        try:
            return self.future.result()
        except self.lost as error:
            raise WorkerDied(f"its workers were lost: {error}") from None


def _version() -> str:
    return traceanalyzer.__version__
