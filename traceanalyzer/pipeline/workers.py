"""Worker processes of this machine, one task at a time each; the death of one loses one task.

They are started afresh, not forked: polars' threads do not survive a fork.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from multiprocessing.process import BaseProcess
    from types import TracebackType

_Result = TypeVar("_Result")
_Found = TypeVar("_Found", covariant=True)


class Pending(Protocol[_Found]):
    """What will be there once its task is done."""

    def result(self) -> _Found:
        """Wait for it; raises what the task raised, or `WorkerDied`."""


class Submits(Protocol):
    """What runs tasks, such as processes of this machine or a cluster."""

    def submit(self, work: Callable[..., _Result], /, *arguments: Any) -> Pending[_Result]:
        """Run `work` with its arguments somewhere."""


class WorkerDied(Exception):
    """A worker process ended before its task did."""


class WorkerProcesses:
    """So many processes, within `with`; left by an exception, what runs is ended."""

    def __init__(self, size: int) -> None:
        self._threads = ThreadPoolExecutor(size)
        self._own = threading.local()
        self._pools: list[ProcessPoolExecutor] = []
        self._before: set[BaseProcess] = set(multiprocessing.active_children())

    def __enter__(self) -> WorkerProcesses:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        if kind is not None:
            for child in set(multiprocessing.active_children()) - self._before:
                child.terminate()
        self._threads.shutdown(wait=True)
        for pool in self._pools:
            pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, work: Callable[..., _Result], /, *arguments: Any) -> Future[_Result]:
        """Run `work` in a process that has nothing else to do.

        Its future raises `WorkerDied` where that process ended first.
        """
        return self._threads.submit(self._run, work, *arguments)

    def _run(self, work: Callable[..., _Result], *arguments: Any) -> _Result:
        pool: ProcessPoolExecutor | None = getattr(self._own, "pool", None)
        if pool is None:
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(1, mp_context=context, initializer=_end_quietly)
            self._own.pool = pool
            self._pools.append(pool)
        try:
            with _interrupts_held():
                pending = pool.submit(work, *arguments)
            return pending.result()
        except BrokenProcessPool:
            self._own.pool = None
            raise WorkerDied("its worker process ended, as when memory runs out") from None


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process started within takes no Ctrl-C until it says so: not while it imports."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # starting it lets this thread's interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_quietly() -> None:
    """Ctrl-C reaches all processes of a terminal; the one that asked for the work tells of it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
