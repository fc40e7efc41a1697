"""A progress bar on standard error: after a second, and only on a terminal."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from traceanalyzer.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress as RichProgress

_PATIENCE_S = 1.0


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Give a `Progress` that shows itself when the work takes longer than a person waits."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield silent
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown: RichProgress | None = None

    def __call__(self, stage: str, done_share: float | None) -> None:
        if self._shown is None:
            if time.monotonic() - self._begun < _PATIENCE_S:
                return
            self._shown = _started()
        total = None if done_share is None else 1.0
        task = self._shown.task_ids[0]
        self._shown.update(task, description=stage, completed=done_share or 0.0, total=total)

    def close(self) -> None:
        if self._shown is not None:
            self._shown.stop()


def _started() -> RichProgress:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    shown = RichProgress(console=Console(stderr=True), transient=True)
    shown.add_task("", total=1.0)
    shown.start()
    return shown
