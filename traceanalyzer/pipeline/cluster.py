"""A Dask cluster that the user already has, as the place where ranks are measured.

Its workers read the files where they lie, and send back small tables. Dask runs a task again
elsewhere when its worker is lost; only what several workers died of counts as lost.
"""

from __future__ import annotations

import json
import re
import socket
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
_ADDRESS: Final = re.compile(
    r"(?:(?P<kind>tcp|tls)://)?(?P<host>[^/:\s]+|\[[^\]]+\]):(?P<port>\d{1,5})"
)


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
        found = _scheduler_at(address)
        _check_answers(found)
        try:
            self._client = distributed.Client(found, timeout=_PATIENCE_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise _nobody(address, str(error)) from None
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


def _scheduler_at(text: str) -> str:
    """The address that was given, or that the given scheduler file tells."""
    address = text
    try:
        if Path(text).is_file():
            address = json.loads(Path(text).read_bytes())["address"]
    except (OSError, ValueError, KeyError, TypeError):
        raise _nobody(text, "the file is none that a scheduler wrote") from None
    if not isinstance(address, str) or _ADDRESS.fullmatch(address) is None:
        raise _nobody(text, "this is no address")
    return address


def _check_answers(address: str) -> None:
    """A scheduler speaks first. Dask itself would wait for one that never does."""
    found = _ADDRESS.fullmatch(address)
    assert found is not None, "an address"
    place = (found["host"].strip("[]"), int(found["port"]))
    try:
        with socket.create_connection(place, timeout=_PATIENCE_S) as opened:
            if found["kind"] in (None, "tcp") and not opened.recv(1):
                raise _nobody(address, "the connection was closed")
    except (OSError, OverflowError) as error:
        raise _nobody(address, str(error)) from None


def _nobody(address: str, reason: str) -> InputError:
    return InputError(
        f"no Dask scheduler answers: {reason}",
        where=f"--scheduler {address}",
        next_step="Give its address, such as tcp://host:8786, or its scheduler file.",
    )


def _version() -> str:
    return traceanalyzer.__version__
